"""Slurm's commands (``sinfo``, ``sbatch``, ``squeue``, ``scancel``, ``scontrol``), as functions.

If a command fails, its function raises UserError with Slurm's message. Sizes of memory are in bytes, times in
seconds.

Jobs of a suite that need the same, each on one node, are submitted as one job array. In the second part is
decided which jobs are tasks of one array and how many of them run at the same time, and written the script
that maps a task to its job::

    sbatch --array=0-2%2    ->  job 12, its tasks 12_0, 12_1, 12_2, two of them at a time
    task 12_1               ->  case 1) of the script: key and attempt of its job
"""

from __future__ import annotations

import math
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import UserError
from .engine import QueuedJob

ANSWER = 60.0
"""Seconds that Slurm's controller has to answer."""
OWN = (
    *("array", "chdir", "dependency", "error", "export", "input", "job-name", "nodes", "ntasks"),
    *("ntasks-per-node", "open-mode", "output", "parsable", "signal", "test-only", "wait", "wrap"),
)
"""The options of sbatch that the engine sets itself."""


def call(words: Sequence[str], script: str | None = None) -> str:
    """What a command of Slurm prints, with ``script`` as its input. Raises UserError if it fails."""
    try:
        done = subprocess.run(
            words, input=script, capture_output=True, text=True, timeout=ANSWER, check=False
        )
    except FileNotFoundError:
        raise UserError(f"there is no command {words[0]}: Slurm is not installed here") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"{words[0]}: Slurm's controller did not answer in {ANSWER:g} s") from None
    if done.returncode:
        lines = done.stderr.replace(f"{words[0]}: ", "").splitlines()
        texts = [line.partition("error: ")[2] or line for line in lines]
        raise UserError(f"{words[0]}: {'; '.join(filter(None, texts)) or 'it failed'}")
    return done.stdout if words[0] != "sbatch" else done.stdout or done.stderr


class PartitionNodes(NamedTuple):
    """The nodes of a partition that can run jobs: how many, and what each of them has at least."""

    number: int
    cpus: int
    memory: int
    gpus: int
    gpu_type: str
    limit: float | None
    """Seconds that a job of the partition may take; None if it has no limit."""


DOWN = ("down", "drain", "drng", "fail", "maint", "unk", "err", "no_respond", "boot", "future")
"""How the states begin of nodes that take no jobs, as sinfo abbreviates them."""


def nodes(partition: str | None) -> PartitionNodes:
    """The nodes of ``partition`` (one, or several with commas), or of the default one.

    If some of them have GPUs, only those count. Raises UserError if no controller answers, there is no such
    partition, or none of its nodes is up.
    """
    # One line a node: partition, node, cores, MiB, GRES, state, time limit of the partition.
    lines = call(["sinfo", "--noheader", "--Node", "--format", "%P|%N|%c|%m|%G|%t|%l"]).splitlines()
    rows = [line.strip().split("|") for line in lines]
    names = list(dict.fromkeys(row[0] for row in rows))
    # sinfo marks the default partition with an asterisk.
    wanted = partition.split(",") if partition else [name for name in names if name.endswith("*")]
    unknown = [each for each in wanted if each not in {name.rstrip("*") for name in names}]
    known = ", ".join(sorted(name.rstrip("*") for name in names))
    if not wanted:
        raise UserError(
            f"Slurm has no default partition: name one as system.slurm.partition; there is {known}"
        )
    if partition and unknown:
        raise UserError(f"Slurm has no partition {unknown[0]}; there is {known}")
    chosen = [row for row in rows if row[0].rstrip("*") in {each.rstrip("*") for each in wanted}]
    # By node, since one may be in several partitions. Signs after a state: not responding, power saving, ...
    up = {row[1]: row for row in chosen if not row[5].rstrip("*~#!%$@^-+").startswith(DOWN)}
    if not up:
        states = ", ".join(f"{row[1]} is {row[5]}" for row in chosen[:5])
        raise UserError(f"no node of the partition can run jobs: {states}")
    with_gpus = [row for row in up.values() if _gpus_of(row[4])[0]]
    usable = with_gpus or list(up.values())
    gpus, gpu_type = min(_gpus_of(row[4]) for row in usable)
    return PartitionNodes(
        len(usable),
        min(int(row[2].rstrip("+")) for row in usable),
        min(int(row[3].rstrip("+")) for row in usable) << 20,
        gpus,
        gpu_type,
        _seconds_of(chosen[0][6]),
    )


def _gpus_of(gres: str) -> tuple[int, str]:
    """Number and type of the GPUs in a GRES such as ``gpu:a100:4(S:0-1),…``; 0 and "" if there are none."""
    for resource in gres.split(","):
        found = re.match(r"gpu(?::([^:(]+))?:(\d+)", resource)
        if found:
            return int(found[2]), found[1] or ""
    return 0, ""


