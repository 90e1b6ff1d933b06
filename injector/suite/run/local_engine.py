"""The engine of one machine, this one: jobs are its own processes, on devices that it locks."""

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
"""Seconds in which a process that lives must turn out to be looked after by its ``inject run``."""


class LocalEngine(JobEngine):
    """Runs jobs of ``plan`` in the suite's run folder ``folder``."""

    def __init__(self, plan: Plan, folder: str) -> None:
        self.folder = folder
        self.devices = DeviceLocks(plan.machine, os.path.join(plan.base, ".locks"))
        self._active: Sequence[RunningJob] = ()
        self._held: list[int] = []  # locks of devices, for the job that is about to begin
        self._childless = True

    def open(self) -> None:
        _open_standard_streams()
        reaper.adopt_orphans()

    def obstacles(self, queued: QueuedJob) -> list[str]:
        devices = queued.job.devices
        held = self.devices.take(devices, {"job": queued.job.key, "run": self.folder})
        if isinstance(held, str):
            return [held]
        obstacles = self.devices.obstacles(devices)
        if obstacles:
            release(held)
        else:
            self._held = held
        return obstacles

    def start(self, queued: QueuedJob, opened: Opened) -> ActiveJob:
        active = ActiveJob(queued, self.folder)
        held, self._held = self._held, []

        def gate(pids: Sequence[int]) -> None:
            opened(STARTED, boot=active_job.boot_id(), pids=list(pids))

        try:
            pids = processes.start_processes(queued.job.processes, self.folder, held, gate)
        finally:
            release(held)
        active.started_as(pids)
        return active

    def adopt(self, queued: QueuedJob) -> ActiveJob:
        return ActiveJob(queued, self.folder)

    def look(self, active: Sequence[RunningJob]) -> None:
        """Take note of every child that has ended."""
        self._active = active
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
            any(each.reaped(pid, code) for each in self._own())

    def _own(self) -> list[ActiveJob]:
        return [each for each in self._active if isinstance(each, ActiveJob)]

    def clear_up(self, active: RunningJob) -> list[str]:
        """Only an ``inject run`` that was killed can have left something.

        What runs in a container is no descendant of ours, and is known by its mark alone.
        """
        left = []
        if active.adopted or any("--container" in each.command for each in active.job.processes):
            left = _marked(self.folder, active.job)
        elif not self._childless:
            left = orphans(lambda pid: any(each.is_its_child(pid) for each in self._own()))
        ended = end_leftovers(left, lambda: self.look(self._active)) if left else []
        return [f"a process of it was left running, and was ended: {words}" for words in ended]

    def goes_on(self, job: Job, before: JobRecord, dry: bool) -> bool:
        looked_after = [_is_supervised(self.folder, each) for each in job.processes]
        if all(looked_after):
            return True
        if not dry:
            end_leftovers(_marked(self.folder, job), lambda: None)
        return False


def _marked(folder: str, job: Job) -> list[reaper.Process]:
    return [
        each for process in job.processes for each in active_job.marked_processes(folder, process)
    ]


def _is_supervised(folder: str, process: PlannedProcess) -> bool:
    """Whether a process runs under its ``inject run``, or has left the record of its end."""
    end = time.monotonic() + PATIENCE
    while active_job.is_living(folder, process):
        # One that waited at the gate when we died ends; one that has just passed it is seen in a moment.
        if active_job.supervisors(folder, process):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return end_from_record(folder, process.run) is not None


def _open_standard_streams() -> None:
    """Where one of them is closed, the next file would take its place, and a child's output."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
