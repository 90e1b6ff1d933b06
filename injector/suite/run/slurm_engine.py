"""The engine of a cluster with Slurm, which decides when and where each job of the suite runs.

::

    SlurmEngine -- sbatch --> Slurm -- srun, on each node --> machine_part    and its journal
                -- squeue -->       the state of every job, every few seconds

Jobs of one node that need the same are tasks of one job array (:mod:`.slurm`); any other job of the
suite is a Slurm job of its own. How a job went is read in the journals of its parts, as for each remote
engine; Slurm is consulted for what these cannot say: that a job waits, was requeued, or is gone.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import UserError
from ..plan.jobs import Job, Plan
from ..plan.machine import Machine, node_devices
from . import journal, slurm
from .active_job import BACKSTOP
from .engine import JobEngine, Opened, QueuedJob, RunningJob
from .journal import QUEUED, JobRecord
from .machine_part import MACHINES
from .machine_part import __name__ as PART
from .processes import CannotStartError, no_room
from .remote_job import RemoteJob, join_parts, needs_of, parts_are_over
from .tracebacks import last_printed

NAME = "slurm"
BEFORE = 60
"""Seconds before Slurm's time limit at which parts get SIGTERM, so that they write their records."""
LOOK = 2.0
"""Seconds between two requests to Slurm's controller, at least."""
EACH = 0.005
"""Seconds that each job adds to that: the controller has to list them all."""
RESTARTS = 5
"""How many times a job may be requeued before it counts as failed."""
TOO_MANY = re.compile(r"Submit\w*Limit")
"""Slurm's names for a limit of jobs that are submitted and not over: ``QOSMaxSubmitJobPerUserLimit``, …"""
WAITS = (
    *("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "CONFIGURING"),
    *("SUSPENDED", "STOPPED"),
)
"""The states of a job that waits for its machines, or has to pause."""
RUNS = ("RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT", "RESIZING")
"""The states of a job that has its machines."""
WHY = {
    "NODE_FAIL": "a node failed",
    "BOOT_FAIL": "a node did not start",
    "TIMEOUT": "it was ended by its time limit of Slurm",
    "DEADLINE": "it was ended by its deadline of Slurm",
    "OUT_OF_MEMORY": "it was out of memory",
    "PREEMPTED": "it was preempted",
    "CANCELLED": "it was cancelled in Slurm",
}
"""Why a job failed, by its last state."""


def machine_of(options: Mapping[str, Any], devices: str | None) -> Machine:
    """The machine to plan for: a node of the partition, with the devices that ``--devices`` names.

    ``options`` are those of ``system.slurm``. Raises UserError if there is no such partition or node.
    """
    slurm.option_words(options)
    partition = options.get("partition")
    nodes = slurm.nodes(partition)
    gpus = [(nodes.gpu_type, None)] * nodes.gpus
    chosen = node_devices(devices, gpus, "a node of the partition")
    return Machine(
        chosen,
        tuple(range(nodes.cpus)),
        nodes.cpus,
        nodes.memory,
        f"Slurm partition {partition}" if partition else "the default partition of Slurm",
        nodes.number,
        {"name": NAME, "options": dict(options), "limit": nodes.limit},
        devices_known=chosen[0].kind == "cpu",  # of GPUs Slurm knows neither memory nor exact name
    )


def resources_of(job: Job, described: Mapping[str, Any]) -> slurm.JobRequest:
    """What ``job`` needs of Slurm; ``described`` is the machine of its plan."""
    gpus, cpus = needs_of(job, described)
    seconds = max(process.timeout for process in job.processes) + BACKSTOP + BEFORE
    limit = described["engine"].get("limit")
    return slurm.JobRequest(job.machines, gpus, cpus, min(seconds, limit) if limit else seconds)


def check(plan: Plan) -> None:
    """Raise UserError if Slurm has no node that could ever run one of the plan's jobs."""
    options = plan.machine["engine"]["options"]
    for request in dict.fromkeys(resources_of(job, plan.machine) for job in plan.jobs):
        slurm.check(request, options)


def output_of(key: str, number: str) -> str:
    """The file with what Slurm and the parts of a job print, relative to the suite's folder.

    For a task of an array its name has no key: sbatch takes one pattern (``%A_%a``) for all tasks.
    """
    return f"{MACHINES}/{number}.out" if "_" in number else f"{MACHINES}/{key}.{number}.out"


@dataclass
class PendingCancels:
    """The numbers of jobs to be cancelled, collected so that one scancel does for all jobs of a suite."""

    polite: list[str] = field(default_factory=list)
    """Jobs that get SIGTERM, which their parts pass on to their programs."""
    killed: list[str] = field(default_factory=list)
    """Jobs that Slurm ends."""

    def send(self) -> None:
        """Have Slurm cancel them."""
        if self.polite:
            # Jobs that have not begun take no signal.
            slurm.cancel(self.polite, "--state=PENDING")
            slurm.cancel(self.polite, "--signal=TERM")
        if self.killed:
            slurm.cancel(self.killed)
        self.polite.clear()
        self.killed.clear()


class SlurmJob(RemoteJob):
    """One job of the suite, as the Slurm job, or the task of an array, with the number ``number``.

    ``submitted`` has the job as the plan has it, with the attempt that it was submitted for: whenever Slurm
    requeues the job, its attempt is one larger.
    """

    may_run = False

    def __init__(
        self,
        queued: QueuedJob,
        folder: str,
        number: str,
        submitted: QueuedJob,
        cancels: PendingCancels,
    ) -> None:
        self.number = number
        self._cancels = cancels
        self._waited = False
        """Whether it waited for its nodes at the last look."""
        self._submitted = submitted
        self._unseen = 0
        """How many looks in a row found it neither waiting nor running."""
        self._requeue_reason = ""
        super().__init__(queued, folder)

    @property
    def handle(self) -> str:
        return self.number

    @property
    def queue(self) -> str:
        requeued = f", requeued after {self._requeue_reason}" if self._requeue_reason else ""
        return f"Slurm job {self.number}{requeued}"

    def update(self, seen: slurm.JobState | None) -> None:
        """Note what Slurm shows of it; None if Slurm does not know it any more."""
        if self.over:
            return
        self.may_run = seen is None or seen.state not in WAITS
        if seen is not None and seen.restarts > self.attempt - self._submitted.attempt:
            self._requeued(seen)
        if seen is not None and seen.state in (*WAITS, *RUNS):
            self._unseen = 0
            self._waited = seen.state in WAITS
            return
        self._unseen += 1
        # What its machines have written last may come late over the network: one more look.
        if self._unseen > 1:
            self._end_as_lost(seen)

    def _end_as_lost(self, seen: slurm.JobState | None) -> None:
        """Give the job up, unless its parts have written down their ends."""
        # Slurm shows jobs for a while after their end, but no task that was cancelled while its array waited.
        state = seen.state if seen else "CANCELLED" if self._waited else "forgotten"
        nodes = f", nodes {seen.nodes}" if seen and seen.nodes else ""
        self.read_parts()
        signalled = "it got a signal to end, as before a time limit" if self.got_a_signal else ""
        silent = self._last_line() or f"it ended and left no word of it{no_room(self.folder)}"
        why = WHY.get(state) or signalled or silent
        if not self.over:
            self.lost(f"{why} (Slurm job {self.number}: {state}{nodes})")

    def _last_line(self) -> str:
        """What its parts printed last, as a sentence: a node that cannot run them prints why."""
        printed = last_printed(os.path.join(self.folder, output_of(self.job.key, self.number)))
        return f"it left no word but: {printed}" if printed else ""

    def before_results(self) -> None:
        if self.job.is_contained_apart:
            join_parts(self, lambda machine: None)

    def ended_elsewhere(self) -> None:
        """Do nothing: Slurm will show whether it was cancelled, has reached its limit, or is requeued."""

    def _requeued(self, seen: slurm.JobState) -> None:
        attempt = self._submitted.attempt + seen.restarts
        silent = [self._hosts[n] for n in sorted(self._hosts) if not self.is_over(n)]
        self._requeue_reason = (
            f"{', '.join(silent)} ended without a word" if silent else "a signal to end"
        )
        if seen.restarts > RESTARTS:
            self.problems = [f"Slurm requeued it {seen.restarts} times"]
            self.kill()
            return
        self.job, self.attempt = self._submitted.job.attempt(attempt, self.folder), attempt
        self.state = QUEUED
        self._parts.clear()
        self._hosts.clear()

    def terminate(self) -> None:
        self._cancels.polite.append(self.number)

    def kill(self) -> None:
        self._cancels.killed.append(self.number)


class SlurmEngine(JobEngine):
    """Runs jobs of ``plan``; ``folder``, the suite's, is on a file system that all nodes share."""

    def __init__(self, plan: Plan, folder: str) -> None:
        self.folder = folder
        self.machine = plan.machine
        self._suite_name = plan.suite["name"]
        self.options = plan.machine["engine"]["options"]
        self.at_once = max(1, len(plan.jobs))  # Slurm decides how many really run
        self._planned = {job.key: job for job in plan.jobs}
        self._most_tasks = 0
        self._limit = slurm.ParallelLimit()
        self._cancels = PendingCancels()
        self._jobs: list[SlurmJob] = []
        self._refused_at = 0
        """How many jobs were not over when Slurm last refused one; 0 once there is room again."""
        self._look_at = 0.0
        """The monotonic time of the next request to the controller."""
        self._attempts: dict[str, int] = {}
        """For jobs of earlier calls, by number, the attempt that each was submitted for."""
        self._states_before: dict[str, slurm.JobState] | None = None
        """What Slurm showed when the suite was resumed."""

    def open(self) -> None:
        slurm.states()
        self._most_tasks = min(slurm.most_tasks(), slurm.LARGEST)
        os.makedirs(os.path.join(self.folder, MACHINES), exist_ok=True)

    def close(self) -> None:
        self._cancels.send()

    def limited(self, max_parallel: int | None) -> int:
        self._limit.limit = max_parallel
        return self.at_once

    def _numbers(self) -> list[str]:
        """The numbers of the jobs that were submitted and are not over."""
        self._jobs = [job for job in self._jobs if not job.over]
        return [job.number for job in self._jobs]

    def has_room(self, job: Job) -> bool:
        numbers = self._numbers()
        # Not before one of the jobs has ended: Slurm would refuse the next one as well.
        if 0 < self._refused_at <= len(numbers):
            return False
        self._refused_at = 0
        return self._limit.room(numbers) > 0

    def together(self, first: QueuedJob, others: Sequence[QueuedJob]) -> list[QueuedJob]:
        return slurm.tasks_with(first, others, self._kind, self._most_tasks)

    def _kind(self, queued: QueuedJob) -> tuple[str, ...]:
        return tuple(resources_of(queued.job, self.machine).words())

    def start(self, batch: Sequence[QueuedJob], opened: Opened) -> list[SlurmJob]:
        try:
            return self._start(batch, opened)
        except CannotStartError as error:
            running = len(self._numbers())
            if not running or not TOO_MANY.search(str(error)):
                raise
            self._refused_at = running
            return []

    def _start(self, batch: Sequence[QueuedJob], opened: Opened) -> list[SlurmJob]:
        """Submit jobs; if there is a limit that they would exceed, half of them, or a quarter, …."""
        try:
            numbers = self._submit(batch)
        except UserError as error:
            if len(batch) > 1 and TOO_MANY.search(str(error)):
                return self._start(batch[: len(batch) // 2], opened)
            raise CannotStartError(str(error)) from None
        # Recorded only now, since there was no number before. A suite that is killed in between starts the
        # job twice; the first one then ends, as its parts wait for its number in the journal.
        for queued, number in zip(batch, numbers, strict=True):
            opened(queued, QUEUED, handle=number)
        return [self._followed(each, number) for each, number in zip(batch, numbers, strict=True)]

    def _submit(self, batch: Sequence[QueuedJob]) -> list[str]:
        """Submit all jobs of ``batch`` at once; their numbers. Raises UserError."""
        job = batch[0].job
        resources = resources_of(job, self.machine)
        words = [*resources.words(), f"--chdir={self.folder}", "--requeue", "--open-mode=append"]
        words.append(f"--signal=TERM@{BEFORE}")
        at_once = 0
        if len(batch) == 1:
            words += [f"--job-name={job.key}", f"--output={output_of(job.key, '%j')}"]
        else:
            if self._limit.limit is not None:
                at_once = min(len(batch), self._limit.room(self._numbers()))
            tasks = f"0-{len(batch) - 1}" + (f"%{at_once}" if at_once else "")
            words += [f"--array={tasks}", f"--output={output_of(job.key, '%A_%a')}"]
            words.append(f"--job-name={self._suite_name}")
        # The user's options come last, so that they win where both are given (--time, --requeue).
        words += slurm.option_words(self.options)
        apart = ["--apart"] if job.is_contained_apart else []
        part = [sys.executable, "-m", PART, *apart, self.folder]
        number = slurm.submit(words, slurm.script(batch, part, resources.cpus))
        if len(batch) == 1:
            return [number]
        self._limit.submitted(number, at_once)
        return [f"{number}_{task}" for task in range(len(batch))]

    def _followed(
        self, queued: QueuedJob, number: str, submitted_for: int | None = None
    ) -> SlurmJob:
        """The Slurm job ``number``; ``submitted_for`` is an earlier attempt that it was submitted for."""
        submitted = QueuedJob(self._planned[queued.job.key], submitted_for or queued.attempt)
        job = SlurmJob(queued, self.folder, number, submitted, self._cancels)
        self._jobs.append(job)
        return job

    def adopt(self, queued: QueuedJob) -> SlurmJob:
        if not self._attempts:
            # Backwards: of several lines about a job the first one has the attempt that it was submitted for.
            records = reversed(journal.records(self.folder))
            self._attempts = {str(each.get("handle")): each.get("attempt", 1) for each in records}
        return self._followed(queued, queued.handle, self._attempts[queued.handle])

    def look(self, active: Sequence[RunningJob]) -> None:
        self._cancels.send()
        now = time.monotonic()
        if now < self._look_at or not active:
            return
        self._look_at = now + LOOK + EACH * len(active)
        self._limit.share(self._numbers())
        try:
            states = slurm.states()
        except UserError:
            return  # when the controller is back, it still knows its jobs
        for job in self._jobs:
            job.update(states.get(job.number))

    def goes_on(self, job: Job, before: JobRecord, dry: bool) -> bool:
        if self._states_before is None:
            self._states_before = slurm.states()
        seen = self._states_before.get(before.handle)
        if seen is not None and seen.state in (*WAITS, *RUNS):
            return True
        return parts_are_over(self.folder, job.key, before.attempt, job.machines)
