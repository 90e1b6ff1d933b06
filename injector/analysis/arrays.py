"""Arithmetic and statistics of columns: places in sorted columns, intervals of time, medians, unusual steps.

Several functions do what one of NumPy does, faster for columns that are usual here, or without the modules
that NumPy's would import; each says why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ..value_class import replace
from .columns import Flags, Ints
from .statistics import Statistics

_UNIQUE_FROM = 1 << 16
"""Number of values from which on :func:`numpy.unique` finds the distinct ones faster than a sort."""
_SEARCHED = 1 << 12
"""Number of values up to which they are searched for: to guess their places would take as long."""


Columns = TypeVar("Columns")
"""A value class whose arrays have one value a row each; its other fields belong to all rows."""


def taken(columns: Columns, which: Ints | Flags) -> Columns:
    """The rows with these numbers, or for which the flags are set."""
    return replace(columns, **{name: column[which] for name, column in _arrays_of(columns).items()})


def stacked(parts: Sequence[Columns]) -> Columns:
    """The rows of all ``parts``, one part after the other; other fields are those of the first."""
    columns = [_arrays_of(part) for part in parts]
    return replace(
        parts[0], **{name: np.concatenate([each[name] for each in columns]) for name in columns[0]}
    )


def _arrays_of(columns: object) -> dict[str, npt.NDArray[Any]]:
    return {name: each for name, each in vars(columns).items() if isinstance(each, np.ndarray)}


def places(ordered: Ints, values: Ints, side: Literal["left", "right"] = "left") -> Ints:
    """:func:`numpy.searchsorted`, for ``values`` whose places are likely to rise evenly.

    In a loop whose steps are all alike they do. The places of the first and the last of many values then say
    where those in between are; comparing these with their neighbours, which proves it, takes a quarter of the
    time that searching does.
    """
    result = np.empty(len(values), np.int64)
    _place(ordered, values, side, result)
    return result


def _place(ordered: Ints, values: Ints, side: Literal["left", "right"], result: Ints) -> None:
    """Put the places of ``values`` into ``result``: all in one go if they rise evenly, else half by half."""
    n = len(values)
    if n <= _SEARCHED:
        result[:] = ordered.searchsorted(values, side)
        return
    first, last = (int(ordered.searchsorted(each, side)) for each in (values[0], values[-1]))
    stride, rest = divmod(last - first, n - 1)
    if stride > 0 and not rest:
        # Right if each value lies between its neighbours in ``ordered`` at the guessed place.
        before = ordered[first + stride - 1 : last - 1 : stride]
        after, inner = ordered[first + stride : last : stride], values[1:-1]
        less, most = (np.less, np.less_equal) if side == "left" else (np.less_equal, np.less)
        if less(before, inner).all() and most(inner, after).all():
            result[:] = np.arange(first, last + 1, stride)
            return
    half = n // 2
    _place(ordered, values[:half], side, result[:half])
    _place(ordered, values[half:], side, result[half:])


OPEN = np.iinfo(np.int64).max
"""A moment after all others: of what nothing ends, or follows."""


def next_moment(moments: Ints, since: Ints, side: Literal["left", "right"] = "left") -> Ints:
    """The next of the sorted ``moments`` at or after each of ``since``, or :data:`OPEN` if there is none.

    With the ``side`` right, the next one after each of them.
    """
    return np.append(moments, OPEN)[places(moments, since, side)]


def distinct(values: Ints) -> Ints:
    """The values, each once, in order: :func:`numpy.unique` for few values.

    From NumPy 2.3 on that one imports masked arrays, only to find that these are none: a tenth of what
    importing NumPy itself takes. For many values it is faster all the same.
    """
    if len(values) > _UNIQUE_FROM:
        return np.unique(values)
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def merged(*columns: Ints) -> Ints:
    """The values of all ``columns`` in order; each of the columns is sorted."""
    return np.sort(np.concatenate(columns), kind="stable")  # it merges runs that are sorted


class ExcludedIntervals:
    """Intervals of time that do not count, and how much of any other interval they take."""

    def __init__(self, start: Ints, end: Ints) -> None:
        """``start`` and ``end`` may be in any order, and the intervals may overlap."""
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        if len(start):
            # Overlapping intervals become one: it begins where no earlier one is still going on.
            latest = np.maximum.accumulate(end)
            is_first = np.concatenate(([True], start[1:] > latest[:-1]))
            last = np.concatenate((np.flatnonzero(is_first)[1:] - 1, [len(start) - 1]))
            start, end = start[is_first], latest[last]
        self.start, self.end = start, end
        self._before = np.concatenate(([0], np.cumsum(end - start)))

    def __len__(self) -> int:
        return len(self.start)

    def until(self, moment: Ints) -> Ints:
        """How much of the time before each moment they take."""
        if not len(self.start):
            return np.zeros(len(moment), np.int64)
        last = places(self.start, moment, "right")
        # What is left of an interval that the moment lies in does not count yet.
        rest = np.where(last > 0, self.end[last - 1] - moment, 0)
        taken: Ints = self._before[last] - np.maximum(rest, 0)
        return taken

    def within(self, start: Ints, end: Ints) -> Ints:
        """How much of each interval they take, in the unit of the moments."""
        return self.until(end) - self.until(start)

    def hold(self, moment: Ints) -> Flags:
        """Whether each moment lies in one of them; their ends are outside."""
        if not len(self.start):
            return np.zeros(len(moment), np.bool_)
        last = places(self.start, moment, "right")
        return (last > 0) & (moment < self.end[last - 1])


NOTHING = ExcludedIntervals(np.empty(0, np.int64), np.empty(0, np.int64))


def union_of(parts: Collection[Any]) -> ExcludedIntervals:
    """The intervals of all ``parts``, each of which has columns ``start`` and ``end``."""
    if not parts:
        return NOTHING
    starts, ends = ([getattr(part, edge) for part in parts] for edge in ("start", "end"))
    return ExcludedIntervals(np.concatenate(starts), np.concatenate(ends))


def counts(moments: Ints, start: Ints, end: Ints) -> Ints:
    """How many of the sorted ``moments`` lie in each interval, its ``start`` included and its ``end`` not."""
    number: Ints = places(moments, end) - places(moments, start)
    return np.maximum(number, 0)


def owners(start: Ints, end: Ints, moment: Ints) -> Ints:
    """The index of the sorted, disjoint interval that each moment lies in; -1 for none."""
    if not len(start):
        return np.full(len(moment), -1, np.int64)
    last = places(start, moment, "right") - 1
    return np.where((last >= 0) & (moment < end[last]), last, -1)


def nesting(start: Ints, end: Ints) -> list[Ints]:
    """The rows of intervals, in the order of their starts, in as few lists as it takes for each to nest."""
    lanes: list[tuple[list[int], list[int]]] = []  # rows, and the ends of those around the next one
    for row, (begin, until) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        for _, ends in lanes:
            while ends and ends[-1] <= begin:
                ends.pop()
        fitting = (lane for lane in lanes if not lane[1] or until <= lane[1][-1])
        lane = next(fitting, None)
        if lane is None:
            lanes.append(lane := ([], []))
        lane[0].append(row)
        lane[1].append(until)
    return [np.array(rows, np.int64) for rows, _ in lanes]


def differing(*columns: Ints) -> Flags:
    """Whether each row is the first, or differs in one of ``columns`` from the row before it."""
    differs = np.zeros(len(columns[0]), np.bool_)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return differs


def runs(values: Ints) -> tuple[Ints, Ints]:
    """Where each run of equal values begins, and how long it is."""
    first = np.flatnonzero(differing(values))
    return first, np.diff(np.append(first, len(values)))


def in_one_group(keys: Ints, group: Ints) -> Flags:
    """Whether each key occurs in one group only: a model that is made anew for each step, say."""
    order = np.argsort(keys, kind="stable")
    first, length = runs(keys[order])
    if not len(first):
        return np.zeros(0, np.bool_)
    by_key = group[order]
    is_one = np.minimum.reduceat(by_key, first) == np.maximum.reduceat(by_key, first)
    result = np.empty(len(keys), np.bool_)
    result[order] = np.repeat(is_one, length)
    return result


def among(values: Ints, few: Iterable[int]) -> Flags:
    """Whether each value is one of ``few``: as :func:`numpy.isin`, but faster.

    Values are small numbers, or -1.
    """
    keys = list(few)
    table = np.zeros(max(int(values.max(initial=0)), max(keys, default=0)) + 2, np.bool_)
    table[keys] = True
    result: Flags = table[values]  # index -1 reads the last place, which no key has
    return result


def kinds_of(values: Ints) -> list[int]:
    """The distinct ``values`` in order, all of them small and none below 0."""
    kinds: list[int] = np.flatnonzero(np.bincount(values)).tolist()
    return kinds


def numbered_kinds(values: Ints) -> tuple[list[int], Ints]:
    """The :func:`kinds_of` values, and for each value its index among them."""
    kinds = kinds_of(values)
    number = np.zeros(kinds[-1] + 1 if kinds else 0, np.int64)
    number[kinds] = np.arange(len(kinds))
    return kinds, number[values]


_TIMES, _PART, _SECOND_FROM = 10, 0.1, 200
"""An exceptional step takes so many times the median, and all of them such a part of the time; with so many
steps there may be two."""
_CELLS = 1 << 22
"""The most values of a matrix of steps over ranks, or of a temporary copy: 32 MiB of float64."""


def statistics_of(values: npt.NDArray[np.floating]) -> Statistics:
    """As :func:`.recorded.statistics`, of a column; all 0 for an empty one."""
    n = len(values)
    if not n:
        return Statistics(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    mean = float(values.mean(dtype=np.float64))
    # Part by part: for the steps of all ranks, the differences alone would take gigabytes.
    parts = (values[at : at + _CELLS].astype(np.float64) for at in range(0, n, _CELLS))
    squares = sum(float(np.square(part - mean).sum()) for part in parts)
    std = float(np.sqrt(squares / (n - 1))) if n > 1 else 0.0
    median, p95 = _quantiles(values, 0.5, 0.95)
    return Statistics(n, mean, median, p95, std, float(values.min()), float(values.max()))


def kept_of(values: npt.NDArray[np.floating], points: int) -> Ints:
    """The indices of at most ``points`` of ``values`` (at least two) that show their course.

    Both ends, and the smallest and the largest value of each part in between. Fewer than four points are the
    smallest and the largest of all.
    """
    if len(values) <= max(points, 2):
        return np.arange(len(values))
    kept = {0, len(values) - 1} if points >= 4 else set()
    # Extremes and not means: a peak has to stay where it is.
    for part in np.array_split(np.arange(len(values)), max(points // 2 - 1, 1)):
        kept |= {int(part[values[part].argmin()]), int(part[values[part].argmax()])}
    return np.array(sorted(kept))


def median_of(values: npt.NDArray[np.floating] | Ints) -> float:
    """The median; 0 of no values."""
    return _quantiles(values, 0.5)[0] if len(values) else 0.0


def _quantiles(values: npt.NDArray[np.floating] | Ints, *fractions: float) -> list[float]:
    """:func:`numpy.quantile` of ``fractions``, which have to rise.

    NumPy's quick selection, a fifth of the time of a sort, is that of a single place. The next larger value,
    for the interpolation, is the smallest of what it puts above that place.
    """
    upper, first = values.copy(), 0
    quantiles = []
    for fraction in fractions:
        place = (len(values) - 1) * fraction
        low = int(place)
        # Only what the last one left above it has to be searched for the next, larger one.
        upper.partition(low - first)
        upper, first = upper[low - first :], low
        value = float(upper[0])
        quantiles.append(
            value if low == place else value + (float(upper[1:].min()) - value) * (place - low)
        )
    return quantiles


def chained(columns: Iterable[npt.NDArray[np.float32]], number: int) -> npt.NDArray[np.float32]:
    """All ``columns`` as one of ``number`` values. Unlike NumPy's concatenate it needs one at a time."""
    result, at = np.empty(number, np.float32), 0
    for column in columns:
        result[at : at + len(column)] = column
        at += len(column)
    return result


