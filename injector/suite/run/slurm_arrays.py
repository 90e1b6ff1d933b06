"""Job arrays of Slurm: jobs of a suite that need the same, each on one node, are submitted as one array.

Here is decided which jobs are tasks of one array and how many of them run at the same time, and written the
script that maps a task to its job::

    sbatch --array=0-2%2    ->  job 12, its tasks 12_0, 12_1, 12_2, two of them at a time
    task 12_1               ->  case 1) of the script: key and attempt of its job
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

from . import slurm
from .engine import QueuedJob

LARGEST = 10_000
"""How many tasks an array has at most: its script, some 100 bytes a task, must stay below Slurm's 4 MiB."""
VARIABLES = ("JOB_ID", "TASK_ID", "TASK_COUNT", "TASK_MIN", "TASK_MAX", "TASK_STEP")
"""The variables of a task, each after ``SLURM_ARRAY_``, that programs must not see: one that chooses its seed
or its part of a sweep by them would take the suite's array for its own."""


def tasks_with(
    first: QueuedJob, others: Iterable[QueuedJob], kind: Callable[[QueuedJob], Hashable], most: int
) -> list[QueuedJob]:
    """Those of ``others``, in their order, that become tasks of one array with ``first``.

    An array has jobs of one ``kind``, which is what a job needs of Slurm, and at most ``most`` tasks. Jobs of
    several nodes are submitted one by one.
    """
    if most < 2 or first.job.machines > 1:
        return []
    tasks: list[QueuedJob] = []
    kind_of_first = kind(first)
    for queued in others:
        if len(tasks) == most - 1:
            break
        if queued.adopted is None and queued.job.machines == 1 and kind(queued) == kind_of_first:
            tasks.append(queued)
    return tasks


def array_of(number: str) -> str:
    """The number of the array that a job is a task of (``12`` for ``12_0``); empty if it is no task."""
    return number.partition("_")[0] if "_" in number else ""


def shares(numbers: Iterable[str], limit: int) -> dict[str, int]:
    """How many tasks of each array may run, if ``limit`` jobs of the suite may run at the same time.

    ``numbers`` are those of the jobs that were submitted and are not over, in the order of submission. Jobs
    that are no tasks are subtracted first, since Slurm runs them when it likes. Each array gets at least one:
    for Slurm, 0 is no limit.
    """
    tasks_of = Counter(map(array_of, numbers))
    rest = limit - tasks_of.pop("", 0)
    shares_of = {}
    for array, tasks in tasks_of.items():
        shares_of[array] = max(1, min(tasks, rest))
        rest -= shares_of[array]
    return shares_of


class ParallelLimit:
    """Keeps the number of a suite's jobs that run at the same time to ``limit``, if there is one.

    Arrays share it: the first one gets as much of it as it can use, the next ones get the rest.
    """

    def __init__(self) -> None:
        self.limit: int | None = None
        self._set: dict[str, int] = {}
        """By array, the limit that Slurm has for it."""

    def room(self, numbers: Sequence[str]) -> int:
        """How many more jobs may run beside ``numbers``, those that were submitted and are not over."""
        if self.limit is None:
            return sys.maxsize
        alone = sum(not array_of(number) for number in numbers)
        return self.limit - alone - sum(shares(numbers, self.limit).values())

    def submitted(self, array: str, at_once: int) -> None:
        """Note that an array was submitted with the limit ``at_once``; 0 is no limit."""
        self._set[array] = at_once

    def share(self, numbers: Sequence[str]) -> None:
        """Raise the limits of the arrays of ``numbers`` to what they may have now."""
        arrays = dict.fromkeys(filter(None, map(array_of, numbers)), 0)
        wanted = arrays if self.limit is None else shares(numbers, self.limit)
        for array, at_once in wanted.items():
            before = self._set.get(array)  # an array of an earlier call may have any limit
            if before is None or before < at_once:
                slurm.let_run(array, at_once)
                self._set[array] = at_once


def script(jobs: Sequence[QueuedJob], part: Sequence[str], cpus: int) -> str:
    """The batch script of a job, or of an array of jobs: ``srun`` starts one task on each node.

    ``part`` is the command that runs a machine's part. It gets four more words: key and attempt of its job,
    the number of its machine, which is that of its task of ``srun``, and the number of the Slurm job. Each
    time that Slurm requeues a job counts as one more attempt.
    """
    # A part that fails must not end the others: the suite gives them time to write their records.
    step = f"srun --cpus-per-task={cpus} --kill-on-bad-exit=0 --wait=0 sh -c"
    restarts = "${SLURM_RESTART_COUNT:-0}"
    inner = f'exec {shlex.join(part)} "$1" "$2" "$SLURM_PROCID" "$3"'
    if len(jobs) == 1:
        job, attempt, *_ = jobs[0]
        words = f'{shlex.quote(job.key)} "$(({attempt} + {restarts}))" "$SLURM_JOB_ID"'
        return f"#!/bin/sh\nexec {step} {shlex.quote(inner)} sh {words}\n"
    # Within srun, which sets some of them itself.
    inner = f"unset {' '.join(f'SLURM_ARRAY_{name}' for name in VARIABLES)}; {inner}"
    lines = ["#!/bin/sh", "case $SLURM_ARRAY_TASK_ID in"]
    for number, (job, attempt, *_) in enumerate(jobs):
        lines.append(f"{number}) set -- {shlex.quote(job.key)} {attempt};;")
    words = f'"$1" "$(($2 + {restarts}))" "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"'
    lines += ["esac", f"exec {step} {shlex.quote(inner)} sh {words}", ""]
    return "\n".join(lines)
