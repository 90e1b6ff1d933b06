"""A job that runs on this machine: its processes, and how they are ended.

Normally ``inject run`` enforces the time limit of its program and ends it with all that it started. This
module ends a job earlier, on a signal to the suite, and ends an ``inject run`` that hangs itself.

A job is known in one of two ways. If this suite started it, its processes are our children: ``waitpid``
reports their end, and what they started are our descendants. If a suite that was killed started it, the job
is adopted: its processes are found by :data:`.job_planner.MARK` in their environment, and have ended when
nothing holds the lock of their run folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from ... import reaper
from ..plan.job_planner import MARK
from ..plan.jobs import PlannedProcess
from . import processes
from .engine import QueuedJob, RunningJob
from .processes import ProcessEnd, end_from_record, end_from_status

BOOT = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str:
    """The identifier of this boot of the machine; empty if it has none.

    Process ids of an earlier boot mean nothing.
    """
    try:
        with open(BOOT, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def is_living(folder: str, process: PlannedProcess) -> bool:
    """Whether a process, or anything that it started, still lives. ``folder`` is the suite's."""
    try:
        lock = processes.lock_run(os.path.join(folder, process.run))
    except OSError:
        return False  # its run folder was never made
    if lock is None:
        return True
    os.close(lock)
    return False


def supervisors(folder: str, process: PlannedProcess) -> list[reaper.Process]:
    """The ``inject run`` of a process if it lives, which enforces the time limit and writes the record."""
    # Its program has inherited the mark; only the supervisor has the command line of the plan.
    words = [*map(os.fsencode, process.command), b""]
    marked = marked_processes(folder, process)
    return [each for each in marked if _texts(each.pid, "cmdline") == words]


def marked_processes(folder: str, process: PlannedProcess) -> list[reaper.Process]:
    """All processes that carry the mark of a planned process, even if they have left its process tree."""
    mark = f"{MARK}={os.path.join(folder, process.run)}".encode()
    return [each for each in reaper.everyone() if mark in _texts(each.pid, "environ")]


