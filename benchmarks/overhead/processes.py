"""Run a process, and know what it cost."""

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
    """Seconds of one process and everything that it waited for."""

    wall: float
    cpu: float


class ProgramFailed(Exception):
    """A program of the benchmark did not run; the message has its command and the end of stderr."""


def cost(command: Sequence[str], folder: Path) -> Cost:
    """Run ``command`` in ``folder`` with its output thrown away.

    Raises:
        ProgramFailed: it did not exit with 0.
    """
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
    """What ``command`` prints.

    Raises:
        ProgramFailed: it did not exit with 0, or printed nothing.
    """
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode or not done.stdout.strip():
        raise ProgramFailed(f"{' '.join(command)}: {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def same_addresses() -> list[str]:
    """Words before a command that put its objects to the same addresses in each run: their hashes, and so
    what is counted of them, are the same. None where that is not to be had, as in many containers."""
    words = ["setarch", "-R"]
    if shutil.which(words[0]) is None:
        return []
    tried = subprocess.run([*words, "true"], capture_output=True, check=False)
    return [] if tried.returncode else words


def executed(file: Path) -> int:
    """The instructions that a file of callgrind's has of one process; 0 where it has none."""
    text = file.read_text(errors="replace")
    found = re.findall(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
    return int(found[-1]) if found else 0


def command_of(file: Path) -> str:
    """The command line of the process that a file of callgrind's is of; empty where it has none."""
    found = re.search(r"^cmd: *(.*)$", file.read_text(errors="replace"), re.MULTILINE)
    return found[1] if found else ""
