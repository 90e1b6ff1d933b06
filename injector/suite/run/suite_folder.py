"""The run folder of a suite, ``BASE/runs/NAME.TIME``: creating, finding and locking it.

::

    plan.json       what is to run, written once
    journal.jsonl   what has become of each job (:mod:`.journal`)
    lock            held by the process that runs the suite, with its process id
    jobs/           a run folder for each process of a job
    machines/       the parts of jobs on other machines (:mod:`.machine_part`)
    NAME.D0.data    links to the events of each process
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

from ...errors import UserError
from ...store.folder import LAST, is_suite_run, resolve
from ...store.place import clean_name, create_unique, data_files, replace_file
from ...store.run_json import checksum_of
from ..config import definitions
from ..plan import jobs as plans
from ..plan.jobs import Job, Plan
from . import journal

LOCK = "lock"
RUNS = "runs"
YAML = (".yaml", ".yml")


def create(base: str, name: str) -> str:
    """Create a folder ``BASE/runs/NAME.TIME``; its path. Raises UserError if it cannot be created."""
    runs = os.path.join(base, RUNS)
    try:
        return create_unique(runs, clean_name(name))
    except OSError as error:
        raise UserError(f"no suite can be run in {runs}: {error.strerror}") from None


def write_plan(folder: str, plan: Plan) -> None:
    """Write ``plan.json``, whole or not at all. Raises UserError if it cannot be written."""
    content = plan.as_json()
    text = json.dumps({**content, "checksum": checksum_of(content)}, indent=1)
    try:
        replace_file(os.path.join(folder, plans.FILE), [text.encode(), b"\n"])
    except OSError as error:
        raise UserError(f"{folder}: no plan can be written: {error.strerror}") from None


class NoResultsError(UserError):
    """No run of a suite was found where one was expected."""


def find_suite_run(which: str | None, base: str) -> str:
    """The run folder of a suite that ``which`` names.

    That is a path, the name of a run below ``base`` or its beginning, or the file of a suite, which stands
    for its newest run. Of a folder with several runs it is the newest; None and ``LAST`` stand for the newest
    of all. A folder without any run is returned as it is. Raises NoResultsError if there is none; the text
    names the folders that were searched. Raises NotARunError if several runs have names that begin so.
    """
    runs = os.path.join(base, RUNS)
    if which is not None and which.endswith(YAML):
        if found := _newest_of(which, runs):
            return found
        raise NoResultsError(f"{which}: no run of it is in {runs}")
    if which is not None and is_suite_run(which):
        return os.path.abspath(which)
    if which is not None and os.path.isdir(which):
        return resolve(None, which, is_suite_run) or which
    if found := resolve(which, runs, is_suite_run):
        return found
    if which is None or which == LAST:
        raise NoResultsError(f"no suite has been run in {runs}")
    raise NoResultsError(f"{which}: there is no such folder, and {runs} has no run of that name")


def find_resumable(base: str, which: str | None, suite: str | None) -> str:
    """The run folder that ``--resume`` names: a path, or the name of a run below ``base``.

    With None and ``LAST`` it is the newest run, of ``suite`` if that is given, the path of a YAML file.
    Raises UserError if there is none; the text names the folders that were searched.
    """
    runs = os.path.join(base, RUNS)
    if which is not None and which != LAST:
        found = which if is_suite_run(which) else resolve(which, runs, is_suite_run)
        if found is not None:
            return os.path.abspath(found)
        raise UserError(f"--resume {which}: no suite has been run in {which}, nor in {runs}")
    if found := _newest_of(suite, runs) if suite else next(iter(newest_runs(runs)), None):
        return found
    of = f" of {suite}" if suite else ""
    raise UserError(f"--resume: there is no run{of} in {runs}")


def _newest_of(suite: str, runs: str) -> str | None:
    """The newest run in ``runs`` of the suite in the file ``suite``, or of that name, whatever it is called.

    Of runs whose file is not there, as those of another machine, one that is called as the suite.
    """
    name = os.path.splitext(os.path.basename(suite))[0]
    wanted = os.path.realpath(definitions.shipped_suites().get(suite, suite))
    of_name = None
    for path in newest_runs(runs):
        file = _suite_of(path) or ""
        if os.path.realpath(file) == wanted:
            return path
        if of_name is None and not os.path.exists(file):
            of_name = path if os.path.basename(path).startswith(f"{name}.") else None
    return of_name


def newest_runs(runs: str) -> list[str]:
    """The run folders of suites in the folder ``runs``, the newest first."""
    try:
        names = os.listdir(runs)
    except OSError:
        return []
    # By the TIME at the end of their names, which contains a dot.
    names.sort(key=lambda name: name.split(".")[-2:], reverse=True)
    paths = (os.path.join(runs, name) for name in names)
    return [path for path in paths if is_suite_run(path)]


def _suite_of(folder: str) -> str | None:
    """The file of the suite that was run in ``folder``, according to its plan."""
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
    except OSError:
        # A suite creates its lock before its journal: with a journal alone, it has been run at some time.
        return not os.path.exists(os.path.join(folder, journal.FILE))
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(file)


@contextmanager
def locked(folder: str) -> Iterator[None]:
    """Hold the lock of a run folder, so that one process at a time runs the suite.

    Raises UserError if another process runs it.
    """
    file = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        # Several times: a process that watches the suite holds the lock for a moment (is_held).
        for _ in range(20):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.01)
        else:
            holder = os.pread(file, 40, 0).decode(errors="replace").strip()
            raise UserError(f"{folder} is being run by process {holder or '?'}")
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)


MOST = 20
"""How many run folders are searched for durations, the newest first."""


def past_durations(base: str, names: Collection[str]) -> dict[str, float]:
    """For each benchmark of ``names``, how many seconds its last job below ``base`` took that passed.

    Those for which none is found are left out.
    """
    durations: dict[str, float] = {}
    for folder in newest_runs(os.path.join(base, RUNS))[:MOST]:
        if len(durations) == len(names):
            break
        for record in reversed(journal.records(folder)):
            name, seconds = record.get("benchmark"), record.get("seconds")
            passed = record.get("state") == journal.FINISHED and record.get("ok") is True
            if name in names and passed and isinstance(seconds, (int, float)):
                durations.setdefault(name, float(seconds))
    return durations


def link_data(folder: str, job: Job, repeats: bool) -> None:
    """Link the events of a job's processes into the suite's ``folder``, where milabench's readers look.

    The links are called ``BENCH.D0.data``, …, if the suite ``repeats`` benchmarks ``BENCH.R1.D0.data``, ….
    Those of an earlier attempt are replaced. Raises OSError.
    """
    stem = clean_name(job.benchmark) + (f".R{job.repeat}" if repeats else "")
    for number, process in enumerate(job.processes):
        link = os.path.join(folder, f"{stem}.D{number}.data")
        if os.path.lexists(link):
            os.unlink(link)
        run = os.path.join(folder, process.run)
        names: list[str] = []
        with suppress(OSError):
            names = data_files(os.listdir(run))
        for events in (os.path.join(run, name) for name in names[:1]):
            try:
                os.link(events, link)
            except OSError:  # a file system without hard links
                shutil.copyfile(events, link)
