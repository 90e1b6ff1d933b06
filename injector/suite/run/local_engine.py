"""The engine of this machine: jobs are its child processes, on devices that it locks.

::

    inject suite run -- forks --> inject run (supervisor) -- starts --> the program

It meets a job's processes in each process's run folder: ``lock``, which they hold as long as one of them
lives, and ``run.json``, where ``inject run`` records the end. A suite that is killed leaves its jobs running;
the next call finds them by these files and by the mark in their environment (:mod:`.active_job`).

Devices are idle when a job starts on them, and locked while it runs. Suites with the same base folder agree
by a lock file for each accelerator. It is an flock that the job's own processes inherit, so the device is
free when the last of them has ended, even if the suite was killed. That any other program uses a device shows
in what its driver reports: processes, memory, load.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ... import reaper
from ..plan.jobs import Job, Plan, PlannedProcess
from . import active_job, processes
from .active_job import ActiveJob, end_leftovers, orphans
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
        # Of stdin, stdout and stderr those that are closed. Otherwise the next file that is opened, such as
        # the journal, gets the number 1 or 2, and what a child prints ends up in it.
        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(number)
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

    def start(self, batch: Sequence[QueuedJob], opened: Opened) -> list[ActiveJob]:
        queued = batch[0]
        active = ActiveJob(queued, self.folder)
        locks, self._locks = self._locks, []

        def record(pids: Sequence[int]) -> None:
            opened(queued, STARTED, boot=active_job.boot_id(), pids=list(pids))

        try:
            pids = processes.start_processes(queued.job.processes, self.folder, locks, record)
        finally:
            release(locks)  # from now on the job's processes alone hold them
        keys = (process.key for process in queued.job.processes)
        active.children = dict(zip(pids, keys, strict=True))
        return [active]

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


# --- devices -----------------------------------------------------------------------------------------

METRICS = ("load", "memory_used", "memory_total", "processes")
IDLE = 0.1
"""The load (0 to 1) up to which a device counts as idle: a desktop draws a little."""
SPARE = 0.05
"""The part of a device's memory that its driver may keep for itself; at least SPARE_BYTES."""
SPARE_BYTES = 1 << 30


class DeviceLocks:
    """The accelerators of a plan, by their keys; those of the processor are neither locked nor looked at.

    ``described`` is the machine of the plan, ``locks`` the folder of the lock files, made when it is needed.
    """

    def __init__(
        self, described: Mapping[str, Any], locks: str, environ: Mapping[str, str] | None = None
    ) -> None:
        listed = [each for each in described["devices"] if not each["key"].startswith("cpu:")]
        self._uuids = {each["key"]: each["uuid"] for each in listed}
        self._locks = locks
        self._host = described["host"]
        self._environ = environ
        self._driver: Any = None

    def obstacles(self, keys: Sequence[str]) -> list[str]:
        """Why a job cannot start on the devices ``keys`` now: what uses them, as sentences."""
        keys = [key for key in keys if key in self._uuids]
        if not keys:
            return []
        states = self._states()
        return [
            text for key in keys for text in _device_obstacles(key, states.get(self._uuids[key]))
        ]

    def take(self, keys: Sequence[str], who: Mapping[str, object]) -> list[int] | str:
        """Lock the devices ``keys`` for a job; the open files, or a sentence about who has a device.

        ``who`` (``job``, ``run``) is written into the files, for such sentences of others. Raises OSError if
        they cannot be written.
        """
        files: list[int] = []
        for key in keys:
            if key not in self._uuids:
                continue
            file = self._open(key)
            files.append(file)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _holder(file)
                release(files)
                return f"{key} is used by {holder}"
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(dict(who)).encode(), 0)
        return files

    def _open(self, key: str) -> int:
        os.makedirs(self._locks, exist_ok=True)
        # The base may be on a file system that several machines share, so the host is part of the name.
        name = f"{self._host}.{self._uuids[key] or key}.device".replace("/", "_")
        path = os.path.join(self._locks, name)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def _states(self) -> dict[str, Any]:
        """By UUID, what the driver reports now of each device."""
        if self._driver is None:
            from ...monitor.devices import Devices

            self._driver = Devices.visible(self._environ)
        sample = self._driver.sample(METRICS)
        return {each["uuid"]: sample[n] for n, each in self._driver.described().items()}


def release(files: Sequence[int]) -> None:
    """Close the files of :meth:`DeviceLocks.take`; processes that inherited them keep the locks."""
    for file in files:
        os.close(file)


def _holder(file: int) -> str:
    """Who has written itself into a lock file, for people."""
    try:
        who = json.loads(os.pread(file, 4096, 0))
        return f"the job {who['job']} of {who['run']}"
    except (ValueError, KeyError, TypeError):
        return "another suite"


def _device_obstacles(key: str, state: Mapping[str, Any] | None) -> list[str]:
    """What uses the device ``key``, as sentences, by the driver's report of it."""
    if state is None:
        return []  # its driver reports nothing, as that of Intel's devices
    users = {int(pid): memory for pid, memory in state.get("processes", {}).items()}
    if users:
        return [
            f"{key} is held by process {pid} ({_name(pid)}), {_gigabytes(memory)} of its memory"
            for pid, memory in sorted(users.items())
        ]
    # No process, but memory in use: by one in another container or of another user.
    used, total = state.get("memory_used", 0), state.get("memory_total", 0)
    if used > max(SPARE * total, SPARE_BYTES):
        return [
            f"{_gigabytes(used)} of {key}'s memory are used by a process that cannot be seen from here"
        ]
    load = state.get("load", 0)
    return [f"{key} is busy ({load:.0%} load)"] if load > IDLE else []


def _name(pid: int) -> str:
    process = reaper.find(pid)
    return reaper.command(process) if process else "not to be seen from here"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