def _texts(pid: int, name: str) -> list[bytes]:
    """What zero bytes separate in a file of ``/proc/PID``; a zero ends the last text too."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
BACKSTOP = 120.0
"""Seconds beyond the time limit that an ``inject run`` has to end its program and write its record."""
AGAIN = 0.5
"""Seconds between two SIGKILLs: a process that forks may leave a child between a look at it and its end."""
STUBBORN = 30.0
"""Seconds after which a process that SIGKILL does not end, as one that waits for a disk, is left alone."""
LOOK, GUARD = 0.2, 5.0
"""Seconds between two looks at adopted processes, and between two looks at their supervisors."""


class ActiveJob(RunningJob):
    """One job on this machine, from its start until nothing of it is left."""

    def __init__(self, queued: QueuedJob, folder: str) -> None:
        super().__init__(queued, folder)
        job = self.job
        self._living = {process.key: process for process in job.processes}
        """The processes that have not ended, by their keys."""
        self.children: dict[int, str] = {}
        """The keys of those that are our children, by process id."""
        limit = max(process.timeout for process in job.processes) + BACKSTOP
        self._in(limit - (time.time() - self.started), self._end_hanging)
        if self.adopted:
            self._in(0.0, self._look)
            self._in(GUARD, self._end_unsupervised)

    @property
    def over(self) -> bool:
        """Whether all its processes have ended."""
        return not self._living

    # --- waiting -----------------------------------------------------------------------------------

    def reaped(self, pid: int, code: int) -> bool:
        """Note that our child ``pid`` has ended; whether it was one of this job's processes."""
        key = self.children.pop(pid, None)
        process = self._living.pop(key, None) if key else None
        # One that was killed because it hung has its result already.
        if process is not None and process.key not in self.results:
            self.results[process.key] = end_from_status(self.folder, process.run, code)
        return key is not None

    def _look(self) -> None:
        """Note which adopted processes have ended: no signal comes, since they are not our children."""
        for process in list(self._living.values()):
            if not is_living(self.folder, process):
                del self._living[process.key]
                lost = ProcessEnd(process.run, recorded=False)
                self.results[process.key] = end_from_record(self.folder, process.run) or lost
        self._in(LOOK, self._look)

    def _end_unsupervised(self) -> None:
        """Kill adopted processes whose ``inject run`` has died: nothing enforces their time limit."""
        for process in self._living.values():
            if not supervisors(self.folder, process):
                reaper.end_by_force(marked_processes(self.folder, process))
        self._in(GUARD, self._end_unsupervised)

    # --- ending ------------------------------------------------------------------------------------

    def end(self) -> None:
        # SIGTERM to inject run, which passes it on; then SIGKILL to all but inject run, which still records
        # how the program ended; and only when it takes far too long for that, SIGKILL to inject run.
        self.interrupted = True
        reaper.end_politely(self._supervisors())
        self._in(GRACE, self._kill_programs)

    def end_now(self) -> None:
        self.interrupted = True
        self._due.clear()
        self._kill_all()
        self._in(STUBBORN, self._give_up)
        if self.adopted:
            self._in(0.0, self._look)

    def _kill_programs(self) -> None:
        spared = {each.pid for each in self._supervisors()}
        reaper.end_by_force([each for each in self.tree() if each.pid not in spared])
        self._in(GRACE + BACKSTOP, self._kill_all)

    def _end_hanging(self) -> None:
        self.problems.append("inject run itself did not end, and was killed")
        for process in self._living.values():
            self.results[process.key] = ProcessEnd(process.run, None, None, True, False)
        self._kill_all()
        self._in(STUBBORN, self._give_up)

    def _kill_all(self) -> None:
        reaper.end_by_force(self.tree())
        self._in(AGAIN, self._kill_all)

    def _give_up(self) -> None:
        """Count processes that cannot be killed as ended, so that the suite goes on."""
        commands = [reaper.command(each) for each in self.tree()]
        self.problems += [f"a process of it cannot be ended: {words}" for words in commands]
        for process in self._living.values():
            self.results.setdefault(process.key, ProcessEnd(process.run, None, 9, recorded=False))
        self._living.clear()

    def _supervisors(self) -> list[reaper.Process]:
        """The ``inject run`` of each process that has not ended."""
        if not self.adopted:
            children = [reaper.find(pid) for pid in self.children]
            return [child for child in children if child is not None]
        return [
            each for process in self._living.values() for each in supervisors(self.folder, process)
        ]

    def tree(self) -> list[reaper.Process]:
        """All of its processes that live, with everything that they started."""
        if self.adopted:
            living: list[PlannedProcess] = list(self._living.values())
            return [each for process in living for each in marked_processes(self.folder, process)]
        below = [each for pid in self.children for each in reaper.descendants(pid)]
        return [*self._supervisors(), *below]


def end_leftovers(processes: list[reaper.Process], reap: Callable[[], None]) -> list[str]:
    """End processes that a job has left, politely and then by force; returns their command lines.

    ``reap`` is called again and again meanwhile. A process that cannot be killed is left alone.
    """
    commands = [reaper.command(each) for each in processes]
    reaper.end_politely(processes)
    deadline = time.monotonic() + GRACE
    forced = False
    while alive := [each for each in processes if _is_alive(each)]:
        now = time.monotonic()
        if now > deadline and forced:
            break
        if now > deadline:
            forced, deadline = True, now + STUBBORN
            reaper.end_by_force(alive)
        time.sleep(0.02)
        reap()
    return commands


def _is_alive(process: reaper.Process) -> bool:
    # Its number may belong to another process by now: they differ in when they began.
    current = reaper.find(process.pid)
    return current is not None and current.begun == process.begun and current.state not in "ZX"


def orphans(known: Callable[[int], bool]) -> list[reaper.Process]:
    """Processes that an ``inject run`` left when it was killed.

    They became our children (see :meth:`.LocalEngine.open`); ``known`` tells whether we started a child.
    """
    own_pid = os.getpid()
    children = [each for each in reaper.descendants(own_pid) if each.parent == own_pid]
    adopted = [each for each in children if not known(each.pid)]
    return [*adopted, *(each for root in adopted for each in reaper.descendants(root.pid))]
