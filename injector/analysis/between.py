"""Where, between which lines of the program, the time lies that no region covers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .making import making
from .samples import exceptional
from .units import Thread, Unit
from .wording import line_of

SAMPLE = 20_000
"""Steps to both sides of the middle one that are looked at."""
MOST = 0.5
UNKNOWN = "an unknown line"


class Between(NamedTuple):
    """Two lines between which most of a step's ``other`` passes."""

    text: str
    """``between train.py:30 (forward) and train.py:31 (backward)``."""
    share: float
    """Its part of all that no region covers, 0…1."""
    batch: tuple[int, ...] = ()
    """The lines there that make the batch, where that can be told."""

    @property
    def is_most(self) -> bool:
        """Whether half of it or more is there."""
        return self.share >= MOST


def between_of(thread: Thread, unit: Unit) -> Between | None:
    """Of the steps of ``unit``; None where everything is covered, or nothing is."""
    lane, pieces, holes = thread.lane, thread.pieces, thread.passes.holes()
    top = np.array([len(path) == 1 for path in pieces.paths], np.bool_)
    if not top.any():
        return None
    middle = len(unit.start) // 2
    sample = slice(max(0, middle - SAMPLE), middle + SAMPLE)
    first, last = np.searchsorted(lane.start, (unit.start[sample][0], unit.end[sample][-1]))
    row = np.arange(first, last)
    step, path = pieces.step_of[row], pieces.path[row]
    steps = np.searchsorted(thread.steps.start, unit.start[sample])
    warmup = min(unit.warmup, len(unit.start) // 2)
    counted = np.zeros(len(unit.start), np.bool_)
    counted[warmup:] = ~exceptional(unit.table.seconds[warmup:])
    mine = np.zeros(len(thread.steps) + 1, np.bool_)
    mine[steps[counted[sample]]] = True
    kept = mine[step] & (path >= 0)
    kept[kept] = top[path[kept]]
    row, step = row[kept], step[kept]
    if not len(row):
        return None
    begin = np.concatenate(([True], step[1:] != step[:-1]))
    final = np.concatenate((begin[1:], [True]))
    start = np.concatenate((thread.steps.start[step[begin]], lane.end[row]))
    end = np.empty(len(row), np.int64)
    end[:-1] = lane.start[row[1:]]
    end[final] = thread.steps.end[step[final]]
    end = np.concatenate((lane.start[row[begin]], end))
    site = lane.site[row].astype(np.int64)
    one = np.concatenate((np.zeros(int(begin.sum()), np.int64), site))
    two = np.empty(len(row), np.int64)
    two[:-1] = site[1:]
    two[final] = 0
    two = np.concatenate((site[begin], two))
    length = np.maximum(end - start - holes.within(start, end), 0)
    width = 1 + int(site.max())
    sums = np.bincount(one * width + two, length)
    if not sums.sum():
        return None
    best = int(sums.argmax())
    return _told(thread, unit, best // width, best % width, float(sums[best] / sums.sum()))


def _told(thread: Thread, unit: Unit, one: int, two: int, share: float) -> Between:
    sites = thread.lane.sites
    names = [
        f"{line_of(sites[each].place, UNKNOWN)} ({sites[each].region})" if each else edge
        for each, edge in ((one, "the step's begin"), (two, "the step's end"))
    ]
    text = f"between {names[0]} and {names[1]}"
    if unit.pace.paced_by == "loader":
        if not two:
            text = f"between {names[0]} and {line_of(unit.pace.place, UNKNOWN)} (the next fetch)"
        return Between(text, share)
    begin, end = (sites[each].place if each else unit.pace.place for each in (one, two))
    batch: list[int] = []
    if begin and end and share >= MOST:
        calls = {s.place for s in sites.values() if s.region == "forward" and s.phase == "train"}
        batch = making(begin, end, [call for call in calls if call])
    if batch:
        lines = ", ".join(map(str, batch))
        text += f", where {f'lines {lines} make' if len(batch) > 1 else f'line {lines} makes'} the batch"
    return Between(text, share, tuple(batch))
