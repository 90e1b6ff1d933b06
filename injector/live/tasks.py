"""The progress of the tasks of a process: their steps and items so far, and their rates."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

from .parts import WINDOW, SiteKind

MOST_BEGINS = 1 << 16
"""The number of latest steps whose begins are kept: no follower needs older ones."""


class Mark(NamedTuple):
    """The progress at one moment."""

    seconds: float
    """The moment, seconds of the monotonic clock of the process."""
    steps: int
    items: int


class ModelCalls(NamedTuple):
    """The number of calls of a model, and of items that it was called with."""

    calls: int = 0
    items: int = 0


class TaskRate(NamedTuple):
    """The rate of a task."""

    steps: float
    """Steps per second."""
    items: float | None
    """Items per second; None if they are not known."""
    step: float
    """Seconds of a step."""


class TaskProgress:
    """Steps and items of one task of one process. Moments are nanoseconds of its monotonic clock.

    The items of a task are those that its marked steps record, or else those that its loaders drew, or else
    those of the model that was called with most.
    """

    steps = 0
    items = 0
    """The number of items so far; 0 if it is not known."""
    first = latest = 0
    """When its first span began, and when its last one ended."""
    marked = False
    """Whether a voirfile marks its steps."""

    def __init__(self) -> None:
        self.begins: deque[tuple[int, int]] = deque(maxlen=MOST_BEGINS)
        """When each of the latest steps began, and its number from 0, in order."""
        self._marks: deque[Mark] = deque()
        """The progress at the moments of the window."""
        self._before: TaskRate | None = None
        """The rate of the window before the present one."""
        self._paused = False
        """Whether the process has gone on with another task since the last mark, and not with this one."""
        self._models: dict[object, ModelCalls] = {}
        """The models that were called, by ``object_id``."""
        self._learning: set[object] = set()
        """Selectors of which a call site saw a model in training."""
        self._drawn_last = self._drawn = self._draws = 0
        """The items drawn for its models: in the last batch before each call, and in all batches; and the
        number of such calls."""

    def went_on(self, start: int, end: int) -> None:
        """Take a span that belongs to it."""
        self.first = self.first or start
        self.latest = max(self.latest, end)

    def step(self, start: int, end: int, items: int, counted: bool) -> None:
        """Take a step that a voirfile marks; ``counted``: whether the steps are counted elsewhere."""
        self.went_on(start, end)
        if not self.marked:
            # What was counted before its first step ended is part of that step.
            self.marked, self.items = True, 0
            self.steps = self.steps if counted else 0
        self.items += items
        if not counted:
            self.begins.append((start, self.steps))
            self.steps += 1

    def called(self, kind: SiteKind, items: int, fetched: Collection[Sequence[int]]) -> int:
        """Take a call of a model with so many ``items``. Returns how often that model has been called.

        ``fetched`` are the items of each batch since the last call, loader by loader. Returns 0 for a module
        beside the model, such as a loss.
        """
        if fetched:
            self._drawn_last += max(batches[-1] for batches in fetched)
            self._drawn += sum(map(sum, fetched))
            self._draws += 1
        selector = kind.site.selector
        if kind.learns and selector not in self._learning:
            # The first call in training: modules without a mode that were counted before were not the model.
            self._learning.add(selector)
            self._models.clear()
            self.items = self.items if self.marked else 0
        if not (kind.learns or kind.evaluates) and selector in self._learning:
            return 0  # it has no parameters, and its batch dimension may be tokens
        known = self._models.get(kind.object_id, ModelCalls())
        model = ModelCalls(known.calls + 1, known.items + items)
        self._models[kind.object_id] = model
        if not self.marked:
            self._set_items(max(each.items for each in self._models.values()))
        return model.calls

    def _set_items(self, called: int) -> None:
        """Set the items, where the models were ``called`` with so many."""
        last = self._drawn_last
        size = self._drawn // self._draws if self._draws else 0  # of a batch
        # Loaders and models agree, up to the batch that is being worked on.
        if not last or (called and min(abs(called - last), abs(called - self._drawn)) <= size):
            self.items = max(self.items, called)
        elif called and last == self._draws:
            # Each draw gave one object, which may stand for many items or be a part of one: none are claimed.
            self.items = 0
        else:
            self.items = last

    def step_at(self, moment: int) -> int:
        """The number of the last step that had begun by ``moment``; 0 before the first."""
        at = bisect_right(self.begins, (moment, 1 << 62))
        return self.begins[at - 1][1] if at else 0

    @property
    def moved(self) -> bool:
        """Whether it has gone on since the last mark."""
        return not self._marks or self.latest / 1e9 > self._marks[-1].seconds

    def mark(self, others: bool) -> None:
        """Keep the progress of this moment, from which the rates of the window follow.

        ``others``: whether the process has gone on with another task. If it did so instead of this one, the
        window ends: an evaluation of a minute must not slow down the rate of the training.
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

    def pace(self) -> TaskRate | None:
        """Its rate in the window; None before there is one."""
        if len(self._marks) < 2:
            return self._before  # it has just been resumed
        first, last = self._marks[0], self._marks[-1]
        seconds, steps = last.seconds - first.seconds, last.steps - first.steps
        if not steps:
            return None
        items = (last.items - first.items) / seconds if self.items else None
        return TaskRate(steps / seconds, items, seconds / steps)

    def rate(self, pace: TaskRate | None) -> float | None:
        """Items per second of ``pace``, or steps if items are not known; None without a pace."""
        return None if pace is None else pace.items if self.items else pace.steps

    def overall(self) -> TaskRate | None:
        """Its rate since it began; None before its first step."""
        seconds = (self.latest - self.first) / 1e9
        if seconds <= 0 or not self.first or not self.steps:
            return None
        items = self.items / seconds if self.items else None
        return TaskRate(self.steps / seconds, items, seconds / self.steps)
