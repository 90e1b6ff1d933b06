"""Processes of a suite that was killed: those that run still, those that have ended, those that are lost."""

from __future__ import annotations

import os

from ... import reaper
from ..plan.jobs import Process
from ..plan.planning import MARK
from . import starting
from .results import Result, of_record

BOOT = "/proc/sys/kernel/random/boot_id"


def boot() -> str:
    """What tells this start of the machine from all others."""
    try:
        with open(BOOT, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def living(folder: str, process: Process) -> bool:
    """Whether something of a process is still there. ``folder`` is the suite's."""
    try:
        lock = starting.hold(os.path.join(folder, process.run))
    except OSError:
        return False  # its run folder was never made
    if lock is None:
        return True
    os.close(lock)
    return False


def supervisors(folder: str, process: Process) -> list[reaper.Process]:
    """The ``inject run`` of a process, if it lives: it keeps its time and writes its record."""
    words = list(process.command)
    return [each for each in marked(folder, process) if _words(each.pid) == words]


def ended(folder: str, process: Process) -> Result | None:
    """How a process ended that nobody waited for; None if it was lost on the way."""
    return of_record(folder, process.run)


def begun(folder: str, process: Process) -> bool:
    """Whether a process ever came to run: ``inject run`` makes this before it starts a program."""
    return os.path.isdir(os.path.join(folder, process.run, "raw"))


def marked(folder: str, process: Process) -> list[reaper.Process]:
    """All processes that carry the mark of this one, also where they have left its tree."""
    mark = f"{MARK}={os.path.join(folder, process.run)}".encode()
    return [each for each in reaper.everyone() if mark in _variables(each.pid)]


def _variables(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _words(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            text = file.read()
    except OSError:
        return []
    return [os.fsdecode(word) for word in text[:-1].split(b"\0")]
