"""Run a process and measure what it costs; read what callgrind counted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import NamedTuple

from .tools import environment


class Cost(NamedTuple):
    """Seconds of a process, with all children that it waited for."""

    wall: float
    cpu: float


class ProgramFailed(Exception):
    """A program did not exit with 0; the message has its command and the end of what it wrote to stderr."""


def cost(command: Sequence[str], folder: Path) -> Cost:
    """Run ``command`` in ``folder``, without its output, and return what it costs. Raises ProgramFailed."""
    # By wait4, which gives the times of this process alone; RUSAGE_CHILDREN has those of all before it too.
    null = os.open(os.devnull, os.O_RDWR)
    try:
        before = perf_counter_ns()
        process = subprocess.Popen(
            command, cwd=folder, env=environment(), stdin=null, stdout=null, stderr=null
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = (perf_counter_ns() - before) / 1e9
    finally:
        os.close(null)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise ProgramFailed(f"{' '.join(command)}: exit code {process.returncode}")
    return Cost(wall, used.ru_utime + used.ru_stime)


def answer(command: Sequence[str], folder: Path) -> str:
    """Run ``command`` in ``folder`` and return what it prints.

    Raises ProgramFailed, also if it prints nothing.
    """
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode or not done.stdout.strip():
        raise ProgramFailed(f"{' '.join(command)}: {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def same_addresses() -> list[str]:
    """Words before a command by which its objects have the same addresses in every run.

    Many hashes are addresses. With the same ones, dicts and sets have the same collisions, and instructions
    can be compared. The list is empty where this is not permitted, as in many containers.
    """
    words = ["setarch", "-R"]
    if shutil.which(words[0]) is None:
        return []
    attempt = subprocess.run([*words, "true"], capture_output=True, check=False)
    return [] if attempt.returncode else words


def executed(file: Path) -> int:
    """The instructions of a process in the file that callgrind wrote of it; 0 if it has none."""
    text = file.read_text(errors="replace")
    totals = re.findall(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
    return int(totals[-1]) if totals else 0


def command_of(file: Path) -> str:
    """The command line of a process in the file that callgrind wrote of it; empty if it has none."""
    match = re.search(r"^cmd: *(.*)$", file.read_text(errors="replace"), re.MULTILINE)
    return match[1] if match else ""
