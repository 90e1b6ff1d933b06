"""What is printed while a suite runs: on a terminal one line that changes, else a line for each event."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from typing import Protocol, TextIO

from ..plan.jobs import Job, time_of
from . import journal
from .engine import RunningJob

TICK = 1.0
"""Seconds between two states of the line on a terminal."""


class _HasJob(Protocol):
    @property
    def job(self) -> Job: ...


class Progress:
    """Tells of a suite with so many jobs. ``done``: those that had ended before."""

    def __init__(self, stream: TextIO, total: int, done: int = 0, parallel: int = 1) -> None:
        self._stream = stream
        self._total = total
        self._number = done
        self._failed = 0
        self._parallel = parallel
        self._live = stream.isatty()
        self._tick = 0.0
        self._took: dict[str, float] = {}  # by benchmark, what its last job of this call took
        self._note = ""
        self._active: Sequence[RunningJob] = ()
        self._waiting: Sequence[_HasJob] = ()

    def watch(self, active: Sequence[RunningJob], waiting: Sequence[_HasJob]) -> None:
        """The lists of the jobs that run and that are still to run, as they are at any time."""
        self._active, self._waiting = active, waiting

    # --- events ------------------------------------------------------------------------------------

    def started(self, active: RunningJob) -> None:
        """A job runs."""
        self._note = ""
        if self._live:
            return
        if active.state == journal.QUEUED:
            self._say(f"{active.job.key} is queued ({active.queue})")
            return
        how = "goes on" if active.adopted else "begins"
        expected = time_of(self.expected(active.job))
        left = f"; {time_of(self.left())} left of the suite" if self._waiting else ""
        self._say(f"{active.job.key} {how} on {active.where}, about {expected}{left}")

    def finished(self, active: RunningJob, ok: bool, reason: str) -> None:
        """A job has ended."""
        if ok:
            self._took[active.job.benchmark] = active.seconds
        word = "passed" if ok else "was interrupted" if active.interrupted else "FAILED"
        took = f" after {time_of(active.seconds)}"
        text = word + took + (f": {reason}" if reason else "")
        self._ended(active.job, text, ok or active.interrupted)

    def not_started(self, job: Job, reason: str) -> None:
        """A job could not be started."""
        self._ended(job, f"FAILED to start: {reason}", False)

    def blocked(self, job: Job, obstacles: Sequence[str]) -> None:
        """The next job waits for its devices."""
        self._note = f"waiting: {'; '.join(obstacles)}"
        self._say(f"{job.key} waits: {'; '.join(obstacles)}")

    def stopping(self, first: bool, active: bool) -> None:
        """A signal to stop has come."""
        if first and active:
            self._say("interrupted: the job that runs is being ended; once more ends it at once")
        self._note = "stopping"

    def _ended(self, job: Job, text: str, well: bool) -> None:
        self._number += 1
        self._failed += not well
        self._say(f"[{self._number}/{self._total}] {job.key} {text}")

    # --- the changing line -------------------------------------------------------------------------

    def next_tick(self) -> float | None:
        """When the line on the terminal is due (monotonic); None where there is none."""
        return self._tick if self._live else None

    def tick(self) -> None:
        """Bring the line up to date, if it is due."""
        if not self._live or time.monotonic() < self._tick:
            return
        self._tick = time.monotonic() + TICK
        if self._active or self._waiting:
            self._show(self.line())

    def line(self) -> str:
        """The state of the suite."""
        running = [
            f"{each.job.key} {time_of(each.seconds)} of {time_of(self.expected(each.job))}"
            for each in self._active
        ]
        failed = f", {self._failed} failed" if self._failed else ""
        left = time_of(self.left())
        parts = [f"[{self._number}/{self._total}{failed}]", *running, self._note, f"{left} left"]
        return " · ".join(part for part in parts if part)

    def left(self) -> float:
        """Seconds that the suite will probably take from now on."""
        running = [each for each in self._active if not each.over]
        lefts = [max(0.0, self.expected(each.job) - each.seconds) for each in running]
        waiting = sum(self.expected(each.job) for each in self._waiting)
        return seconds_left(lefts, waiting, self._parallel)

    def expected(self, job: Job) -> float:
        """Seconds that a job will probably take."""
        return self._took.get(job.benchmark, job.expected)

    def _show(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._write(f"\r\x1b[K{text[:width]}")

    def _say(self, text: str) -> None:
        self._write(f"\r\x1b[K{text}\n" if self._live else f"inject suite: {text}\n")
        self._tick = 0.0

    def _write(self, text: str) -> None:
        print_through(self._stream, text)

    def close(self) -> None:
        """Take the changing line away."""
        if self._live:
            self._write("\r\x1b[K")


def seconds_left(running: Sequence[float], waiting: float, at_once: int) -> float:
    """Seconds that jobs will take: those that run have ``running`` left, those that wait ``waiting``."""
    return max([(sum(running) + waiting) / max(1, at_once), *running])


def print_through(stream: TextIO, text: str) -> None:
    """Print, if that is still possible: the suite goes on when its terminal has gone."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        # What waits in its buffer would be tried again when we end, and change our exit code.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
