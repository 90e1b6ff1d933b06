"""How run folders are found and opened.

docs/run-folder.md says what lies in one. Nothing here knows what records mean.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from ..named_tuple import NamedTuple
from .logs import Damage, read_records
from .place import clean_name, data_files, default_runs, stamp
from .run_json import NAME, NotARunError, read_info

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

PLAN, JOURNAL = "plan.json", "journal.jsonl"
"""In the folder of a suite's run: what it starts, and what became of that."""
LAST = "LAST"
"""What stands for the newest run wherever one is named."""


class Run(NamedTuple):
    """A run folder that was opened."""

    path: str
    info: dict[str, Any]
    """What ``run.json`` says; empty for a run that was not collected, and for a foreign one."""
    data_files: tuple[str, ...]
    copy: str | None = None
    """Where a damaged run is read from: a folder with what is whole of it."""
    damage: tuple[str, ...] = ()
    """What of the record is missing or was changed, as sentences."""

    @property
    def content(self) -> str:
        """The folder that holds its ``raw/``."""
        return self.copy or self.path


def find(which: str | None = None, runs: str | None = None) -> str:
    """The run folder that ``which`` names: a path, or what :func:`resolve` takes in the folder of runs.

    The newest if None. Raises NotARunError, saying what was looked for.
    """
    if which and which != LAST and is_run(which):
        return os.path.abspath(which)
    base = runs_folder(runs)
    found = resolve(which, base, is_run)
    if found is not None:
        return found
    if which is None or which == LAST:
        raise NotARunError(f"there is no run in {base}")
    near = _nearest(which, base)
    raise NotARunError(f"{which}: {_no_run(which)}, and {base} has no run of that name{near}")


def runs_folder(runs: str | None) -> str:
    """The folder that runs are looked for in. Raises NotARunError when ``--runs`` names none."""
    if runs is not None and not os.path.isdir(runs):
        why = "this is no folder" if os.path.exists(runs) else "there is no such folder"
        raise NotARunError(f"--runs {runs or repr(runs)}: no runs can be listed: {why}")
    return default_runs(runs)


def _no_run(which: str) -> str:
    """Why the path ``which`` is no run."""
    try:
        os.listdir(which)
    except FileNotFoundError:
        return "this folder does not exist"
    except NotADirectoryError:
        return "this is a file and no folder of a run"
    except OSError as error:
        return f"this folder cannot be read ({error.strerror})"
    if newest(which) is not None:
        return f"this is a folder of runs (name one of them, or add --runs {which})"
    return "this folder holds no record of a run"


def resolve(which: str | None, base: str, fits: Callable[[str], bool]) -> str | None:
    """The folder in ``base`` that ``which`` names, among those that ``fits`` takes; None for no such one.

    ``which`` is the name of a folder, the name that ``--name`` gave (the newest of several), or how the
    name of one begins; None and ``LAST`` stand for the newest of all. Raises NotARunError when several
    names begin so.
    """
    names = _names(base)
    if which is None or which == LAST:
        return newest_of(path for name in names if fits(path := os.path.join(base, name)))
    if not which.strip():
        raise NotARunError("the name of a run is empty: give its folder, its name, or LAST")
    if not which.strip("./"):
        return None
    wanted = which.rstrip("/")
    if not any(name.startswith(wanted) for name in names):
        wanted = clean_name(wanted)
    begin = [name for name in names if name.startswith(wanted)]
    begin = [name for name in begin if fits(os.path.join(base, name))]
    if wanted in begin:
        return os.path.abspath(os.path.join(base, wanted))
    called = [name for name in begin if _split(name)[0] == wanted] or begin
    several = sorted({_split(name)[0] for name in called})
    if len(several) > 1 or (several and len(called) > 1 and len(wanted) > len(several[0])):
        shown = several if len(several) > 1 else sorted(called)
        more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
        raise NotARunError(f"{which}: several runs begin so: {', '.join(shown[:5])}{more}")
    found = newest_of(os.path.join(base, name) for name in called)
    return None if found is None else os.path.abspath(found)


def _names(base: str) -> list[str]:
    try:
        return os.listdir(base)
    except OSError:
        return []


def _nearest(which: str, base: str) -> str:
    from difflib import get_close_matches

    known = {_split(name)[0] for name in _names(base) if is_run(os.path.join(base, name))}
    near = get_close_matches(which, known, 3)
    return f"; the nearest: {', '.join(near)}" if near else ""


def newest(runs: str) -> str | None:
    """The run in the folder ``runs`` that started last."""
    return resolve(None, runs, is_run)


def newest_of(folders: Iterable[str]) -> str | None:
    """Of folders the one that began last: named NAME.TIME, else as the file system knows."""
    return max(folders, key=_started, default=None)


def _started(folder: str) -> tuple[str, str]:
    try:
        moment = _split(os.path.basename(folder))[1]
        return moment or stamp(int(os.path.getmtime(folder) * 1e6)), folder
    except OSError:
        return "", folder


def _split(name: str) -> tuple[str, str]:
    """NAME and TIME of the folder ``NAME.TIME``; no time for one that was called otherwise."""
    stem, _, moment = name.rpartition(".")
    stem, _, day = stem.rpartition(".")
    when = f"{day}.{moment}".replace(":", "-")  # other writers put ":" where ours have "-"
    if len(day) == 19 and when[:10].replace("-", "").isdecimal() and stem:
        return stem, when
    return name, ""


def is_suite_run(folder: str) -> bool:
    """Whether ``folder`` holds what ``inject suite run`` leaves, be it without its plan."""
    return any(os.path.isfile(os.path.join(folder, name)) for name in (PLAN, JOURNAL))


def is_run(path: str) -> bool:
    """Whether the folder ``path`` looks like a run, ours or milabench's."""
    try:
        names = os.listdir(path)
    except OSError:
        return False
    return NAME in names or "raw" in names or bool(data_files(names))


def open_run(path: str) -> Run:
    """Open the run folder ``path``. Raises NotARunError, also for one of a later schema."""
    if not is_run(path):
        raise NotARunError(f"{path}: this folder holds no record of a run")
    names = data_files(os.listdir(path))
    return Run(path, read_info(path), tuple(os.path.join(path, name) for name in names))


def read_events(run: Run, damage: Damage) -> Iterator[tuple[str, str, Any]]:
    """The events of ``run``'s ``.data`` files as (name of the file's bench, event, data)."""
    for path in run.data_files:
        name = os.path.basename(path)[: -len(".data")]
        for record in read_records(path, damage):
            yield name, record["event"], record.get("data")
