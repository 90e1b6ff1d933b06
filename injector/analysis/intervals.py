"""Arithmetic of intervals of time, in columns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .columns import Flags, Ints


class Holes:
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


NOTHING = Holes(np.empty(0, np.int64), np.empty(0, np.int64))


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
