"""The engine of a cluster with Slurm: a job of the suite is one of ``sbatch``, and Slurm says when it runs.

No arrays: the tasks of one share a script, a time limit and a number of nodes, which jobs of a suite do not;
submitting a job costs some hundredths of a second.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import UserError
from ..plan.jobs import Job, Plan
from ..plan.machine import Machine, node_devices
from . import journal, slurm
from .active_job import BACKSTOP
from .apart_job import join_parts
from .engine import JobEngine, Opened, QueuedJob, RunningJob
from .journal import QUEUED, JobRecord
from .machine_part import MACHINES
from .processes import CannotStartError, no_room
from .remote_job import RemoteJob, needs_of, parts_are_over

NAME = "slurm"
BEFORE = 60
"""Seconds before Slurm's time limit at which parts get a signal to end and write their records."""
LOOK = 2.0
"""Seconds between two questions to Slurm's controller, at least;"""
EACH = 0.005
"""longer by this for each job."""
RESTARTS = 5
"""Times that a job is requeued, after which it has failed."""
WAITS = (
    "PENDING",
    "REQUEUED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "CONFIGURING",
    "SUSPENDED",
    "STOPPED",
)
RUNS = ("RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT", "RESIZING")
WHY = {
    "NODE_FAIL": "a node failed",
    "BOOT_FAIL": "a node did not start",
    "TIMEOUT": "it was ended by its time limit of Slurm",
    "DEADLINE": "it was ended by its deadline of Slurm",
    "OUT_OF_MEMORY": "it was out of memory",
    "PREEMPTED": "it was preempted",
    "CANCELLED": "it was cancelled in Slurm",
}


def machine_of(options: Mapping[str, Any], devices: str | None) -> Machine:
    """A node of the partition that ``options`` (``system.slurm``) name, with the devices of ``--devices``.

    Raises UserError.
    """
    slurm.option_words(options)
    there = slurm.nodes(options.get("partition"))
    gpus = [(there.gpu_type, None)] * there.gpus
    found = node_devices(devices, gpus, "a node of the partition")
    return Machine(
        found,
        tuple(range(there.cpus)),
        there.cpus,
        there.memory,
        _name(options.get("partition")),
        there.number,
        {"name": NAME, "options": dict(options), "limit": there.limit},
        devices_known=found[0].kind == "cpu",
    )


def _name(partition: object) -> str:
    return f"Slurm partition {partition}" if partition else "the default partition of Slurm"


def resources_of(job: Job, described: Mapping[str, Any]) -> slurm.JobRequest:
    """What ``job`` asks Slurm for; ``described``: the machine of its plan."""
    gpus, cpus = needs_of(job, described)
    seconds = max(each.timeout for each in job.processes) + BACKSTOP + BEFORE
    limit = described["engine"].get("limit")
    return slurm.JobRequest(
        job.machines,
        gpus,
        cpus,
        min(seconds, limit) if limit else seconds,
    )


def check(plan: Plan) -> None:
    """Raise UserError for a job that no node could ever run, as Slurm says; once for all of a kind."""
    options = plan.machine["engine"]["options"]
    for each in dict.fromkeys(resources_of(job, plan.machine) for job in plan.jobs):
        slurm.check(each, options)


def output_of(key: str, number: str) -> str:
    """Below a suite's folder, the file with what Slurm and the parts of a job print."""
    return f"{MACHINES}/{key}.{number}.out"


