"""The run folder of a suite: made, found again, held by one process at a time; what earlier jobs took."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Collection, Mapping
from typing import Any

from ...errors import UserError
from ...store.folder import LAST, is_suite_run, resolve
from ...store.place import clean_name, create_unique, data_files, replace_file
from ...store.run_json import checksum_of
from ..plan import jobs as plans
from ..plan.jobs import Job, Plan
from . import journal

LOCK = "lock"
RUNS = "runs"
YAML = (".yaml", ".yml")


def create(base: str, name: str) -> str:
    """A new folder ``BASE/runs/NAME.TIME``. Raises UserError when it cannot be made."""
    runs = os.path.join(base, RUNS)
    try:
        return create_unique(runs, clean_name(name))
    except OSError as error:
        raise UserError(f"no suite can be run in {runs}: {error.strerror}") from None


def write_plan(folder: str, plan: Plan) -> None:
    """Write ``plan.json``, whole or not at all. Raises UserError when that fails."""
    content = plan.as_json()
    text = json.dumps({**content, "checksum": checksum_of(content)}, indent=1)
    try:
        replace_file(os.path.join(folder, plans.FILE), [text.encode(), b"\n"])
    except OSError as error:
        raise UserError(f"{folder}: no plan can be written: {error.strerror}") from None


class NoResultsError(UserError):
    """A folder that should hold the runs of a suite holds none."""


def find_suite_run(which: str | None, base: str) -> str:
    """The folder of a suite's runs that ``which`` names: a path, a name below ``base``, a suite.

    A suite's file, or its name, stands for the newest of its runs; None and ``LAST`` for the newest of
    all. Of a folder that holds several, the newest as well.

    Raises:
        NoResultsError: there is none; the text names the folders that were searched.
        NotARunError: the beginning of several names.
    """
    runs = os.path.join(base, RUNS)
    named = which
    if which is not None and which.endswith(YAML):
        named = os.path.splitext(os.path.basename(which))[0]
    elif which is not None and is_suite_run(which):
        return os.path.abspath(which)
    elif which is not None and os.path.isdir(which):
        return resolve(None, which, is_suite_run) or which
    found = resolve(named, runs, is_suite_run)
    # A file stands for the runs of that suite, not for those of one whose name begins like its.
    if found is not None and (named == which or os.path.basename(found).startswith(f"{named}.")):
        return found
    if which is None or which == LAST:
        raise NoResultsError(f"no suite has been run in {runs}")
    if which.endswith(YAML):
        raise NoResultsError(f"{which}: no run of it is in {runs}")
    raise NoResultsError(f"{which}: there is no such folder, and {runs} has no run of that name")


def find_resumable(base: str, which: str | None, suite: str | None = None) -> str:
    """The run folder that ``--resume`` means: a path, a run's name below ``base``, else the newest.

    With ``suite`` (the path of a YAML) the newest of that suite.

    Raises:
        UserError: there is none; the text names the folders that were searched.
    """
    runs = os.path.join(base, RUNS)
    if which is not None and which != LAST:
        found = which if is_suite_run(which) else resolve(which, runs, is_suite_run)
        if found is not None:
            return os.path.abspath(found)
        raise UserError(f"--resume {which}: no suite has been run in {which}, nor in {runs}")
    for path in newest_runs(runs):
        if suite is None or _suite_of(path) == os.path.abspath(suite):
            return path
    of = f" of {suite}" if suite else ""
    raise UserError(f"--resume: there is no run{of} in {runs}")


def newest_runs(runs: str) -> list[str]:
    """The run folders of suites in the folder ``runs``, the newest first."""
    try:
        names = os.listdir(runs)
    except OSError:
        return []
    names.sort(key=lambda name: name.split(".")[-2:], reverse=True)
    paths = (os.path.join(runs, name) for name in names)
    return [path for path in paths if is_suite_run(path)]


def _suite_of(folder: str) -> str | None:
    try:
        with open(os.path.join(folder, plans.FILE), encoding="utf-8") as file:
            suite = json.load(file)["suite"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return suite.get("file") if isinstance(suite, Mapping) else None


def is_held(folder: str) -> bool:
    """Whether a process runs the suite in ``folder``; true before it is run for the first time."""
    try:
        file = os.open(os.path.join(folder, LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # it was run already where there is a journal: the lock is older
        return not os.path.exists(os.path.join(folder, journal.FILE))
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(file)


class FolderLock:
    """The lock of a run folder: one process runs it at a time.

    Raises:
        UserError: another process runs it.
    """

    def __init__(self, folder: str) -> None:
        self._file = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        if not self._locked():
            holder = os.pread(self._file, 40, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise UserError(f"{folder} is being run by process {holder or '?'}") from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def _locked(self) -> bool:
        """Lock it; tried repeatedly, since a process that watches holds it for a moment (:func:`is_held`)."""
        for _ in range(20):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                time.sleep(0.01)
        return False

    def release(self) -> None:
        """Let others have it."""
        os.close(self._file)


MOST = 20
"""Run folders that are looked into, the newest first."""


def past_durations(base: str, names: Collection[str], most: int = MOST) -> dict[str, float]:
    """By benchmark of ``names``, how long its last job below ``base`` took that ended well."""
    found: dict[str, float] = {}
    for folder in newest_runs(os.path.join(base, RUNS))[:most]:
        if len(found) == len(names):
            break
        for record in reversed(journal.records(folder)):
            name = record.get("benchmark")
            if name in names and name not in found and _passed(record):
                found[name] = float(record["seconds"])
    return found


def _passed(record: Mapping[str, Any]) -> bool:
    finished = record.get("state") == journal.FINISHED and record.get("ok") is True
    return finished and isinstance(record.get("seconds"), (int, float))


def link_data(folder: str, job: Job, repeats: bool) -> None:
    """Put ``BENCH.D0.data``, … (``BENCH.R1.D0.data`` where there are repeats) into the suite's folder.

    One that an earlier attempt left is replaced. Raises OSError.
    """
    stem = clean_name(job.benchmark) + (f".R{job.repeat}" if repeats else "")
    for number, process in enumerate(job.processes):
        path = os.path.join(folder, f"{stem}.D{number}.data")
        if os.path.lexists(path):
            os.unlink(path)
        found = _data_file(os.path.join(folder, process.run))
        if found is not None:
            _link_or_copy(found, path)


def _data_file(run: str) -> str | None:
    """The stream of events of a run, if it has one."""
    try:
        names = data_files(os.listdir(run))
    except OSError:
        return None
    return os.path.join(run, names[0]) if names else None


def _link_or_copy(old: str, new: str) -> None:
    try:
        os.link(old, new)
    except OSError:  # a file system without hard links
        shutil.copyfile(old, new)
