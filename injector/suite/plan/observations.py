"""Observed batch sizes, in one YAML file for each kind of device.

``inject suite size`` adds to these files, ``--batch`` chooses sizes from them (:mod:`.batch_sizes`). A file
looks like this; milabench's older form, with ``model: {64: 12000 MiB}``, is read too::

    device: NVIDIA H100 80GB HBM3
    resnet50:
      observations:
      - {batch_size: 64, memory: 8123.00 MiB, perf: 912.4, time: 1760000000}
      limits:
      - {batch_size: 1024, capacity: 81559.00 MiB}
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ...errors import UserError
from ...store.place import replace_file
from ..config.functions import bytes_of

DEVICE = "device"
MIB = 1 << 20
CPU = "cpu"
"""The kind of a machine without accelerators."""
ANYWHERE = "default"
"""The stem of the file whose observations hold for every device."""
HEAD = b"# What batches take, as measured: inject suite size adds to this file.\n"


class Observation(NamedTuple):
    """What was measured of one batch size."""

    batch: int
    memory: float
    """Bytes of a device that it took."""
    rate: float | None = None
    """Items per second."""
    time: float | None = None
    """When it was measured, in Unix seconds."""


class Limit(NamedTuple):
    """A batch size that did not fit."""

    batch: int
    capacity: float
    """The memory of the device in bytes."""


class BatchObservations(NamedTuple):
    """All observations of one benchmark on one kind of device."""

    observations: tuple[Observation, ...] = ()
    """In the order of batch sizes."""
    limits: tuple[Limit, ...] = ()


# --- reading --------------------------------------------------------------------------------------


def known_batches(folders: Iterable[str], kind: str) -> dict[str, BatchObservations]:
    """The observations in ``folders`` of each benchmark on devices of ``kind``, by the benchmark's name.

    A benchmark's observations come from one file: the file for exactly this device before one whose name is a
    word of the device's (``H100.yaml``), and that before ``default.yaml``. Between files of the same rank,
    the earlier folder's wins. Raises UserError if a file is not understood.
    """
    files = [path for folder in folders for path in _yaml_files(folder)]
    ranked: list[tuple[int, dict[str, BatchObservations]]] = []
    for path in files:
        content = read_observations(path)
        rank = _rank(str(content.get(DEVICE) or ""), Path(path).stem, kind)
        if rank is not None:
            ranked.append((rank, _benchmarks(path, content)))
    known: dict[str, BatchObservations] = {}
    # Files are not mixed: a line through what a batch takes on two kinds of devices means nothing.
    for _, benchmarks in sorted(ranked, key=lambda pair: pair[0]):
        for name, observations in benchmarks.items():
            known.setdefault(name, observations)
    return known


def _yaml_files(folder: str) -> list[str]:
    """The paths of the YAML files in ``folder``, which may be a single file itself."""
    if os.path.isfile(folder):
        return [folder]
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if name.endswith((".yaml", ".yml"))]


def _rank(device: str, stem: str, kind: str) -> int | None:
    """How well a file matches a kind of device, from 0, the best; None if it is for another one."""
    if device:
        return 0 if device == kind else None
    if stem == kind or stem == file_stem(kind):
        return 0
    words = re.split(r"[^a-z0-9]+", kind.lower())
    return 1 if stem.lower() in words else 2 if stem == ANYWHERE and kind != CPU else None


def read_observations(path: str) -> dict[str, Any]:
    """The content of a file of observations. Raises UserError if it is not a YAML mapping."""
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
    """The observations of each benchmark in the file ``path``. Raises UserError."""
    parsed = {}
    for name, entry in content.items():
        if isinstance(entry, dict):
            try:
                parsed[str(name)] = _parsed(entry)
            except (ValueError, TypeError, KeyError) as error:
                what = f"{error} is missing" if isinstance(error, KeyError) else error
                raise UserError(f"{path}: {name}: {what}") from None
    return {name: known for name, known in parsed.items() if known.observations or known.limits}


def _parsed(entry: Mapping[str, Any]) -> BatchObservations:
    """One benchmark's entry of a file. Raises ValueError, TypeError, KeyError."""
    observations = [
        Observation(
            int(each["batch_size"]),
            bytes_of(each["memory"]),
            float(each["perf"]) if each.get("perf") is not None else None,
            each.get("time"),
        )
        for each in entry.get("observations") or ()
    ]
    # milabench's first form; its second is the form that we write.
    for batch, memory in (entry.get("model") or {}).items():
        if memory is not None:
            observations.append(Observation(int(batch), bytes_of(memory)))
    limits = [
        Limit(int(each["batch_size"]), bytes_of(each["capacity"]))
        for each in entry.get("limits") or ()
    ]
    return BatchObservations(tuple(sorted(observations)), tuple(sorted(limits)))


