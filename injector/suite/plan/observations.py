"""Observed batch sizes: one YAML file for each kind of device; milabench's files are read too."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import yaml

from ...errors import UserError
from ...store.place import replace_file
from ..config.sizes import bytes_of

DEVICE = "device"
MIB = 1 << 20
CPU = "cpu"
"""The kind of a machine without accelerators."""
ANYWHERE = "default"
"""The name of a file that says something of every device."""
HEAD = b"# What batches take, as measured: inject suite size adds to this file.\n"


class Observation(NamedTuple):
    """What a batch of some size took."""

    batch: int
    memory: float
    """Bytes, of a device."""
    rate: float | None = None
    """Items per second."""
    time: float | None = None
    """Unix seconds."""


class Limit(NamedTuple):
    """A batch that did not fit."""

    batch: int
    capacity: float
    """Bytes of the device."""


class BatchObservations(NamedTuple):
    """All that is known of one benchmark on one kind of device."""

    observations: tuple[Observation, ...] = ()
    """The smallest batch first."""
    limits: tuple[Limit, ...] = ()


# --- reading --------------------------------------------------------------------------------------


def known_batches(folders: Iterable[str], kind: str) -> dict[str, BatchObservations]:
    """What the files of ``folders`` say of each benchmark on devices of ``kind``.

    A file of this very device comes before one whose name is part of the device's (``H100.yaml``), and
    that before ``default.yaml``; of equals, the earlier folder's.

    Raises:
        UserError: a file that cannot be understood.
    """
    files = [path for folder in folders for path in _files(folder)]
    ranked: list[tuple[int, dict[str, BatchObservations]]] = []
    for path in files:
        content = read_observations(path)
        rank = _rank(str(content.get(DEVICE) or ""), _stem(path), kind)
        if rank is not None:
            ranked.append((rank, _benchmarks(path, content)))
    found: dict[str, BatchObservations] = {}
    for _, benchmarks in sorted(ranked, key=lambda each: each[0]):
        for name, content_of in benchmarks.items():
            found.setdefault(name, content_of)
    return found


def _files(folder: str) -> list[str]:
    if os.path.isfile(folder):
        return [folder]
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if name.endswith((".yaml", ".yml"))]


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _rank(device: str, stem: str, kind: str) -> int | None:
    """How well a file suits a kind of device, 0 best; None if it is about another one."""
    if device:
        return 0 if device == kind else None
    if stem == kind or stem == file_stem(kind):
        return 0
    words = re.split(r"[^a-z0-9]+", kind.lower())
    return 1 if stem.lower() in words else 2 if stem == ANYWHERE and kind != CPU else None


def read_observations(path: str) -> dict[str, Any]:
    """The content of a file of observations. Raises UserError."""
    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: is not YAML: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UserError(f"{path}: should be benchmarks with their observations")
    return content


def _benchmarks(path: str, content: Mapping[str, Any]) -> dict[str, BatchObservations]:
    found = {}
    for name, content_of in content.items():
        if isinstance(content_of, dict):
            try:
                found[str(name)] = _parsed(content_of)
            except (ValueError, TypeError, KeyError) as error:
                what = f"{error} is missing" if isinstance(error, KeyError) else error
                raise UserError(f"{path}: {name}: {what}") from None
    return {name: each for name, each in found.items() if each.observations or each.limits}


def _parsed(content_of: Mapping[str, Any]) -> BatchObservations:
    """Our form is milabench's second; its first has ``model: {batch: memory}``."""
    observations = [
        Observation(
            int(each["batch_size"]),
            bytes_of(each["memory"]),
            float(each["perf"]) if each.get("perf") is not None else None,
            each.get("time"),
        )
        for each in content_of.get("observations") or ()
    ]
    for batch, memory in (content_of.get("model") or {}).items():
        if memory is not None:
            observations.append(Observation(int(batch), bytes_of(memory)))
    limits = [
        Limit(int(each["batch_size"]), bytes_of(each["capacity"]))
        for each in content_of.get("limits") or ()
    ]
    return BatchObservations(tuple(sorted(observations)), tuple(sorted(limits)))


# --- writing --------------------------------------------------------------------------------------


def file_stem(kind: str) -> str:
    """``kind`` as the name of a file."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", kind).strip("-.") or "device"


def add_observations(folder: str, kind: str, benchmark: str, new: BatchObservations) -> str:
    """Write ``new`` into the file of ``kind`` in ``folder``, beside what stands there; its path.

    A batch that was measured again replaces what was known of it; a limit that a batch has now
    outgrown is dropped. The file is there whole or as it was, also where other processes write.

    Raises:
        UserError: it cannot be written, or what stands there cannot be understood.
    """
    path = os.path.join(folder, f"{file_stem(kind)}.yaml")
    try:
        os.makedirs(folder, exist_ok=True)
        with _folder_lock(folder):
            content = read_observations(path) if os.path.exists(path) else {}
            content = {DEVICE: kind, **content}
            content_of = content.setdefault(benchmark, {})
            if not isinstance(content_of, dict):
                raise UserError(f"{path}: {benchmark}: should be a table with observations")
            _merge(content_of, new)
            text = yaml.safe_dump(
                content, sort_keys=False, width=1000, allow_unicode=True, default_flow_style=None
            )
            replace_file(path, [HEAD, text.encode()])
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written: {error.strerror}; --sizing names another folder"
        ) from None
    return path


@contextmanager
def _folder_lock(folder: str) -> Iterator[None]:
    """Lock ``folder``: no other process adds to its files meanwhile."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _merge(content_of: dict[str, Any], new: BatchObservations) -> None:
    old = [each for each in content_of.get("observations") or () if isinstance(each, dict)]
    # What milabench's first form knew goes on in the second.
    old += [
        {"batch_size": b, "memory": m} for b, m in (content_of.pop("model", None) or {}).items()
    ]
    measured = {each.batch for each in new.observations}
    kept = [each for each in old if each.get("batch_size") not in measured]
    rows = [*kept, *map(_observation, new.observations)]
    content_of["observations"] = sorted(rows, key=lambda each: int(each.get("batch_size") or 0))
    limits = [each for each in content_of.get("limits") or () if isinstance(each, dict)]
    largest = max(measured, default=0)
    again = {each.batch for each in new.limits}
    limits = [
        each
        for each in limits
        if each.get("batch_size") not in again and int(each.get("batch_size") or 0) > largest
    ]
    limits += [
        {"batch_size": each.batch, "capacity": _mebibytes(each.capacity)} for each in new.limits
    ]
    content_of["limits"] = sorted(limits, key=lambda each: int(each.get("batch_size") or 0))
    if not content_of["limits"]:
        del content_of["limits"]


def _observation(each: Observation) -> dict[str, Any]:
    row: dict[str, Any] = {"batch_size": each.batch, "memory": _mebibytes(each.memory)}
    if each.rate is not None:
        row["perf"] = round(each.rate, 2)
    return {**row, "time": int(each.time if each.time is not None else time.time())}


def _mebibytes(count: float) -> str:
    return f"{count / MIB:.2f} MiB"
