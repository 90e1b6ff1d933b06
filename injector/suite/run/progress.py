"""What is printed while a suite runs: on a terminal one line that changes, else a line for each event."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from typing import TextIO

from ..plan.jobs import Job, time_of
from . import journal
from .engine import QueuedJob, RunningJob

TICK = 1.0
"""Seconds between two updates of the line on a terminal."""


class Progress:
    """Prints how far a suite is.

    Whether ``stream`` is a terminal decides how. Of ``total`` jobs, ``done`` had ended before this call;
    ``parallel`` of them run at the same time.
    """

    def __init__(self, stream: TextIO, total: int, done: int = 0, parallel: int = 1) -> None:
        self._stream = stream
        self._total = total
        self._ended = done
        self._failed = 0
        self._parallel = parallel
        self._live = stream.isatty()
        self._next_tick = 0.0
        self._took: dict[str, float] = {}
        """By benchmark, the seconds that its last job of this call took."""
        self._note = ""
        """What the next job waits for, or that the suite is stopping."""
        self._active: Sequence[RunningJob] = ()
        self._waiting: Sequence[QueuedJob] = ()

    def watch(self, active: Sequence[RunningJob], waiting: Sequence[QueuedJob]) -> None:
        """Use these lists of the jobs that run and that wait; their owner keeps them up to date."""
        self._active, self._waiting = active, waiting

    # --- events ------------------------------------------------------------------------------------

    def started(self, active: RunningJob) -> None:
        """Show that a job runs, or is queued where it will run."""
        self._note = ""
        if self._live:
            return
        if active.state == journal.QUEUED:
            self._print(f"{active.job.key} is queued ({active.queue})")
            return
        how = "runs still" if active.adopted else "begins"
        expected = time_of(self.expected(active.job))
        left = f"; {time_of(self.left())} left of the suite" if self._waiting else ""
        self._print(f"{active.job.key} {how} on {active.where}, about {expected}{left}")

    def finished(self, active: RunningJob, ok: bool, reason: str) -> None:
        """Show that a job has ended."""
        if ok:
            self._took[active.job.benchmark] = active.seconds
        word = "passed" if ok else "was interrupted" if active.interrupted else "FAILED"
        took = f" after {time_of(active.seconds)}"
        text = word + took + (f": {reason}" if reason else "")
        self._count(active.job, text, ok or active.interrupted)

    def not_started(self, job: Job, reason: str) -> None:
        """Show that a job could not be started."""
        self._count(job, f"FAILED to start: {reason}", False)

    def blocked(self, job: Job, obstacles: Sequence[str]) -> None:
        """Show that the next job waits for its devices."""
        self._note = f"waiting: {'; '.join(obstacles)}"
        self._print(f"{job.key} waits: {'; '.join(obstacles)}")

    def stopping(self, first: bool, active: int) -> None:
        """Show that a signal to stop has come: whether it is the ``first``, and how many jobs are active."""
        if first and active:
            what = "the job that runs is" if active == 1 else f"the {active} jobs that run are"
            them = "it" if active == 1 else "them"
            self._print(f"interrupted: {what} being ended; once more ends {them} at once")
        self._note = "stopping"

    def _count(self, job: Job, text: str, well: bool) -> None:
        self._ended += 1
        self._failed += not well
        self._print(f"[{self._ended}/{self._total}] {job.key} {text}")

    # --- the changing line -------------------------------------------------------------------------

    def next_tick(self) -> float | None:
        """The monotonic time at which the changing line is due; None if there is none."""
        return self._next_tick if self._live else None

    def tick(self) -> None:
        """Update the changing line, if it is due."""
        if not self._live or time.monotonic() < self._next_tick:
            return
        self._next_tick = time.monotonic() + TICK
        if self._active or self._waiting:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"\r\x1b[K{self.line()[:width]}")

    def line(self) -> str:
        """How far the suite is, in one line."""
        running = [
            f"{active.job.key} {time_of(active.seconds)} of {time_of(self.expected(active.job))}"
            for active in self._active
        ]
        failed = f", {self._failed} failed" if self._failed else ""
        left = time_of(self.left())
        parts = [f"[{self._ended}/{self._total}{failed}]", *running, self._note, f"{left} left"]
        return " · ".join(part for part in parts if part)

    def left(self) -> float:
        """How many seconds the suite will probably take from now on."""
        running = [active for active in self._active if not active.over]
        lefts = [max(0.0, self.expected(active.job) - active.seconds) for active in running]
        waiting = sum(self.expected(queued.job) for queued in self._waiting)
        return seconds_left(lefts, waiting, self._parallel)

    def expected(self, job: Job) -> float:
        """How many seconds a job will probably take."""
        return self._took.get(job.benchmark, job.expected)

    def _print(self, text: str) -> None:
        self._write(f"\r\x1b[K{text}\n" if self._live else f"inject suite: {text}\n")
        self._next_tick = 0.0  # the changing line was overwritten

    def _write(self, text: str) -> None:
        print_through(self._stream, text)

    def close(self) -> None:
        """Erase the changing line."""
        if self._live:
            self._write("\r\x1b[K")


def seconds_left(running: Sequence[float], waiting: float, at_once: int) -> float:
    """How many seconds jobs will take, of which ``at_once`` run side by side.

    ``running`` has the seconds that are left of each job that runs, ``waiting`` the sum of all others'. It is
    the larger of what evenly shared work takes and of the longest job.
    """
    return max([(sum(running) + waiting) / max(1, at_once), *running])


def print_through(stream: TextIO, text: str) -> None:
    """Print, if that is still possible: a suite goes on when its terminal is gone."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        # Python writes what is left in the buffer when it exits; that would fail, with exit code 120.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
