"""Run folders: where they are made, and how what they hold is read and repaired.

docs/run-folder.md says what lies in one. Nothing here knows what records mean.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .errors import UserError
from .schema import SCHEMA

RUNS_VARIABLE = "INJECT_RUNS"
HIDDEN = ".inject"
NAME_LIMIT = 100


class NotARunError(UserError):
    """A path that should be a run folder, or a place that should hold some, is none."""


class Place(NamedTuple):
    """A new run folder, or why there is none."""

    path: str | None
    problems: tuple[str, ...] = ()
    """Places that were asked for and could not be written, as sentences."""


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


def create(name: str, runs: str | None = None, environ: Mapping[str, str] | None = None) -> Place:
    """Make a folder ``NAME.TIME`` of its own for a run, however many start at the same moment.

    Looked for: ``runs``, else ``$INJECT_RUNS``, else ``.inject/runs`` in the current folder; when
    that cannot be written, the user's state folder. Raises nothing: a program also runs without a
    record.
    """
    problems: list[str] = []
    for place in _places(runs, os.environ if environ is None else environ):
        folder = _attempt(place, clean_name(name), problems)
        if folder is not None:
            return Place(folder, tuple(problems))
    return Place(None, tuple(problems))


def _attempt(runs: str, name: str, problems: list[str]) -> str | None:
    try:
        return _create_in(runs, name)
    except OSError as error:
        problems.append(f"no run can be recorded in {runs}: {error.strerror or error}")
        return None


def _places(runs: str | None, environ: Mapping[str, str]) -> list[str]:
    places = [default_runs(runs, environ)]
    state = _state_runs(environ)
    return [*places, state] if state else places


def default_runs(runs: str | None = None, environ: Mapping[str, str] | None = None) -> str:
    """The folder of runs that ``--runs``, the environment and the current folder mean."""
    environ = os.environ if environ is None else environ
    asked = runs or environ.get(RUNS_VARIABLE)
    # Absolute, since the program may change its current folder.
    return os.path.abspath(asked or os.path.join(HIDDEN, "runs"))


def _state_runs(environ: Mapping[str, str]) -> str | None:
    state = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "injector", "runs") if os.path.isabs(state) else None


def clean_name(name: str) -> str:
    """``name`` as a file name, and never one that hides itself."""
    kept = "".join(c if c.isprintable() and c not in "/\\" else "_" for c in name)
    return kept.strip().lstrip(".")[:NAME_LIMIT] or "run"


def _create_in(runs: str, name: str) -> str:
    os.makedirs(runs, exist_ok=True)
    if os.path.basename(os.path.dirname(runs)) == HIDDEN:
        _keep_out_of_git(os.path.dirname(runs))
    moment = time.time_ns() // 1_000
    while True:
        folder = os.path.join(runs, f"{name}.{_stamp(moment)}")
        try:
            os.mkdir(folder)
        except FileExistsError:
            moment += 1  # somebody else's run of this very microsecond
            continue
        os.mkdir(os.path.join(folder, "raw"))
        return folder


def _stamp(microseconds: int) -> str:
    seconds, rest = divmod(microseconds, 1_000_000)
    return time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(seconds)) + f".{rest:06d}"


def _keep_out_of_git(folder: str) -> None:
    try:
        with open(os.path.join(folder, ".gitignore"), "x") as file:
            file.write("*\n")
    except OSError:
        pass  # it is there, or the run itself cannot be written either


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
