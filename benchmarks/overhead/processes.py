"""Run a process, and know what it cost."""

from __future__ import annotations

import os
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
