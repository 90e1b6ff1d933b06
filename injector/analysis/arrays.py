"""Arithmetic and statistics of columns: intervals of time, medians, unusual steps."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from .columns import Flags, Ints
from .profile import Statistics


class ExcludedIntervals:
    """Pieces of time that do not count, and how much of any interval they take."""

    def __init__(self, start: Ints, end: Ints) -> None:
        """``start`` and ``end`` in any order, overlapping or not."""
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        if len(start):
            latest = np.maximum.accumulate(end)
            fresh = np.concatenate(([True], start[1:] > latest[:-1]))
            last = np.concatenate((np.flatnonzero(fresh)[1:] - 1, [len(start) - 1]))
            start, end = start[fresh], latest[last]
        self.start, self.end = start, end
        self._before = np.concatenate(([0], np.cumsum(end - start)))

    def __len__(self) -> int:
        return len(self.start)

    def until(self, moment: Ints) -> Ints:
        """How much of the time before each moment they take."""
        if not len(self.start):
            return np.zeros(len(moment), np.int64)
        last = np.searchsorted(self.start, moment, side="right")
        inside = np.where(last > 0, self.end[last - 1] - moment, 0)
        found: Ints = self._before[last] - np.maximum(inside, 0)
        return found

    def within(self, start: Ints, end: Ints) -> Ints:
        """How much of each interval they take."""
        return self.until(end) - self.until(start)

    def hold(self, moment: Ints) -> Flags:
        """Whether each moment lies in one; their ends do not."""
        if not len(self.start):
            return np.zeros(len(moment), np.bool_)
        last = np.searchsorted(self.start, moment, side="right")
        return (last > 0) & (moment < self.end[last - 1])


NOTHING = ExcludedIntervals(np.empty(0, np.int64), np.empty(0, np.int64))


def counts(moments: Ints, start: Ints, end: Ints) -> Ints:
    """How many of the sorted ``moments`` lie in each interval from ``start`` to before ``end``."""
    found: Ints = np.searchsorted(moments, end) - np.searchsorted(moments, start)
    return np.maximum(found, 0)


def owners(start: Ints, end: Ints, moment: Ints) -> Ints:
    """Which of the sorted, disjoint intervals each moment lies in; -1 for none."""
    if not len(start):
        return np.full(len(moment), -1, np.int64)
    last = np.searchsorted(start, moment, side="right") - 1
    return np.where((last >= 0) & (moment < end[last]), last, -1)


def runs(values: Ints) -> tuple[Ints, Ints]:
    """Where runs of equal values begin, and how long they are."""
    if not len(values):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    return first, np.diff(np.concatenate((first, [len(values)])))


def among(values: Ints, few: Iterable[int]) -> Flags:
    """Whether each value, a small number or -1, is one of ``few``: faster than sorting them."""
    keys = list(few)
    table = np.zeros(max(int(values.max(initial=0)), max(keys, default=0)) + 2, np.bool_)
    table[keys] = True
    found: Flags = table[values]
    return found


_TIMES, _PART, _MANY = 10, 0.1, 200


def statistics_of(values: npt.NDArray[np.floating]) -> Statistics:
    """As :func:`.recorded.statistics`, of a column; all 0 if there is nothing."""
    n = len(values)
    if not n:
        return Statistics(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    mean = float(values.mean(dtype=np.float64))
    std = float(values.std(ddof=1, dtype=np.float64)) if n > 1 else 0.0
    ordered = np.sort(values)  # of single floats that takes half of what a partition does
    middle, late = _at(ordered, 0.5), _at(ordered, 0.95)
    return Statistics(n, mean, middle, late, std, float(ordered[0]), float(ordered[-1]))


def kept_of(values: npt.NDArray[np.floating], points: int) -> Ints:
    """Which of ``values`` stay where at most ``points`` are to: both ends, and the least and the largest of
    each part in between.
    """
    if len(values) <= max(points, 2):
        return np.arange(len(values))
    kept = {0, len(values) - 1}
    for part in np.array_split(np.arange(len(values)), max(points // 2 - 1, 1)):
        kept |= {int(part[values[part].argmin()]), int(part[values[part].argmax()])}
    return np.array(sorted(kept))


def median_of(values: npt.NDArray[np.floating]) -> float:
    """0 of nothing."""
    return _at(np.sort(values), 0.5) if len(values) else 0.0


def _at(ordered: npt.NDArray[np.floating], fraction: float) -> float:
    place = (len(ordered) - 1) * fraction
    low, high = float(ordered[int(place)]), float(ordered[min(int(place) + 1, len(ordered) - 1)])
    return low + (high - low) * (place - int(place))


def exceptional(seconds: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    """Which of these steps stand for nothing but themselves: one, of 200 steps or more at most two.

    They take more than ten times the median, and together a tenth of all the time. What comes back,
    as a checkpoint after each epoch does, is no exception.
    """
    n = len(seconds)
    none = np.zeros(n, np.bool_)
    if n < 3:
        return none
    usual = median_of(seconds)
    slow = np.flatnonzero(seconds > _TIMES * usual) if usual > 0 else np.empty(0, np.int64)
    if not 0 < len(slow) <= (1 if n < _MANY else 2):
        return none
    if seconds[slow].sum(dtype=np.float64) < _PART * seconds.sum(dtype=np.float64):
        return none
    none[slow] = True
    return none


def warmup_of(seconds: npt.NDArray[np.floating]) -> int:
    """How many of the first steps are not like the rest: slower than 1.5 times their median.

    At most a tenth of all, and at least one of five.
    """
    n = len(seconds)
    most = min(max(1, n // 10), n // 2)
    if n < 5:
        return 0
    usual = median_of(seconds[most:])
    slow = seconds[:most] > 1.5 * usual
    return max(1, most if slow.all() else int(slow.argmin()))
