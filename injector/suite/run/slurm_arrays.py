"""Job arrays of Slurm: like jobs of a suite, each on one node, are submitted in one go, as tasks of an array.

Which jobs are alike, how many of them run at the same time, and the script that each task finds its job in.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

from . import slurm
from .engine import QueuedJob

LARGEST = 10_000
"""Tasks of an array at most: its script, of some 100 bytes for each, has to stay below Slurm's 4 MiB."""
VARIABLES = ("JOB_ID", "TASK_ID", "TASK_COUNT", "TASK_MIN", "TASK_MAX", "TASK_STEP")
"""Of tasks (``SLURM_ARRAY_…``). A program that finds them takes the array for its own, for seeds say."""


def alike(
    first: QueuedJob, others: Iterable[QueuedJob], kind: Callable[[QueuedJob], Hashable], most: int
) -> list[QueuedJob]:
    """Those of ``others``, in their order, that are tasks of one array with ``first``, of ``most`` tasks.

    ``kind``: what a job asks of Slurm. Jobs of several nodes are submitted one by one.
    """
    if most < 2 or first.job.machines > 1:
        return []
    found: list[QueuedJob] = []
    wanted = kind(first)
    for each in others:
        if len(found) == most - 1:
            break
        if each.adopted is None and each.job.machines == 1 and kind(each) == wanted:
            found.append(each)
    return found


def array_of(number: str) -> str:
    """The number of the array that a job is a task of (``12`` of ``12_0``); nothing where it is none."""
    return number.partition("_")[0] if "_" in number else ""


def shares(numbers: Iterable[str], limit: int) -> dict[str, int]:
    """How many tasks of each array may run, where ``limit`` jobs of the suite may run at the same time.

    ``numbers``: of the jobs that are submitted and not over, in the order in which they were; those that are
    no tasks come first, since Slurm runs them when it likes. At least one of each array: 0 is no limit.
    """
    left = Counter(array_of(each) for each in numbers)
    rest = limit - left.pop("", 0)
    found = {}
    for array, tasks in left.items():
        found[array] = max(1, min(tasks, rest))
        rest -= found[array]
    return found


class AtOnce:
    """Keeps the jobs of a suite that run at the same time to ``limit``, where there is one.

    Arrays share it: the first one has as much of it as it can use, the next ones have what is left.
    """

    def __init__(self) -> None:
        self.limit: int | None = None
        self._known: dict[str, int] = {}  # by array, what Slurm keeps to

    def room(self, numbers: Sequence[str]) -> int:
        """How many more jobs may be let run beside ``numbers``, which are submitted and not over."""
        if self.limit is None:
            return sys.maxsize
        alone = sum(not array_of(each) for each in numbers)
        return self.limit - alone - sum(shares(numbers, self.limit).values())

    def submitted(self, array: str, at_once: int) -> None:
        """An array was submitted with a limit of its own; 0: with none."""
        self._known[array] = at_once

    def share(self, numbers: Sequence[str]) -> None:
        """Have Slurm let the arrays of ``numbers`` run as many tasks as they may by now."""
        arrays = dict.fromkeys(filter(None, map(array_of, numbers)), 0)
        wanted = arrays if self.limit is None else shares(numbers, self.limit)
        for array, at_once in wanted.items():
            known = self._known.get(array)  # an array of an earlier call may have any limit
            if known is None or known < at_once:
                slurm.let_run(array, at_once)
                self._known[array] = at_once


def script(jobs: Sequence[QueuedJob], part: Sequence[str], cpus: int) -> str:
    """What a job runs, or each task of an array: one task of ``srun`` a node, whose number is the machine's.

    ``part``: the command of a machine's part, which is given key and attempt of its job, its machine and the
    number of the Slurm job.
    """
    step = f"srun --cpus-per-task={cpus} --kill-on-bad-exit=0 --wait=0 sh -c"
    again = "${SLURM_RESTART_COUNT:-0}"
    inner = f'exec {shlex.join(part)} "$1" "$2" "$SLURM_PROCID" "$3"'
    if len(jobs) == 1:
        job, attempt, *_ = jobs[0]
        words = f'{shlex.quote(job.key)} "$(({attempt} + {again}))" "$SLURM_JOB_ID"'
        return f"#!/bin/sh\nexec {step} {shlex.quote(inner)} sh {words}\n"
    unset = (
        f"unset {' '.join(f'SLURM_ARRAY_{each}' for each in VARIABLES)}"  # srun sets some itself
    )
    inner = f"{unset}; {inner}"
    lines = ["#!/bin/sh", "case $SLURM_ARRAY_TASK_ID in"]
    for number, (job, attempt, *_) in enumerate(jobs):
        lines.append(f"{number}) set -- {shlex.quote(job.key)} {attempt};;")
    words = f'"$1" "$(($2 + {again}))" "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"'
    lines += ["esac", f"exec {step} {shlex.quote(inner)} sh {words}", ""]
    return "\n".join(lines)
