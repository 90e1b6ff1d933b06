"""Slurm's commands (``sinfo``, ``sbatch``, ``squeue``, ``scancel``, ``scontrol``), as functions.

If a command fails, its function raises UserError with Slurm's message. Sizes of memory are in bytes, times in
seconds.
"""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import UserError

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
    known = ", ".join(name.rstrip("*") for name in names)
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
