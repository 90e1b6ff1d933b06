"""Where the time lies that no region covers: between which lines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rewrite.batches import Making, making
from .arrays import exceptional
from .columns import Ints
from .profile import SourceLine
from .traces import LoopTrace, Thread
from .tracks import Track
from .wording import line_of

SAMPLE = 2_000
"""Steps to both sides of the middle one that are looked at."""
MOST = 0.5
UNKNOWN = "an unknown line"


class LargestGap(NamedTuple):
    """Two lines between which most of a step's ``other`` passes."""

    text: str
    """``between train.py:30 (forward) and train.py:31 (backward)``."""
    share: float
    """Its part of all that no region covers, 0…1."""
    batch: Making | None = None
    """What makes the batch there, where that is known."""

    @property
    def is_most(self) -> bool:
        """Whether half of it or more is there."""
        return self.share >= MOST


def largest_gap(thread: Thread, trace: LoopTrace) -> LargestGap | None:
    """Of the steps of ``trace``; None where everything is covered, or nothing is."""
    track, pieces, excluded = thread.track, thread.pieces, thread.passes.excluded()
    top = np.array([len(path) == 1 for path in pieces.paths], np.bool_)
    if not top.any():
        return None
    middle = len(trace.start) // 2
    sample = slice(max(0, middle - SAMPLE), middle + SAMPLE)
    first, last = np.searchsorted(track.start, (trace.start[sample][0], trace.end[sample][-1]))
    row = np.arange(first, last)
    step, path = pieces.step_of[row], pieces.path[row]
    steps = np.searchsorted(thread.steps.start, trace.start[sample])
    warmup = trace.measured_from(trace.warmup)
    counted = np.zeros(len(trace.start), np.bool_)
    counted[warmup:] = ~exceptional(trace.table.seconds[warmup:])
    mine = np.zeros(len(thread.steps) + 1, np.bool_)
    mine[steps[counted[sample]]] = True
    kept = mine[step] & (path >= 0)
    kept[kept] = top[path[kept]]
    row, step = row[kept], step[kept]
    if not len(row):
        return None
    begin = np.concatenate(([True], step[1:] != step[:-1]))
    final = np.concatenate((begin[1:], [True]))
    start = np.concatenate((thread.steps.start[step[begin]], track.until[row]))
    end = np.empty(len(row), np.int64)
    end[:-1] = track.start[row[1:]]
    end[final] = thread.steps.end[step[final]]
    end = np.concatenate((track.start[row[begin]], end))
    site = _first_alike(track)[track.site[row]]
    one = np.concatenate((np.zeros(int(begin.sum()), np.int64), site))
    two = np.empty(len(row), np.int64)
    two[:-1] = site[1:]
    two[final] = 0
    two = np.concatenate((site[begin], two))
    length = np.maximum(end - start - excluded.within(start, end), 0)
    width = 1 + int(site.max())
    sums = np.bincount(one * width + two, length)
    if not sums.sum():
        return None
    best = int(sums.argmax())
    return _largest_gap(thread, trace, best // width, best % width, float(sums[best] / sums.sum()))


def _first_alike(track: Track) -> Ints:
    """For each call site the first one of the same line and region: each model has sites of its own."""
    first: dict[tuple[SourceLine | None, str], int] = {}
    alike = np.zeros(1 + max(track.sites), np.int64)
    for number, site in track.sites.items():
        alike[number] = first.setdefault((site.place, site.region), number)
    return alike


def _largest_gap(thread: Thread, trace: LoopTrace, one: int, two: int, share: float) -> LargestGap:
    sites = thread.track.sites
    names = [
        f"{line_of(sites[each].place, UNKNOWN)} ({sites[each].region})" if each else edge
        for each, edge in ((one, "the step's begin"), (two, "the step's end"))
    ]
    text = f"between {names[0]} and {names[1]}"
    if one and one == two:
        where = line_of(sites[one].place, UNKNOWN)
        text = f"between one call of {sites[one].region} at {where} and the next"
    if trace.pace.paced_by == "loader":
        if not two:
            text = f"between {names[0]} and {line_of(trace.pace.place, UNKNOWN)} (the next fetch)"
        return LargestGap(text, share)
    begin, end = (sites[each].place if each else trace.pace.place for each in (one, two))
    batch = None
    if begin and end and share >= MOST:
        calls = {s.place for s in sites.values() if s.region == "forward" and s.phase == "train"}
        named = {s.place.line for s in sites.values() if s.region == "io" and s.place}
        batch = making(begin, end, [call for call in calls if call])
        if batch and (not batch.lines or named & set(batch.lines)):  # what they take is seen as io
            batch = None
    if batch:
        lines, several = ", ".join(map(str, batch.lines)), len(batch.lines) > 1
        text += f", where {f'lines {lines} make' if several else f'line {lines} makes'} the batch"
    return LargestGap(text, share, batch)
