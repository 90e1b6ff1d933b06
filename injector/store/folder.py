"""How run folders are found by name and opened.

A run may be named by its path, by its folder's name, by the name that ``--name`` gave it, by the beginning of
one of these, or by ``LAST`` (:func:`find`). docs/run-folder.md describes the files of a run folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from ..named_tuple import NamedTuple
from .logs import Damage, read_records
from .place import clean_name, data_files, default_runs, stamp
from .run_json import NAME, NotARunError, read_info

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

PLAN, JOURNAL = "plan.json", "journal.jsonl"
"""The files in the folder of a suite's run with the jobs that it starts, and with what became of them."""
LAST = "LAST"
"""The name of the newest run."""


class Run(NamedTuple):
    """A run folder that was opened."""

    path: str
    info: dict[str, Any]
    """The content of ``run.json``; empty for a run that was not collected, and for one of another tool."""
    data_files: tuple[str, ...]
    """The paths of its streams of events."""
    copy: str | None = None
    """The folder that is read in its place, if it is damaged: with the parts that are as recorded."""
    damage: tuple[str, ...] = ()
    """Sentences on what of the record is missing or was changed."""

    @property
    def content(self) -> str:
        """The folder whose ``raw/`` is read."""
        return self.copy or self.path


def find(which: str | None = None, runs: str | None = None) -> str:
    """The run folder that ``which`` names: a path, or a name in the folder of runs as of :func:`resolve`.

    The newest run if None. Raises NotARunError with a message that says where it was looked for.
    """
    if which and which != LAST and is_run(which):
        return os.path.abspath(which)
    base = runs_folder(runs)
    path = resolve(which, base, is_run)
    if path is not None:
        return path
    if which is None or which == LAST:
        raise NotARunError(f"there is no run in {base}")
    if which in _names(base):
        inner = os.path.join(base, which)
        raise NotARunError(f"{inner}: {_no_run(inner)}")
    near = _nearest(which, base)
    raise NotARunError(f"{which}: {_no_run(which)}, and {base} has no run of that name{near}")


def runs_folder(runs: str | None) -> str:
    """The folder in which runs are looked for, ``--runs`` or the default. Raises NotARunError without one."""
    if runs is not None and not os.path.isdir(runs):
        why = "this is no folder" if os.path.exists(runs) else "there is no such folder"
        raise NotARunError(f"--runs {runs or repr(runs)}: no runs can be listed: {why}")
    return default_runs(runs)


def _no_run(which: str) -> str:
    """The reason why the path ``which`` is no run."""
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
    """The folder in ``base`` that ``which`` names, of those that ``fits`` accepts; None without one.

    ``which`` is the name of a folder, the name that ``--name`` gave (the newest run of that name), or the
    beginning of one of them; None and ``LAST`` stand for the newest of all. Raises NotARunError if several
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
        wanted = clean_name(wanted)  # as the folder was named after what --name gave
    matches = [name for name in names if name.startswith(wanted)]
    # Only these are looked into: a folder of runs may have thousands.
    matches = [name for name in matches if fits(os.path.join(base, name))]
    if wanted in matches:
        return os.path.abspath(os.path.join(base, wanted))
    same_name = [name for name in matches if _split(name)[0] == wanted] or matches
    run_names = sorted({_split(name)[0] for name in same_name})
    # The newest of several runs of one name is meant, unless a part of their TIMEs was given as well.
    if len(run_names) > 1 or (run_names and len(same_name) > 1 and len(wanted) > len(run_names[0])):
        shown = run_names if len(run_names) > 1 else sorted(same_name)
        more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
        raise NotARunError(
            f"{which}: the names of several runs begin so: {', '.join(shown[:5])}{more}"
        )
    latest = newest_of(os.path.join(base, name) for name in same_name)
    return None if latest is None else os.path.abspath(latest)


def _names(base: str) -> list[str]:
    """The names in the folder ``base``; none if it cannot be read."""
    try:
        return os.listdir(base)
    except OSError:
        return []


def _nearest(which: str, base: str) -> str:
    """The end of a sentence: the names of runs in ``base`` that are nearly ``which``; empty without any."""
    from difflib import get_close_matches

    known = {_split(name)[0] for name in _names(base) if is_run(os.path.join(base, name))}
    near = get_close_matches(which, known, 3)
    return f"; the nearest: {', '.join(near)}" if near else ""


def newest(runs: str) -> str | None:
    """The run in the folder ``runs`` that started last; None if there is no run."""
    return resolve(None, runs, is_run)


def newest_of(folders: Iterable[str]) -> str | None:
    """The one of ``folders`` that began last."""
    return max(folders, key=began, default=None)


def began(folder: str) -> tuple[str, str]:
    """When the run in ``folder`` began, by which runs are sorted; the path settles the order of equals.

    That is the TIME in its name, else the same of its ``run.json``, else of the folder's last change.
    """
    if moment := _split(os.path.basename(folder))[1]:
        return moment, folder
    for seconds_of in (_recorded_begin, os.path.getmtime):
        try:
            return stamp(int(seconds_of(folder) * 1e6)), folder
        except (NotARunError, OSError, ArithmeticError, LookupError, TypeError, ValueError):
            pass  # there is no run.json, or it is broken
    return "", folder


def _recorded_begin(folder: str) -> float:
    """When a run began according to its ``run.json``, unix seconds.

    Raises NotARunError, and LookupError, TypeError or ValueError if it has no such number.
    """
    return float(read_info(folder)["started"])


def _split(name: str) -> tuple[str, str]:
    """NAME and TIME of the folder ``NAME.TIME``. TIME is empty if the folder is not named so."""
    stem, _, moment = name.rpartition(".")
    stem, _, day = stem.rpartition(".")
    # milabench puts ":" between hours, minutes and seconds.
    when = f"{day}.{moment}".replace(":", "-")
    if len(day) == 19 and when[:10].replace("-", "").isdecimal() and stem:
        return stem, when
    return name, ""


def is_suite_run(folder: str) -> bool:
    """Whether ``folder`` holds the run of a suite, even one whose plan is lost."""
    return any(os.path.isfile(os.path.join(folder, name)) for name in (PLAN, JOURNAL))


def is_run(path: str) -> bool:
    """Whether ``path`` is a folder that looks like a run, of ours or of milabench."""
    try:
        names = os.listdir(path)
    except OSError:
        return False
    return NAME in names or "raw" in names or bool(data_files(names))


def open_run(path: str) -> Run:
    """Open the run folder ``path``. Raises NotARunError, for a later schema as well, and OSError."""
    if not is_run(path):
        raise NotARunError(f"{path}: this folder holds no record of a run")
    names = data_files(os.listdir(path))
    return Run(path, read_info(path), tuple(os.path.join(path, name) for name in names))


def read_events(run: Run, damage: Damage) -> Iterator[tuple[str, str, Any]]:
    """The events of the ``.data`` files of ``run``: the file's name without suffix, event, data. Raises
    OSError.

    ``damage`` counts the lines that are left out.
    """
    for path in run.data_files:
        name = os.path.basename(path)[: -len(".data")]
        for record in read_records(path, damage):
            yield name, record["event"], record.get("data")


def data_events(run: Run) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The events ``data`` of ``run``: the file's name without suffix, the process, and the data.

    Raises OSError.
    """
    for bench, event, data in read_events(run, Damage()):
        if event == "data" and isinstance(data, dict):
            yield bench, process_of(data), data


def process_of(data: Mapping[str, Any]) -> int:
    """The process that the data of an event are from; milabench's do not name one."""
    process = data.get("process")
    return process if isinstance(process, int) else 0
