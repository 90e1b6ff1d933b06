"""What became of the processes of a job, and whether that is what should have become of them."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...store.folder import NotARunError, read_info
from ..plan.jobs import Job

STDERR = "stderr"
LONGEST = 200
TIMED_OUT = 124
"""The exit code of ``inject run`` when ``--timeout`` has ended the program."""


@dataclass
class Result:
    """How one process of a plan ended."""

    run: str
    """Its run folder, below the suite's."""
    code: int | None = None
    """The program's own exit code, or that of ``inject run`` where it never came to it."""
    signal: int | None = None
    timed_out: bool = False
    recorded: bool = True
    """Whether its run was recorded to the end."""
    ended: float | None = None
    """Unix seconds at which the program ended, as far as that was recorded."""

    def as_json(self) -> dict[str, Any]:
        """For the journal."""
        return {
            "code": self.code,
            "signal": self.signal,
            "timed_out": self.timed_out,
            "run": self.run,
        }

    def wrong(self, folder: str) -> str | None:
        """What was wrong, if anything was. ``folder`` is the suite's."""
        if self.timed_out:
            return "was ended: its time was up"
        if self.signal is not None:
            return f"died by {_signal_name(self.signal)}"
        if self.code:
            said = last_words(os.path.join(folder, self.run, STDERR))
            return f"exit code {self.code}" + (f" ({said})" if said else "")
        return None if self.recorded else "left no record"


def of_record(folder: str, run: str) -> Result | None:
    """How a process ended, as its ``run.json`` says; None where that was never written."""
    try:
        info = read_info(os.path.join(folder, run))
    except NotARunError:
        return None
    ended = info.get("exit")
    if not isinstance(ended, Mapping):
        return None
    timed_out, at = bool(info.get("timed_out")), info.get("ended")
    return Result(run, ended.get("code"), ended.get("signal"), timed_out, ended=at)


def of_status(folder: str, run: str, status: int) -> Result:
    """How a process ended, as ``waitpid`` and its record say; ``status`` as of ``sys.exit``."""
    found = of_record(folder, run)
    if found is not None:
        return found
    if status < 0:
        return Result(run, None, -status, recorded=False)
    return Result(run, status, None, status == TIMED_OUT, recorded=False)


def by_codes(folder: str, job: Job, ended: Mapping[str, Result]) -> list[str]:
    """What was wrong with how the processes of a job ended. ``folder`` is the suite's."""
    return told({key: each.wrong(folder) for key, each in ended.items()})


def told(wrong: Mapping[str, str | None]) -> list[str]:
    """Sentences about some of a job's processes; one for all, where it is the same for all."""
    sentences = set(wrong.values())
    if len(sentences) == 1:
        return [text for text in sentences if text]
    return [f"{key}: {text}" for key, text in wrong.items() if text]


def last_words(path: str) -> str:
    """The last line with a word in it of what a process printed, shortened; nothing if there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    spoken = [line.strip() for line in lines if re.search(r"\w", line)]
    return spoken[-1][:LONGEST] if spoken else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
