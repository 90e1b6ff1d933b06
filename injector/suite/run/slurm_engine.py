"""The engine of a cluster with Slurm, which says when a job of the suite runs.

Jobs of one node that ask for the same are tasks of one array of ``sbatch``, any other is a job of its own.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import UserError
from ..plan.jobs import Job, Plan
from ..plan.machine import Machine, node_devices
from . import journal, slurm, slurm_arrays
from .active_job import BACKSTOP
from .apart_job import join_parts
from .engine import JobEngine, Opened, QueuedJob, RunningJob
from .journal import QUEUED, JobRecord
from .machine_part import MACHINES
from .machine_part import __name__ as PART
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
TOO_MANY = re.compile(r"Submit\w*Limit")
"""What Slurm calls a limit of jobs that are submitted and not over: ``QOSMaxSubmitJobPerUserLimit`` …"""
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
    """Below a suite's folder, the file with what Slurm and the parts of a job print.

    Of a task of an array its name is the number alone: by ``%A_%a`` all tasks have one pattern.
    """
    return f"{MACHINES}/{number}.out" if "_" in number else f"{MACHINES}/{key}.{number}.out"


class PendingCancels:
    """The numbers of jobs that are to be ended: when a suite is, many, of which Slurm hears at once."""

    def __init__(self) -> None:
        self.polite: list[str] = []
        """Those whose programs are to end by themselves."""
        self.killed: list[str] = []

    def send(self) -> None:
        """Have Slurm end them."""
        if self.polite:
            slurm.cancel(self.polite, "--state=PENDING")
            slurm.cancel(self.polite, "--signal=TERM")
        if self.killed:
            slurm.cancel(self.killed)
        self.polite.clear()
        self.killed.clear()


class SlurmJob(RemoteJob):
    """One job of the suite as one of Slurm, or as a task of an array, by its number ``handle``."""

    may_run = False

    def __init__(
        self, queued: QueuedJob, folder: str, number: str, first: QueuedJob, cancels: PendingCancels
    ) -> None:
        self.number = number
        self._cancels = cancels
        self._waited = False
        """Whether it waited for its nodes at the last look."""
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
            self._waited = seen.state in WAITS
            return
        self._unseen += 1
        if self._unseen > 1:  # what its machines have written last may come late over the network
            # Slurm remembers what has ended, but not a task that is cancelled while its array waits.
            state = seen.state if seen else "CANCELLED" if self._waited else "forgotten"
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
            self.problems = [f"Slurm requeued it {seen.restarts} times"]
            self.kill()
            return
        self.began_anew(QueuedJob(self._first.attempt(attempt, self.folder), attempt))

    def terminate(self) -> None:
        self._cancels.polite.append(self.number)

    def kill(self) -> None:
        self._cancels.killed.append(self.number)


class SlurmEngine(JobEngine):
    """Runs jobs of ``plan``, whose run folder ``folder`` is on a file system that all nodes share."""

    def __init__(self, plan: Plan, folder: str) -> None:
        self.folder = folder
        self.machine = plan.machine
        self._name = plan.suite["name"]
        self.options = plan.machine["engine"]["options"]
        self.at_once = max(1, len(plan.jobs))  # how many really run is Slurm's to say
        self._first = {job.key: job for job in plan.jobs}
        self._most = 0  # tasks of an array
        self._limit = slurm_arrays.AtOnce()
        self._cancels = PendingCancels()
        self._jobs: list[SlurmJob] = []
        self._refused_at = 0  # jobs that were not over when Slurm took no more
        self._look_at = 0.0
        self._submitted: dict[str, int] = {}  # by number, the attempt that it was for
        self._seen: dict[str, slurm.JobState] | None = None  # by an engine that resumes

    def open(self) -> None:
        slurm.states()
        self._most = min(slurm.most_tasks(), slurm_arrays.LARGEST)
        os.makedirs(os.path.join(self.folder, MACHINES), exist_ok=True)

    def close(self) -> None:
        self._cancels.send()

    def limited(self, max_parallel: int | None) -> int:
        self._limit.limit = max_parallel
        return self.at_once

    def _numbers(self) -> list[str]:
        """Of the jobs that are submitted and not over."""
        self._jobs = [each for each in self._jobs if not each.over]
        return [each.number for each in self._jobs]

    def has_room(self, job: Job) -> bool:
        numbers = self._numbers()
        if 0 < self._refused_at <= len(numbers):
            return False
        self._refused_at = 0
        return self._limit.room(numbers) > 0

    def together(self, first: QueuedJob, others: Sequence[QueuedJob]) -> list[QueuedJob]:
        return slurm_arrays.alike(first, others, self._kind, self._most)

    def _kind(self, queued: QueuedJob) -> tuple[str, ...]:
        return tuple(resources_of(queued.job, self.machine).words())

    def start(self, queued: QueuedJob, opened: Opened) -> SlurmJob:
        return self._start([queued], lambda *_: opened)[0]

    def start_all(
        self, batch: Sequence[QueuedJob], opened: Callable[[Job, int], Opened]
    ) -> list[RunningJob]:
        try:
            return [*self._start(batch, opened)]
        except CannotStartError as error:
            running = len(self._numbers())
            if not running or not TOO_MANY.search(str(error)):
                raise
            self._refused_at = running
            return []

    def _start(
        self, batch: Sequence[QueuedJob], opened: Callable[[Job, int], Opened]
    ) -> list[SlurmJob]:
        """Submit jobs, or the first half of them, or of these …, where Slurm takes no more."""
        try:
            numbers = self._submit(batch)
        except UserError as error:
            if len(batch) > 1 and TOO_MANY.search(str(error)):
                return self._start(batch[: len(batch) // 2], opened)
            raise CannotStartError(str(error)) from None
        return [self._started(*each, opened) for each in zip(batch, numbers, strict=True)]

    def _submit(self, batch: Sequence[QueuedJob]) -> list[str]:
        """Their numbers."""
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
            words.append(f"--job-name={self._name}")
        words += slurm.option_words(self.options)
        apart = ["--apart"] if job.is_contained_apart else []
        part = [sys.executable, "-m", PART, *apart, self.folder]
        number = slurm.submit(words, slurm_arrays.script(batch, part, resources.cpus))
        if len(batch) == 1:
            return [number]
        self._limit.submitted(number, at_once)
        return [f"{number}_{task}" for task in range(len(batch))]

    def _started(
        self, queued: QueuedJob, number: str, opened: Callable[[Job, int], Opened]
    ) -> SlurmJob:
        opened(queued.job, queued.attempt)(QUEUED, handle=number)
        first = QueuedJob(self._first[queued.job.key], queued.attempt)
        return self._of(SlurmJob(queued, self.folder, number, first, self._cancels))

    def _of(self, job: SlurmJob) -> SlurmJob:
        self._jobs.append(job)
        return job

    def adopt(self, queued: QueuedJob) -> SlurmJob:
        if not self._submitted:
            records = reversed(journal.records(self.folder))
            self._submitted = {str(each.get("handle")): each.get("attempt", 1) for each in records}
        first = QueuedJob(self._first[queued.job.key], self._submitted[queued.handle])
        return self._of(SlurmJob(queued, self.folder, queued.handle, first, self._cancels))

    def look(self, active: Sequence[RunningJob]) -> None:
        self._cancels.send()
        now = time.monotonic()
        if now < self._look_at or not active:
            return
        self._look_at = now + LOOK + EACH * len(active)
        self._limit.share(self._numbers())
        try:
            seen = slurm.states()
        except UserError:
            return  # a controller that is back later knows its jobs still
        for each in self._jobs:
            each.update(seen.get(each.number))

    def goes_on(self, job: Job, before: JobRecord, dry: bool) -> bool:
        if self._seen is None:
            self._seen = slurm.states()
        seen = self._seen.get(before.handle)
        if seen is not None and seen.state in (*WAITS, *RUNS):
            return True
        return parts_are_over(self.folder, job.key, before.attempt, job.machines)
