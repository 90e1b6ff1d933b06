"""How far a process has come with one task, and how fast it is at it at present."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

WINDOW = 10.0
"""Seconds that a current rate looks back."""


class Mark(NamedTuple):
    """The sums at one moment, seconds of the monotonic clock of the process."""

    seconds: float
    steps: int
    items: int


class Pace(NamedTuple):
    """What a task gets through in a second, and how long a step of it takes."""

    steps: float
    items: float | None
    step: float


class Progress:
    """Steps and items of one task of one process. Moments are nanoseconds of its monotonic clock."""

    def __init__(self) -> None:
        self.steps = 0
        self.items = 0
        """0 if they cannot be told."""
        self.first = 0
        self.latest = 0
        """When it began, and when it last went on."""
        self._marks: deque[Mark] = deque()
        self._before: Pace | None = None
        self._paused = False

    def went_on(self, start: int, end: int) -> None:
        """A span that is part of it."""
        self.first = self.first or start
        self.latest = max(self.latest, end)

    @property
    def moved(self) -> bool:
        """Whether it went on since the last mark."""
        return not self._marks or self.latest / 1e9 > self._marks[-1].seconds

    def mark(self, others: bool) -> None:
        """Remember the sums of this moment, for the rates that follow.

        ``others`` says whether the process went on with another task. Where it did so instead, the window
        ends, and another one begins when it comes back.
        """
        if not self.moved:
            self._paused = self._paused or others
            return
        if self._paused:
            self._before, self._paused = self.pace(), False
            self._marks.clear()
        now = self.latest / 1e9
        self._marks.append(Mark(now, self.steps, self.items))
        while len(self._marks) > 2 and self._marks[1].seconds < now - WINDOW:
            self._marks.popleft()

    def pace(self) -> Pace | None:
        """Its pace in the window; None before there is one."""
        if len(self._marks) < 2:
            return self._before
        first, last = self._marks[0], self._marks[-1]
        seconds, steps = last.seconds - first.seconds, last.steps - first.steps
        if not steps:
            return None
        items = (last.items - first.items) / seconds if self.items else None
        return Pace(steps / seconds, items, seconds / steps)

    def overall(self) -> Pace | None:
        """Its pace since it began."""
        seconds = (self.latest - self.first) / 1e9
        if seconds <= 0 or not self.first or not self.steps:
            return None
        items = self.items / seconds if self.items else None
        return Pace(self.steps / seconds, items, seconds / self.steps)