# --- writing --------------------------------------------------------------------------------------


def file_stem(kind: str) -> str:
    """The stem of the name of the file for devices of ``kind``."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", kind).strip("-.") or "device"


def add_observations(folder: str, kind: str, benchmark: str, new: BatchObservations) -> str:
    """Add ``new`` to the file for ``kind`` in ``folder`` and return the file's path.

    A new observation replaces older ones of the same batch size, and a limit is dropped once a batch of at
    least its size was measured. The file is replaced as a whole: a reader never finds half of it, and
    processes that write at the same time do not lose each other's observations. Raises UserError if the file
    cannot be written, or what is in it is not understood.
    """
    path = os.path.join(folder, f"{file_stem(kind)}.yaml")
    try:
        os.makedirs(folder, exist_ok=True)
        # The lock is on the folder: the file itself is a new one after every write.
        with _folder_lock(folder):
            content = read_observations(path) if os.path.exists(path) else {}
            content = {DEVICE: kind, **content}
            entry = content.setdefault(benchmark, {})
            if not isinstance(entry, dict):
                raise UserError(f"{path}: {benchmark}: should be a table with observations")
            _merge(entry, new)
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
    """Keep other processes from adding to files of ``folder`` meanwhile."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _merge(entry: dict[str, Any], new: BatchObservations) -> None:
    """Add ``new`` to ``entry``, the benchmark's part of a file; see :func:`add_observations`."""
    old = [row for row in entry.get("observations") or () if isinstance(row, dict)]
    # What a file has in milabench's first form is kept in the second.
    old += [{"batch_size": b, "memory": m} for b, m in (entry.pop("model", None) or {}).items()]
    measured = {each.batch for each in new.observations}
    kept = [row for row in old if row.get("batch_size") not in measured]
    rows = [*kept, *map(_observation_row, new.observations)]
    entry["observations"] = sorted(rows, key=lambda row: int(row.get("batch_size") or 0))
    limits = [row for row in entry.get("limits") or () if isinstance(row, dict)]
    largest = max(measured, default=0)
    refused_again = {each.batch for each in new.limits}
    # A limit at or below a batch that fits now is out of date: the program needs less memory than it did.
    limits = [
        row
        for row in limits
        if row.get("batch_size") not in refused_again and int(row.get("batch_size") or 0) > largest
    ]
    limits += [
        {"batch_size": each.batch, "capacity": _mebibytes(each.capacity)} for each in new.limits
    ]
    entry["limits"] = sorted(limits, key=lambda row: int(row.get("batch_size") or 0))
    if not entry["limits"]:
        del entry["limits"]


def _observation_row(observation: Observation) -> dict[str, Any]:
    """An observation as a file has it; measured now if it does not say when."""
    batch, memory, rate, measured = observation
    row: dict[str, Any] = {"batch_size": batch, "memory": _mebibytes(memory)}
    if rate is not None:
        row["perf"] = round(rate, 2)
    return {**row, "time": int(measured if measured is not None else time.time())}


def _mebibytes(count: float) -> str:
    return f"{count / MIB:.2f} MiB"
