"""How what a run folder holds is found, read and repaired.

docs/run-folder.md says what lies in one. Nothing here knows what records mean.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..errors import UserError
from ..schema import SCHEMA
from .place import default_runs


class NotARunError(UserError):
    """A path that should be a run folder, or a place that should hold some, is none."""


class Run(NamedTuple):
    """A run folder that was opened."""

    path: str
    info: dict[str, Any]
    """What ``run.json`` says; empty for a run that nobody collected, and for a foreign one."""
    data_files: tuple[str, ...]


class Damage:
    """Counts the lines that a reader had to leave out because they were torn."""

    __slots__ = ("torn",)

    def __init__(self) -> None:
        self.torn = 0


def find(which: str | None = None, runs: str | None = None) -> str:
    """The run folder that ``which`` names: a path, or a name in the folder of runs.

    The newest if None. Raises NotARunError, saying what was looked for.
    """
    base = default_runs(runs)
    if which is None:
        found = newest(base)
        if found is None:
            raise NotARunError(f"there is no run in {base}")
        return found
    for path in (which, os.path.join(base, which)):
        if is_run(path):
            return os.path.abspath(path)
    reason = "holds no record of a run" if os.path.isdir(which) else "does not exist"
    raise NotARunError(f"{which}: this folder {reason}, and {base} has no run of that name")


def newest(runs: str) -> str | None:
    """The run in the folder ``runs`` that started last."""
    try:
        names = os.listdir(runs)
    except OSError:
        return None
    folders = [path for name in names if is_run(path := os.path.join(runs, name))]
    return newest_of(folders)


def newest_of(folders: Iterable[str]) -> str | None:
    """Of folders named NAME.TIME the one that began last."""
    return max(folders, key=_started, default=None)


def _started(folder: str) -> tuple[str, str]:
    # The last two parts are the time; other writers put ":" where ours have "-".
    parts = os.path.basename(folder).split(".")
    return ".".join(parts[-2:]).replace(":", "-"), folder


def is_run(path: str) -> bool:
    """Whether the folder ``path`` looks like a run, ours or milabench's."""
    try:
        names = os.listdir(path)
    except OSError:
        return False
    return "run.json" in names or "raw" in names or any(name.endswith(".data") for name in names)


def open_run(path: str) -> Run:
    """Open the run folder ``path``. Raises NotARunError, also for one of a later schema."""
    if not is_run(path):
        raise NotARunError(f"{path}: this folder holds no record of a run")
    names = sorted(name for name in os.listdir(path) if name.endswith(".data"))
    return Run(path, read_info(path), tuple(os.path.join(path, name) for name in names))


def read_info(folder: str) -> dict[str, Any]:
    """What ``run.json`` in ``folder`` says, nothing if it is missing or broken.

    Raises NotARunError when a later version wrote it.
    """
    try:
        with open(os.path.join(folder, "run.json"), "rb") as file:
            info = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(info, dict):
        return {}
    check_schema(info.get("schema"), folder)
    return info


def check_schema(version: object, where: str) -> None:
    """Raise NotARunError when ``version`` is one that is not known here."""
    if isinstance(version, int) and version > SCHEMA:
        raise NotARunError(
            f"{where} was written by a later injector "
            f"(its schema is {version}; this one reads up to {SCHEMA})"
        )


def write_info(folder: str, info: Mapping[str, Any]) -> None:
    """Write ``run.json`` whole or not at all, the schema's version first. Raises OSError."""
    text = json.dumps({"schema": SCHEMA, **info}, indent=1)
    replace_file(os.path.join(folder, "run.json"), [text.encode(), b"\n"])


def replace_file(path: str, pieces: Iterator[bytes] | list[bytes]) -> None:
    """Put ``pieces`` at ``path`` in one step: nobody ever reads half of them. Raises OSError."""
    draft = f"{path}.{os.getpid()}.draft"
    try:
        with open(draft, "wb") as file:
            file.writelines(pieces)
        os.replace(draft, path)
    except BaseException:
        try:
            os.unlink(draft)
        except OSError:
            pass
        raise


def read_records(path: str, damage: Damage) -> Iterator[dict[str, Any]]:
    """The records of a raw or ``.data`` file, in order.

    Whatever a process that was killed left (a line in part, bytes never written) is left out and
    counted in ``damage``. Raises OSError.
    """
    with open(path, "rb") as file:
        for line in file:
            text = line.strip(b"\0 \t\r\n")
            if not text:
                continue
            try:
                record = json.loads(text)
            except (ValueError, RecursionError):
                record = None
            if isinstance(record, dict) and isinstance(record.get("event"), str):
                yield record
            else:
                damage.torn += 1


def read_events(run: Run, damage: Damage) -> Iterator[tuple[str, str, Any]]:
    """The events of ``run``'s ``.data`` files as (name of the file's bench, event, data)."""
    for path in run.data_files:
        name = os.path.basename(path)[: -len(".data")]
        for record in read_records(path, damage):
            yield name, record["event"], record.get("data")