def mean_across(columns: Sequence[npt.NDArray[np.floating]]) -> npt.NDArray[np.floating]:
    """The mean over ``columns``, one per rank, for each step."""
    total: npt.NDArray[np.floating] = columns[0].copy()
    for column in columns[1:]:
        total += column
    total /= len(columns)
    return total


def median_over_rows(values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """``numpy.median(values, axis=0)``, which would import masked arrays."""
    low, high = (len(values) - 1) // 2, len(values) // 2
    partitioned = np.partition(values, (low, high), axis=0)
    median: npt.NDArray[np.floating] = (partitioned[low] + partitioned[high]) / 2
    return median


def median_across(columns: Sequence[npt.NDArray[np.floating]]) -> npt.NDArray[np.floating]:
    """The median over ``columns``, one per rank, for each step. All of them are never one matrix."""
    parts = parts_of(columns)
    return np.concatenate(
        [median_over_rows(np.stack([c[part] for c in columns])) for part in parts]
    )


def parts_of(columns: Sequence[npt.NDArray[np.floating]]) -> list[slice]:
    """Slices of steps, one after the other. A matrix of one slice over all ``columns`` fits into memory."""
    size = max(1, _CELLS // len(columns))
    return [slice(at, at + size) for at in range(0, len(columns[0]), size)]


def exceptional(seconds: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    """Which of these steps stand for nothing but themselves: at most one, of 200 steps or more at most two.

    Such a step takes more than ten times the median, and all of them together a tenth of the time. What
    recurs, as a checkpoint after each epoch, is no exception.
    """
    n = len(seconds)
    result = np.zeros(n, np.bool_)
    # Two steps at most: unless twice the largest is a tenth of all, no median is needed.
    if n < 3 or 2 * float(seconds.max()) < _PART * seconds.sum(dtype=np.float64):
        return result
    median = median_of(seconds)
    slow = np.flatnonzero(seconds > _TIMES * median) if median > 0 else np.empty(0, np.int64)
    if not 0 < len(slow) <= (1 if n < _SECOND_FROM else 2):
        return result
    if seconds[slow].sum(dtype=np.float64) < _PART * seconds.sum(dtype=np.float64):
        return result
    result[slow] = True
    return result


def warmup_of(seconds: npt.NDArray[np.floating]) -> int:
    """How many steps at the begin are slower than the rest: more than 1.5 times its median.

    At most a tenth of all steps; at least one if there are five or more.
    """
    n = len(seconds)
    limit = min(max(1, n // 10), n // 2)
    if n < 5:
        return 0
    # The rest: steps that cannot be warm-up.
    median = median_of(seconds[limit:])
    is_slow = seconds[:limit] > 1.5 * median
    return max(1, limit if is_slow.all() else int(is_slow.argmin()))
