"""The engine of this machine: jobs are its child processes, on devices that it locks.

::

    inject suite run -- forks --> inject run (supervisor) -- starts --> the program

It meets a job's processes in each process's run folder: ``lock``, which they hold as long as one of them
lives, and ``run.json``, where ``inject run`` records the end. A suite that is killed leaves its jobs running;
the next call finds them by these files and by the mark in their environment (:mod:`.active_job`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ... import reaper
from ..plan.jobs import Job, Plan, PlannedProcess
from . import active_job, processes
from .active_job import ActiveJob, end_leftovers, orphans
from .device_locks import DeviceLocks, release
from .engine import JobEngine, Opened, QueuedJob, RunningJob
from .journal import STARTED, JobRecord
from .processes import end_from_record

PATIENCE = 10.0
"""Seconds that the ``inject run`` of a living process is looked for before the process counts as lost."""


class LocalEngine(JobEngine):
    """Runs jobs of ``plan`` as processes of this machine; ``folder`` is the suite's run folder."""

    def __init__(self, plan: Plan, folder: str) -> None:
        self.folder = folder
        self.devices = DeviceLocks(plan.machine, os.path.join(plan.base, ".locks"))
        self._active: Sequence[RunningJob] = ()
        self._locks: list[int] = []
        """The locked devices of the job that is to be started next, as open files."""
        self._childless = True
        """Whether no child was left at the last look."""

    def open(self) -> None:
        _open_standard_streams()
        # What an inject run that was killed leaves becomes our child, and can be found and ended.
        reaper.adopt_orphans()

    def obstacles(self, queued: QueuedJob) -> list[str]:
        devices = queued.job.devices
        # Lock first: between a look and the lock another suite could start a job on the same devices.
        locks = self.devices.take(devices, {"job": queued.job.key, "run": self.folder})
        if isinstance(locks, str):
            return [locks]
        obstacles = self.devices.obstacles(devices)
        if obstacles:
            release(locks)
        else:
            self._locks = locks
        return obstacles

    def start(self, queued: QueuedJob, opened: Opened) -> ActiveJob:
        active = ActiveJob(queued, self.folder)
        locks, self._locks = self._locks, []

        def record(pids: Sequence[int]) -> None:
            opened(STARTED, boot=active_job.boot_id(), pids=list(pids))

        try:
            pids = processes.start_processes(queued.job.processes, self.folder, locks, record)
        finally:
            release(locks)  # from now on the job's processes alone hold them
        keys = (process.key for process in queued.job.processes)
        active.children = dict(zip(pids, keys, strict=True))
        return active

    def adopt(self, queued: QueuedJob) -> ActiveJob:
        return ActiveJob(queued, self.folder)

    def look(self, active: Sequence[RunningJob]) -> None:
        """Reap every child that has ended."""
        self._active = active
        # Any child (-1), not only those that we started: adopted orphans would stay zombies for ever.
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                self._childless = False
                return
            code = os.waitstatus_to_exitcode(status)
            any(job.reaped(pid, code) for job in self._active_jobs())

    def _active_jobs(self) -> list[ActiveJob]:
        return [job for job in self._active if isinstance(job, ActiveJob)]

    def clear_up(self, active: RunningJob) -> list[str]:
        """End what an ``inject run`` that was killed has left running."""
        left = []
        # Processes in a container, and those of a job that an earlier call started, are not our descendants:
        # they are known by their mark alone, for which the environment of every process has to be read.
        if active.adopted or any("--container" in each.command for each in active.job.processes):
            left = _marked_processes(self.folder, active.job)
        elif not self._childless:
            left = orphans(lambda pid: any(pid in job.children for job in self._active_jobs()))
        ended = end_leftovers(left, lambda: self.look(self._active)) if left else []
        return [f"a process of it was left running, and was ended: {words}" for words in ended]

    def goes_on(self, job: Job, before: JobRecord, dry: bool) -> bool:
        supervised = [_is_supervised(self.folder, process) for process in job.processes]
        if all(supervised):
            return True
        # Its processes count together: without one of them the others' figures mean nothing.
        if not dry:
            end_leftovers(_marked_processes(self.folder, job), lambda: None)
        return False


def _marked_processes(folder: str, job: Job) -> list[reaper.Process]:
    return [
        each for process in job.processes for each in active_job.marked_processes(folder, process)
    ]


def _is_supervised(folder: str, process: PlannedProcess) -> bool:
    """Whether a process runs under its ``inject run``, or has left a record of its end."""
    end = time.monotonic() + PATIENCE
    while active_job.is_living(folder, process):
        # One that waited at the gate when the suite died ends; one that has just passed it will soon be an
        # inject run. Either shows in a moment.
        if active_job.supervisors(folder, process):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return end_from_record(folder, process.run) is not None


def _open_standard_streams() -> None:
    """Open those of stdin, stdout and stderr that are closed, on ``/dev/null``.

    Otherwise the next file that is opened, such as the journal, gets the number 1 or 2, and what a child
    prints ends up in it.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