def _seconds_of(limit: str) -> float | None:
    """The seconds of a time limit such as ``1-02:03:04`` or ``30:00``; None for ``infinite``."""
    days, dash, rest = limit.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() for part in parts):
        return None
    if dash:  # after days come hours; without days, the last part is seconds
        parts += ["0"] * (3 - len(parts))
    seconds = 0.0
    for part in parts:
        seconds = seconds * 60 + int(part)
    return 86400.0 * int(days or 0) + seconds


def option_words(options: Mapping[str, Any], own: Sequence[str] = OWN) -> list[str]:
    """``options``, as ``system.slurm`` has them, on a command line of sbatch.

    Raises UserError for one in ``own``, which the engine sets itself.
    """
    words = []
    for key, value in options.items():
        name = str(key).replace("_", "-")
        if name in own:
            raise UserError(
                f"system.slurm.{key} cannot be set: inject sets sbatch's --{name} itself"
            )
        if value is False and name == "requeue":
            words.append("--no-requeue")
        elif value is True:
            words.append(f"--{name}")
        elif value not in (None, False):
            words.append(f"--{name}={value}")
    return words


class JobRequest(NamedTuple):
    """What a job needs of Slurm."""

    machines: int
    gpus: int
    """On each machine."""
    cpus: int
    """On each machine."""
    seconds: float

    def words(self) -> list[str]:
        """The options of sbatch for it."""
        words = [f"--nodes={self.machines}", f"--ntasks={self.machines}", "--ntasks-per-node=1"]
        words += [f"--cpus-per-task={self.cpus}", f"--time={math.ceil(self.seconds / 60)}"]
        return words + ([f"--gres=gpu:{self.gpus}"] if self.gpus else [])


def check(resources: JobRequest, options: Mapping[str, Any]) -> None:
    """Raise UserError, with Slurm's reason, if no node could ever run such a job."""
    words = [*resources.words(), *option_words(options)]
    try:
        call(["sbatch", "--test-only", *words], "#!/bin/sh\n")
    except UserError as error:
        raise UserError(f"{error} (options: {' '.join(words)})") from None


def most_tasks() -> int:
    """How many tasks a job array may have; 0 if the cluster has no arrays. Raises UserError."""
    lines = call(["scontrol", "show", "config"])
    size = re.search(r"^MaxArraySize\s*=\s*(\d+)", lines, re.MULTILINE)
    tasks = re.search(r"\bmax_array_tasks=(\d+)", lines)  # of SchedulerParameters
    return min((int(limit[1]) for limit in (size, tasks) if limit), default=0)


def submit(words: Sequence[str], script: str) -> str:
    """Submit a job, or a job array, with the options ``words``; its number. Raises UserError."""
    # It prints NUMBER, or NUMBER;CLUSTER.
    return call(["sbatch", "--parsable", *words], script).strip().partition(";")[0]


class JobState(NamedTuple):
    """What squeue shows of a job."""

    state: str
    """``PENDING``, ``RUNNING``, ``NODE_FAIL``, …"""
    restarts: int
    """How many times it was requeued."""
    nodes: str
    reason: str
    """Why it waits or has failed."""


def states() -> dict[str, JobState]:
    """All jobs of this user that Slurm still knows, by number: ``12``, or ``12_0`` for a task of an array.

    Slurm forgets a job some minutes after its end (``MinJobAge``). Raises UserError if it does not answer.
    """
    form = "JobArrayID:30|,State:30|,RestartCnt:12|,NodeList:1000|,Reason:300|"
    words = ["squeue", "--me", "--noheader", "--array", "--states=all", "--Format", form]
    lines = call(words).splitlines()
    rows = [[field.strip() for field in line.split("|")] for line in lines]
    return {
        row[0]: JobState(row[1], int(row[2] or 0), row[3], row[4]) for row in rows if len(row) > 4
    }


def cancel(numbers: Iterable[str], *options: str) -> None:
    """Cancel jobs, or with the option ``--signal`` send them a signal; jobs that have ended are skipped."""
    _call_unless_ended(["scancel", "--quiet", *options, *numbers])


def let_run(array: str, at_once: int) -> None:
    """Have Slurm run at most ``at_once`` tasks of an array at the same time; 0 is no limit."""
    _call_unless_ended(["scontrol", "update", f"JobId={array}", f"ArrayTaskThrottle={at_once}"])


def _call_unless_ended(words: Sequence[str]) -> None:
    try:
        call(words)
    except UserError:
        pass  # whether it failed for another reason, the states of the jobs will show


# --- job arrays --------------------------------------------------------------------------------------

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
                let_run(array, at_once)
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
