"""Slurm's own command lines: what a cluster has, and submitting, watching and cancelling jobs.

Raises UserError with Slurm's words where a command fails.
"""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import UserError

ANSWER = 60.0
"""Seconds within which Slurm's controller has to answer."""
OWN = (
    *("array", "chdir", "dependency", "error", "export", "input", "job-name", "nodes", "ntasks"),
    *("ntasks-per-node", "open-mode", "output", "parsable", "signal", "test-only", "wait", "wrap"),
)
"""Options of sbatch that the engine sets itself."""


def call(words: Sequence[str], script: str | None = None) -> str:
    """What a command of Slurm prints. Raises UserError where there is none, or it fails."""
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


class Nodes(NamedTuple):
    """Nodes of a partition that can run jobs, as the least of them is."""

    number: int
    cpus: int
    memory: int
    """Bytes."""
    gpus: int
    gpu_type: str
    limit: float | None
    """Seconds that a job of the partition may take."""


DOWN = ("down", "drain", "drng", "fail", "maint", "unk", "err", "no_respond", "boot", "future")


def nodes(partition: str | None) -> Nodes:
    """The nodes of ``partition``, or of the default one.

    Raises UserError: no controller answers, there is no such partition, or none of its nodes is up.
    """
    lines = call(["sinfo", "--noheader", "--Node", "--format", "%P|%N|%c|%m|%G|%t|%l"]).splitlines()
    rows = [line.strip().split("|") for line in lines]
    names = list(dict.fromkeys(row[0] for row in rows))
    wanted = partition.split(",") if partition else [each for each in names if each.endswith("*")]
    unknown = [each for each in wanted if each not in {name.rstrip("*") for name in names}]
    known = ", ".join(name.rstrip("*") for name in names)
    if not wanted:
        raise UserError(
            f"Slurm has no default partition: name one as system.slurm.partition; there is {known}"
        )
    if partition and unknown:
        raise UserError(f"Slurm has no partition {unknown[0]}; there is {known}")
    chosen = [row for row in rows if row[0].rstrip("*") in {each.rstrip("*") for each in wanted}]
    up = {row[1]: row for row in chosen if not row[5].rstrip("*~#!%$@^-+").startswith(DOWN)}
    if not up:
        states = ", ".join(f"{row[1]} is {row[5]}" for row in chosen[:5])
        raise UserError(f"no node of the partition can run jobs: {states}")
    with_gpus = [row for row in up.values() if _gpus(row[4])[0]]
    usable = with_gpus or list(up.values())
    gpus, kind = min(_gpus(row[4]) for row in usable)
    return Nodes(
        len(usable),
        min(int(row[2].rstrip("+")) for row in usable),
        min(int(row[3].rstrip("+")) for row in usable) << 20,
        gpus,
        kind,
        _seconds(chosen[0][6]),
    )


def _gpus(gres: str) -> tuple[int, str]:
    """Number and type of ``gpu:a100:4(S:0-1),…``; 0 where there is none."""
    for each in gres.split(","):
        found = re.match(r"gpu(?::([^:(]+))?:(\d+)", each)
        if found:
            return int(found[2]), found[1] or ""
    return 0, ""


def _seconds(limit: str) -> float | None:
    """A time of Slurm (``1-02:03:04``, ``30:00``); None for ``infinite``."""
    days, dash, rest = limit.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() for part in parts):
        return None
    if dash:
        parts += ["0"] * (3 - len(parts))
    seconds = 0.0
    for part in parts:
        seconds = seconds * 60 + int(part)
    return 86400.0 * int(days or 0) + seconds


def option_words(options: Mapping[str, Any], own: Sequence[str] = OWN) -> list[str]:
    """``system.slurm`` as options of sbatch. Raises UserError for one that the engine sets ``own``."""
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
    """What a job asks for."""

    machines: int
    gpus: int
    """Of each machine."""
    cpus: int
    """Of each machine."""
    seconds: float

    def words(self) -> list[str]:
        """As options of sbatch."""
        words = [f"--nodes={self.machines}", f"--ntasks={self.machines}", "--ntasks-per-node=1"]
        words += [f"--cpus-per-task={self.cpus}", f"--time={math.ceil(self.seconds / 60)}"]
        return words + ([f"--gres=gpu:{self.gpus}"] if self.gpus else [])


def check(resources: JobRequest, options: Mapping[str, Any]) -> None:
    """Raise UserError, with Slurm's reason, where no node could ever run such a job."""
    words = [*resources.words(), *option_words(options)]
    try:
        call(["sbatch", "--test-only", *words], "#!/bin/sh\n")
    except UserError as error:
        raise UserError(f"{error} (options: {' '.join(words)})") from None


def most_tasks() -> int:
    """Tasks that an array may have; 0 where there are no arrays. Raises UserError."""
    lines = call(["scontrol", "show", "config"])
    largest = re.search(r"^MaxArraySize\s*=\s*(\d+)", lines, re.MULTILINE)
    fewer = re.search(r"\bmax_array_tasks=(\d+)", lines)
    return min((int(each[1]) for each in (largest, fewer) if each), default=0)


def submit(words: Sequence[str], script: str) -> str:
    """Submit a job, or an array of jobs; its number."""
    return call(["sbatch", "--parsable", *words], script).strip().partition(";")[0]


class JobState(NamedTuple):
    """What Slurm knows of a job."""

    state: str
    """``PENDING`` ``RUNNING`` ``NODE_FAIL`` …"""
    restarts: int
    nodes: str
    reason: str


def states() -> dict[str, JobState]:
    """By number (``12``, of a task of an array ``12_0``), our own jobs that Slurm has not forgotten.

    Raises UserError where it does not answer.
    """
    form = "JobArrayID:30|,State:30|,RestartCnt:12|,NodeList:1000|,Reason:300|"
    words = ["squeue", "--me", "--noheader", "--array", "--states=all", "--Format", form]
    lines = call(words).splitlines()
    rows = [[field.strip() for field in line.split("|")] for line in lines]
    return {
        row[0]: JobState(row[1], int(row[2] or 0), row[3], row[4]) for row in rows if len(row) > 4
    }


def cancel(numbers: Iterable[str], *options: str) -> None:
    """Cancel jobs, or with ``--signal`` send them one. What has ended already is no error."""
    _try(["scancel", "--quiet", *options, *numbers])


def let_run(array: str, at_once: int) -> None:
    """Have Slurm run so many tasks of an array at the same time; 0: as many as it likes."""
    _try(["scontrol", "update", f"JobId={array}", f"ArrayTaskThrottle={at_once}"])


def _try(words: Sequence[str]) -> None:
    try:
        call(words)
    except UserError:
        pass  # of jobs that have ended; a caller that has to know tries once more
