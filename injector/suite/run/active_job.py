"""A job that runs: its processes, whether we started them or found them, and how they are ended.

``inject run`` keeps the time of its program and ends it with all that it started. What is here is for
an end that is wanted before that, and for an ``inject run`` that hangs itself. After a suite was killed,
its processes are found again by a variable that they carry.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from ... import reaper
from ..plan.jobs import PlannedProcess
from ..plan.planner import MARK
from . import processes
from .engine import QueuedJob, RunningJob
from .processes import ProcessEnd, end_from_record, end_from_status

BOOT = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str:
    """What tells this start of the machine from all others."""
    try:
        with open(BOOT, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def is_living(folder: str, process: PlannedProcess) -> bool:
    """Whether something of a process is still there. ``folder`` is the suite's."""
    try:
        lock = processes.lock_run(os.path.join(folder, process.run))
    except OSError:
        return False  # its run folder was never made
    if lock is None:
        return True
    os.close(lock)
    return False


def supervisors(folder: str, process: PlannedProcess) -> list[reaper.Process]:
    """The ``inject run`` of a process, if it lives: it keeps its time and writes its record."""
    words = list(process.command)
    return [each for each in marked_processes(folder, process) if _argv(each.pid) == words]


def has_begun(folder: str, process: PlannedProcess) -> bool:
    """Whether a process ever came to run: ``inject run`` makes this before it starts a program."""
    return os.path.isdir(os.path.join(folder, process.run, "raw"))


def marked_processes(folder: str, process: PlannedProcess) -> list[reaper.Process]:
    """All processes that carry the mark of this one, also where they have left its tree."""
    mark = f"{MARK}={os.path.join(folder, process.run)}".encode()
    return [each for each in reaper.everyone() if mark in _environ(each.pid)]


def _environ(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _argv(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            text = file.read()
    except OSError:
        return []
    return [os.fsdecode(word) for word in text[:-1].split(b"\0")]


GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
BACKSTOP = 120.0
"""Seconds beyond its time limit that an ``inject run`` is given to end its program and write its record."""
AGAIN = 0.5
STUBBORN = 30.0
"""Seconds after which what cannot be killed is left alone."""
LOOK, GUARD = 0.2, 5.0
"""Seconds between two looks at processes that are not our children, and at who watches over them."""


class ActiveJob(RunningJob):
    """One job on this machine, from its start until nothing is left of it."""

    def __init__(self, queued: QueuedJob, folder: str) -> None:
        super().__init__(queued, folder)
        job = self.job
        self._left = {each.key: each for each in job.processes}
        self._pids: dict[int, str] = {}
        limit = max(each.timeout for each in job.processes) + BACKSTOP
        self._in(limit - (time.time() - self.started), self._hangs)
        if self.adopted:
            self._in(0.0, self._look)
            self._in(GUARD, self._guard)

    def started_as(self, pids: list[int]) -> None:
        """Its processes were started, in the order of the plan; they are our children."""
        self._pids = dict(zip(pids, self._left, strict=True))

    @property
    def over(self) -> bool:
        """Whether all its processes have ended."""
        return not self._left

    # --- waiting -----------------------------------------------------------------------------------

    def is_its_child(self, pid: int) -> bool:
        """Whether a child of ours is one of its processes."""
        return pid in self._pids

    def reaped(self, pid: int, code: int) -> bool:
        """A child has ended; whether it was one of its."""
        key = self._pids.pop(pid, None)
        process = self._left.pop(key, None) if key else None
        if process is not None and process.key not in self.results:
            self.results[process.key] = end_from_status(self.folder, process.run, code)
        return key is not None

    def _look(self) -> None:
        """See which of the processes that are not our children have ended."""
        for process in list(self._left.values()):
            if not is_living(self.folder, process):
                del self._left[process.key]
                lost = ProcessEnd(process.run, recorded=False)
                self.results[process.key] = end_from_record(self.folder, process.run) or lost
        self._in(LOOK, self._look)

    def _guard(self) -> None:
        """End what has no ``inject run`` any more."""
        for process in self._left.values():
            if not supervisors(self.folder, process):
                reaper.end_by_force(marked_processes(self.folder, process))
        self._in(GUARD, self._guard)

    # --- ending ------------------------------------------------------------------------------------

    def end(self) -> None:
        """Ask its programs to end; by force if they do not, so that their records are still written."""
        self.interrupted = True
        reaper.end_politely(self._supervisors())
        self._in(GRACE, self._end_programs)

    def end_now(self) -> None:
        """End everything at once, whatever that leaves."""
        self.interrupted = True
        self._due.clear()
        self._force()
        self._in(STUBBORN, self._give_up)
        if self.adopted:
            self._in(0.0, self._look)

    def _end_programs(self) -> None:
        ours = {each.pid for each in self._supervisors()}
        reaper.end_by_force([each for each in self.tree() if each.pid not in ours])
        self._in(GRACE + BACKSTOP, self._force)

    def _hangs(self) -> None:
        self.problems.append("inject run itself did not end, and was killed")
        for process in self._left.values():
            self.results[process.key] = ProcessEnd(process.run, None, None, True, False)
        self._force()
        self._in(STUBBORN, self._give_up)

    def _force(self) -> None:
        reaper.end_by_force(self.tree())
        self._in(AGAIN, self._force)

    def _give_up(self) -> None:
        left = [reaper.command(each) for each in self.tree()]
        self.problems += [f"a process of it cannot be ended: {words}" for words in left]
        for process in self._left.values():
            self.results.setdefault(process.key, ProcessEnd(process.run, None, 9, recorded=False))
        self._left.clear()

    def _supervisors(self) -> list[reaper.Process]:
        """The ``inject run`` of each process that has not ended."""
        if not self.adopted:
            found = [reaper.find(pid) for pid in self._pids]
            return [each for each in found if each is not None]
        return [
            each for process in self._left.values() for each in supervisors(self.folder, process)
        ]

    def tree(self) -> list[reaper.Process]:
        """All that lives of it, ``inject run`` included."""
        if self.adopted:
            left: list[PlannedProcess] = list(self._left.values())
            return [each for process in left for each in marked_processes(self.folder, process)]
        below = [each for pid in self._pids for each in reaper.descendants(pid)]
        return [*self._supervisors(), *below]


def end_leftovers(processes: list[reaper.Process], reap: Callable[[], None]) -> list[str]:
    """End what is left of a job, politely and then by force; their command lines.

    ``reap`` is called while it waits. Gives up on what cannot be killed.
    """
    commands = [reaper.command(each) for each in processes]
    reaper.end_politely(processes)
    end = time.monotonic() + GRACE
    forced = False
    while alive := [each for each in processes if _alive(each)]:
        now = time.monotonic()
        if now > end and forced:
            break
        if now > end:
            forced, end = True, now + STUBBORN
            reaper.end_by_force(alive)
        time.sleep(0.02)
        reap()
    return commands


def _alive(process: reaper.Process) -> bool:
    found = reaper.find(process.pid)
    return found is not None and found.begun == process.begun and found.state not in "ZX"


def orphans(known: Callable[[int], bool]) -> list[reaper.Process]:
    """What an ``inject run`` that was killed has left: children of ours that we have not started."""
    ours = os.getpid()
    roots = [each for each in reaper.descendants(ours) if each.parent == ours]
    lost = [each for each in roots if not known(each.pid)]
    return [*lost, *(each for root in lost for each in reaper.descendants(root.pid))]