class SlurmJob(RemoteJob):
    """One job of the suite as one of Slurm, by its number ``handle``."""

    may_run = False

    def __init__(self, queued: QueuedJob, folder: str, number: str, first: QueuedJob) -> None:
        self.number = number
        self._first = first.job
        """Of the plan, as its first attempt is."""
        self._offset = first.attempt
        """The attempt that it was submitted for."""
        self._unseen = 0
        self._lost = ""
        super().__init__(queued, folder)

    @property
    def handle(self) -> str:
        return self.number

    @property
    def queue(self) -> str:
        again = f", requeued after {self._lost}" if self._lost else ""
        return f"Slurm job {self.number}{again}"

    def update(self, seen: slurm.JobState | None) -> None:
        """Take note of what Slurm says of it; None: it does not know it any more."""
        if self.over:
            return
        self.may_run = seen is None or seen.state not in WAITS
        if seen is not None and seen.restarts > self.attempt - self._offset:
            self._requeued(seen)
        if seen is not None and seen.state in (*WAITS, *RUNS):
            self._unseen = 0
            return
        self._unseen += 1
        if self._unseen > 1:  # what its machines have written last may come late over the network
            state = seen.state if seen else "forgotten"
            nodes = f", nodes {seen.nodes}" if seen and seen.nodes else ""
            self.read_parts()
            signalled = (
                "it got a signal to end, as before a time limit" if self.got_a_signal else ""
            )
            silent = self._last_line() or f"it ended and left no word of it{no_room(self.folder)}"
            why = WHY.get(state) or signalled or silent
            if not self.over:
                self.lost(f"{why} (Slurm job {self.number}: {state}{nodes})")

    def _last_line(self) -> str:
        """What its parts printed last: a node that cannot run them says why."""
        path = os.path.join(self.folder, output_of(self.job.key, self.number))
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                printed = file.read().strip().rpartition("\n")[2]
        except OSError:
            return ""
        return f"it left no word but: {printed}" if printed else ""

    def before_results(self) -> None:
        if self.job.is_contained_apart:
            join_parts(self, lambda machine: None)

    def ended_elsewhere(self) -> None:
        """Slurm says why: it may be queued again."""

    def _requeued(self, seen: slurm.JobState) -> None:
        attempt = self._offset + seen.restarts
        missing = [self._hosts[n] for n in sorted(self._hosts) if not self.is_over(n)]
        self._lost = f"{', '.join(missing)} ended without a word" if missing else "a signal to end"
        if seen.restarts > RESTARTS:
            self.problems.append(f"Slurm requeued it {seen.restarts} times")
            self.kill()
            return
        self.began_anew(QueuedJob(self._first.attempt(attempt, self.folder), attempt))

    def terminate(self) -> None:
        slurm.cancel([self.number], "--state=PENDING")
        slurm.cancel([self.number], "--signal=TERM")

    def kill(self) -> None:
        slurm.cancel([self.number])


class SlurmEngine(JobEngine):
    """Runs jobs of ``plan``, whose run folder ``folder`` is on a file system that all nodes share."""

    def __init__(self, plan: Plan, folder: str) -> None:
        self.folder = folder
        self.machine = plan.machine
        self.options = plan.machine["engine"]["options"]
        self.at_once = max(1, len(plan.jobs))  # how many really run is Slurm's to say
        self._first = {job.key: job for job in plan.jobs}
        self._look_at = 0.0

    def open(self) -> None:
        slurm.states()
        os.makedirs(os.path.join(self.folder, MACHINES), exist_ok=True)

    def start(self, queued: QueuedJob, opened: Opened) -> SlurmJob:
        key = queued.job.key
        words = resources_of(queued.job, self.machine).words()
        words += [f"--job-name={key}", f"--chdir={self.folder}", "--requeue", "--open-mode=append"]
        words += [f"--output={output_of(key, '%j')}", f"--signal=TERM@{BEFORE}"]
        try:
            number = slurm.submit([*words, *slurm.option_words(self.options)], self._script(queued))
        except UserError as error:
            raise CannotStartError(str(error)) from None
        opened(QUEUED, handle=number)
        return SlurmJob(queued, self.folder, number, QueuedJob(self._first[key], queued.attempt))

    def _script(self, queued: QueuedJob) -> str:
        """One task on each node, whose number is the machine's."""
        words = [
            sys.executable,
            "-m",
            "injector.suite.run.machine_part",
            *(["--apart"] if queued.job.is_contained_apart else []),
            self.folder,
            queued.job.key,
        ]
        attempt = f"$(({queued.attempt} + ${{SLURM_RESTART_COUNT:-0}}))"
        cpus = resources_of(queued.job, self.machine).cpus
        step = f"srun --cpus-per-task={cpus} --kill-on-bad-exit=0 --wait=0 sh -c"
        inner = f'exec {shlex.join(words)} "$1" "$SLURM_PROCID" "$SLURM_JOB_ID"'
        return f"#!/bin/sh\nexec {step} {shlex.quote(inner)} sh {attempt}\n"

    def adopt(self, queued: QueuedJob) -> SlurmJob:
        of_it = (r for r in journal.records(self.folder) if r.get("handle") == queued.handle)
        submitted = QueuedJob(self._first[queued.job.key], next(of_it)["attempt"])
        return SlurmJob(queued, self.folder, queued.handle, submitted)

    def look(self, active: Sequence[RunningJob]) -> None:
        now = time.monotonic()
        if now < self._look_at or not active:
            return
        self._look_at = now + LOOK + EACH * len(active)
        try:
            seen = slurm.states()
        except UserError:
            return  # a controller that is back later knows its jobs still
        for each in active:
            if isinstance(each, SlurmJob):
                each.update(seen.get(each.number))

    def goes_on(self, job: Job, before: JobRecord, dry: bool) -> bool:
        seen = slurm.states().get(before.handle)
        if seen is not None and seen.state in (*WAITS, *RUNS):
            return True
        return parts_are_over(self.folder, job.key, before.attempt, job.machines)
