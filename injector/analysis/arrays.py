"""Arithmetic and statistics of columns: intervals of time, medians, unusual steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from .columns import Flags, Ints
from .profile import Statistics

_MANY = 1 << 16
"""Values from which on those that are distinct are found with a table of them."""
_FEW = 1 << 12
"""Values that are searched for at once: to guess where they are takes about as long as that."""


def places(ordered: Ints, values: Ints, side: Literal["left", "right"] = "left") -> Ints:
    """As :func:`numpy.searchsorted`, where the places of ``values`` are likely to rise evenly.

    In a loop whose steps are all alike they do: the first and the last of many values say where those in
    between are, and comparing them with their neighbours there, which proves it, takes a quarter of the
    time that searching does.
    """
    found = np.empty(len(values), np.int64)
    _place(ordered, values, side, found)
    return found


def _place(ordered: Ints, values: Ints, side: Literal["left", "right"], found: Ints) -> None:
    """Put the places of ``values`` into ``found``: of all at once, else of either half."""
    n = len(values)
    if n <= _FEW:
        found[:] = ordered.searchsorted(values, side)
        return
    first, last = (int(ordered.searchsorted(each, side)) for each in (values[0], values[-1]))
    stride, rest = divmod(last - first, n - 1)
    if stride > 0 and not rest:
        before = ordered[first + stride - 1 : last - 1 : stride]
        after, inner = ordered[first + stride : last : stride], values[1:-1]
        less, most = (np.less, np.less_equal) if side == "left" else (np.less_equal, np.less)
        if less(before, inner).all() and most(inner, after).all():
            found[:] = np.arange(first, last + 1, stride)
            return
    half = n // 2
    _place(ordered, values[:half], side, found[:half])
    _place(ordered, values[half:], side, found[half:])


def distinct(values: Ints) -> Ints:
    """The values, each once, in order: as :func:`numpy.unique`.

    That one, from NumPy 2.3 on, loads masked arrays to find out that these are none: a tenth of what NumPy
    takes to be imported. Of many values it is the faster one.
    """
    if len(values) > _MANY:
        return np.unique(values)
    ordered = np.sort(values)
    fresh = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return ordered[fresh]


def merged(*columns: Ints) -> Ints:
    """The values of all ``columns``, each of which is in order, in order."""
    return np.sort(np.concatenate(columns), kind="stable")  # it merges what is in order already


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
        last = places(self.start, moment, "right")
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
        last = places(self.start, moment, "right")
        return (last > 0) & (moment < self.end[last - 1])


NOTHING = ExcludedIntervals(np.empty(0, np.int64), np.empty(0, np.int64))


def counts(moments: Ints, start: Ints, end: Ints) -> Ints:
    """How many of the sorted ``moments`` lie in each interval from ``start`` to before ``end``."""
    found: Ints = places(moments, end) - places(moments, start)
    return np.maximum(found, 0)


def owners(start: Ints, end: Ints, moment: Ints) -> Ints:
    """Which of the sorted, disjoint intervals each moment lies in; -1 for none."""
    if not len(start):
        return np.full(len(moment), -1, np.int64)
    last = places(start, moment, "right") - 1
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


def kinds_of(values: Ints) -> list[int]:
    """Which numbers, all of them small and none below 0, are among ``values``, in order."""
    found: list[int] = np.flatnonzero(np.bincount(values)).tolist()
    return found


def numbered_kinds(values: Ints) -> tuple[list[int], Ints]:
    """The :func:`kinds_of` values, and for each value which of them it is."""
    kinds = kinds_of(values)
    number = np.zeros(kinds[-1] + 1 if kinds else 0, np.int64)
    number[kinds] = np.arange(len(kinds))
    return kinds, number[values]


_TIMES, _PART, _MANY = 10, 0.1, 200
_CELLS = 1 << 22
"""Of a matrix of steps over ranks, at most."""


def statistics_of(values: npt.NDArray[np.floating]) -> Statistics:
    """As :func:`.recorded.statistics`, of a column; all 0 if there is nothing."""
    n = len(values)
    if not n:
        return Statistics(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    mean = float(values.mean(dtype=np.float64))
    # Part by part: of the steps of all ranks, the differences alone would be gigabytes.
    parts = (values[at : at + _CELLS].astype(np.float64) for at in range(0, n, _CELLS))
    squares = sum(float(np.square(part - mean).sum()) for part in parts)
    std = float(np.sqrt(squares / (n - 1))) if n > 1 else 0.0
    middle, late = _at(values, 0.5, 0.95)
    return Statistics(n, mean, middle, late, std, float(values.min()), float(values.max()))


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


def median_of(values: npt.NDArray[np.floating] | Ints) -> float:
    """0 of nothing."""
    return _at(values, 0.5)[0] if len(values) else 0.0


def _at(values: npt.NDArray[np.floating] | Ints, *fractions: float) -> list[float]:
    """As :func:`numpy.quantile` of ``fractions``, which rise.

    NumPy's fast selection, a fifth of a sort, is that of one place. What lies above it has the next one.
    """
    above, first = values.copy(), 0
    found = []
    for fraction in fractions:
        place = (len(values) - 1) * fraction
        low = int(place)
        above.partition(low - first)
        above, first = above[low - first :], low
        one = float(above[0])
        found.append(one if low == place else one + (float(above[1:].min()) - one) * (place - low))
    return found


def chained(columns: Iterable[npt.NDArray[np.float32]], number: int) -> npt.NDArray[np.float32]:
    """All ``columns`` as one of ``number`` values: as :func:`numpy.concatenate`, one at a time."""
    found, at = np.empty(number, np.float32), 0
    for each in columns:
        found[at : at + len(each)] = each
        at += len(each)
    return found


def mean_across(columns: Sequence[npt.NDArray[np.floating]]) -> npt.NDArray[np.floating]:
    """Of each step the mean of all ``columns``, one a rank."""
    total: npt.NDArray[np.floating] = columns[0].copy()
    for each in columns[1:]:
        total += each
    total /= len(columns)
    return total


def middle_of(values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """As :func:`numpy.median` along the first axis, which would import masked arrays."""
    low, high = (len(values) - 1) // 2, len(values) // 2
    parted = np.partition(values, (low, high), axis=0)
    found: npt.NDArray[np.floating] = (parted[low] + parted[high]) / 2
    return found


def median_across(columns: Sequence[npt.NDArray[np.floating]]) -> npt.NDArray[np.floating]:
    """Of each step the median of all ``columns``, one a rank; never all of them as one matrix."""
    parts = parts_of(columns)
    return np.concatenate([middle_of(np.stack([c[part] for c in columns])) for part in parts])


def parts_of(columns: Sequence[npt.NDArray[np.floating]]) -> list[slice]:
    """Which steps of all ``columns``, one a rank, are not too many for a matrix, part after part."""
    size = max(1, _CELLS // len(columns))
    return [slice(at, at + size) for at in range(0, len(columns[0]), size)]


def exceptional(seconds: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    """Which of these steps stand for nothing but themselves: one, of 200 steps or more at most two.

    They take more than ten times the median, and together a tenth of all the time. What comes back,
    as a checkpoint after each epoch does, is no exception.
    """
    n = len(seconds)
    none = np.zeros(n, np.bool_)
    if n < 3 or 2 * float(seconds.max()) < _PART * seconds.sum(dtype=np.float64):
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
