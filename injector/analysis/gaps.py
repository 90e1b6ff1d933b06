"""Where the time lies that no region covers: between which lines.

The top regions of a step leave gaps, each between the end of one region and the begin of the next::

    step  |--io--|......|--forward--|.|--backward--|--optimizer--|...........|
                 `- io → forward                                 `- optimizer → the step's end

Gaps between the same two call sites are summed; the largest sum is shown.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rewrite.batches import BatchCode, batch_code
from .arrays import differing, exceptional
from .columns import Ints
from .profile import SourceLine
from .traces import LoopTrace, Thread
from .tracks import Track
from .wording import line_of

SAMPLE = 2_000
"""How many steps on either side of the middle one are examined."""
MOST = 0.5
"""A gap with this fraction of ``other`` is most of it."""
UNKNOWN = "an unknown line"


class LargestGap(NamedTuple):
    """The two lines between which most of a step's ``other`` lies."""

    text: str
    """``between train.py:30 (forward) and train.py:31 (backward)``."""
    share: float
    """The fraction of ``other`` that lies there, 0…1."""
    batch: BatchCode | None = None
    """What makes the batch there, if that is known."""
    until: str = ""
    """The region that ends it; "" for the end of the step."""

    @property
    def is_most(self) -> bool:
        """Whether at least half of ``other`` lies there."""
        return self.share >= MOST


def largest_gap(thread: Thread, trace: LoopTrace) -> LargestGap | None:
    """The largest gap in the steps of ``trace``; None if regions cover everything, or nothing."""
    track, excluded = thread.track, thread.passes.excluded()
    row, step = _top_rows(thread, trace)
    if not len(row):
        return None
    is_first = differing(step)
    is_last = np.concatenate((is_first[1:], [True]))
    # Gaps: first those from a step's begin to its first region, then one after each region.
    start = np.concatenate((thread.steps.start[step[is_first]], track.until[row]))
    end = np.concatenate((track.start[row[is_first]], track.start[row[1:]], [0]))
    end[-len(row) :][is_last] = thread.steps.end[step[is_last]]
    site = _first_alike(track)[track.site[row]]
    before = np.concatenate((np.zeros(int(is_first.sum()), np.int64), site))
    after = np.concatenate((site[is_first], site[1:], [0]))
    after[-len(row) :][is_last] = 0
    nanoseconds = np.maximum(end - start - excluded.within(start, end), 0)
    width = 1 + int(site.max())
    sums = np.bincount(before * width + after, nanoseconds)
    if not sums.sum():
        return None
    largest = int(sums.argmax())
    share = float(sums[largest] / sums.sum())
    return _largest_gap(thread, trace, largest // width, largest % width, share)


def _top_rows(thread: Thread, trace: LoopTrace) -> tuple[Ints, Ints]:
    """The outermost regions of usual steps in the middle of ``trace``: their rows, and the step of each."""
    track, pieces = thread.track, thread.pieces
    # A few thousand steps tell where the gap is, and all of a long run would take seconds.
    middle = len(trace.start) // 2
    sample = slice(max(0, middle - SAMPLE), middle + SAMPLE)
    first, last = np.searchsorted(track.start, (trace.start[sample][0], trace.end[sample][-1]))
    row = np.arange(first, last)
    step, path = pieces.step_of[row], pieces.path[row]
    warmup = trace.measured_from(trace.warmup)
    is_usual = np.zeros(len(trace.start), np.bool_)
    is_usual[warmup:] = ~exceptional(trace.table.seconds[warmup:])
    # One more place for rows in no step, whose step is -1.
    is_counted = np.zeros(len(thread.steps) + 1, np.bool_)
    steps = np.searchsorted(thread.steps.start, trace.start[sample])
    is_counted[steps[is_usual[sample]]] = True
    is_top = np.array([len(path) == 1 for path in pieces.paths] + [False], np.bool_)
    kept = is_counted[step] & is_top[path]  # -1, of rows without a path, is the last place
    return row[kept], step[kept]


def _first_alike(track: Track) -> Ints:
    """For each call site the first one with the same line and region: each model has sites of its own."""
    first: dict[tuple[SourceLine | None, str], int] = {}
    first_of = np.zeros(1 + max(track.sites), np.int64)
    for number, site in track.sites.items():
        first_of[number] = first.setdefault((site.place, site.region), number)
    return first_of


def _largest_gap(thread: Thread, trace: LoopTrace, one: int, two: int, share: float) -> LargestGap:
    """The gap between the sites ``one`` and ``two`` in words; 0 is the begin, or the end, of the step."""
    sites = thread.track.sites
    names = [
        f"{line_of(sites[site].place, UNKNOWN)} ({sites[site].region})" if site else edge
        for site, edge in ((one, "the step's begin"), (two, "the step's end"))
    ]
    text, until = f"between {names[0]} and {names[1]}", sites[two].region if two else ""
    if one and one == two:  # the calls of an inner loop
        where = line_of(sites[one].place, UNKNOWN)
        text = f"between one call of {sites[one].region} at {where} and the next"
    if trace.pace.paced_by == "loader":
        if not two:
            text = f"between {names[0]} and {line_of(trace.pace.place, UNKNOWN)} (the next fetch)"
        return LargestGap(text, share, until=until)
    begin, end = (sites[site].place if site else trace.pace.place for site in (one, two))
    batch = None
    if begin and end and share >= MOST:
        # The program's text between the two lines may show what makes a batch for the model.
        calls = {s.place for s in sites.values() if s.region == "forward" and s.phase == "train"}
        named = {s.place.line for s in sites.values() if s.region == "io" and s.place}
        batch = batch_code(begin, end, [call for call in calls if call])
        if batch and (not batch.lines or named & set(batch.lines)):  # it is recorded as io already
            batch = None
    if batch:
        lines, are_several = ", ".join(map(str, batch.lines)), len(batch.lines) > 1
        text += (
            f", where {f'lines {lines} make' if are_several else f'line {lines} makes'} the batch"
        )
    return LargestGap(text, share, batch, until)
