"""Spans of a few steps of a loop, as they were recorded: what the timeline of a page shows from close by.

A page holds some thousands of spans, a run has millions. So a page gets the first steps, some from the
middle, and the slowest ones with a few steps around each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import distinct
from .columns import SECOND, Ints
from .traces import LoopTrace, Thread
from .tracks import Track
from .wording import line_of

MOST = 12_000
"""How many spans are kept at most, of all excerpts; a run with no more is kept as a whole."""
FIRST, MIDDLE, AROUND = 6, 12, 2
"""How many steps are kept from the beginning of a loop, from its middle, and on each side of a slow step."""
SLOW = 4
"""How many slow steps are shown."""


@dataclass(frozen=True)
class RankSpans:
    """The spans of one rank in an excerpt, in the order of their starts.

    ``spans`` is flat, which makes a page half as large: each span is four numbers in a row, its start in
    microseconds since the excerpt began, its duration in microseconds, its row in the timeline (0 is the top;
    a span is drawn below those that it lies in or overlaps), and the index of its name in ``Excerpt.names``.
    """

    name: str
    spans: list[int]
    steps: list[int]
    """Starts and ends of steps in turns, in microseconds since the excerpt began."""


@dataclass(frozen=True)
class Excerpt:
    """Some consecutive steps on all ranks that are drawn. Times are seconds since the run began."""

    title: str
    begin: float
    end: float
    names: tuple[tuple[str, str], ...]
    """Regions, each with its line of the program."""
    ranks: tuple[RankSpans, ...]


def excerpts_of(
    traces: Sequence[LoopTrace], threads: Sequence[Thread], slow: Sequence[int], began: float
) -> tuple[Excerpt, ...]:
    """Excerpts of one loop: its first steps, some from the middle, and its ``slow`` steps.

    ``traces`` are the ranks to draw, each on the thread at the same place in ``threads``; ``began`` is when
    the run began, in unix seconds. If there are few spans, the only excerpt is all of them.
    """
    if sum(len(thread.track) for thread in threads) <= MOST:
        begin = min(int(thread.track.start[0]) for thread in threads)
        end = max(int(thread.track.end.max()) for thread in threads)
        return (_excerpt("all steps", begin, end, traces, threads, began),)
    middle = min(len(trace.start) for trace in traces) // 2
    chosen = [
        ("the first steps", 0, FIRST),
        ("typical steps", middle, middle + MIDDLE),
        *(
            (f"slow step {step}", max(step - AROUND, 0), step + AROUND + 1)
            for step in sorted(slow[:SLOW])
        ),
    ]
    excerpts = []
    left = MOST
    for title, first, last in chosen:
        # Ranks make the same step at different times: the excerpt has all of it on each of them.
        bounds = [_bounds(trace, first, last) for trace in traces if len(trace.start) > first]
        if not bounds:
            continue
        begin, end = min(start for start, _ in bounds), max(stop for _, stop in bounds)
        excerpt = _excerpt(title, begin, end, traces, threads, began)
        # An excerpt is shown whole or not at all, and the earlier ones matter more.
        left -= sum(len(rank.spans) // 4 for rank in excerpt.ranks)
        if left < 0:
            break
        excerpts.append(excerpt)
    return tuple(excerpts)


def _bounds(trace: LoopTrace, first: int, last: int) -> tuple[int, int]:
    """Start of the step ``first`` and end of the one before ``last``, in unix nanoseconds."""
    return int(trace.start[first]), int(trace.end[min(last, len(trace.end)) - 1])


def _excerpt(
    title: str,
    begin: int,
    end: int,
    traces: Sequence[LoopTrace],
    threads: Sequence[Thread],
    began: float,
) -> Excerpt:
    names: dict[tuple[str, str], int] = {}
    ranks = []
    for trace, thread in zip(traces, threads, strict=True):
        inside = (trace.end > begin) & (trace.start < end)
        steps = np.stack((trace.start[inside], trace.end[inside]), axis=1).reshape(-1)
        ranks.append(
            RankSpans(
                trace.source.name,
                _spans(thread.track, begin, end, names),
                ((steps - begin) // 1000).tolist(),
            )
        )
    seconds = (begin / SECOND - began, end / SECOND - began)
    return Excerpt(title, *seconds, tuple(names), tuple(ranks))


def _depths(start: Ints, end: Ints) -> Ints:
    """For each span, in the order of starts, a depth below all spans that are open when it begins."""
    depths: list[int] = []
    opened: list[tuple[int, int]] = []
    for begin, stop in zip(start.tolist(), end.tolist(), strict=True):
        opened = [(depth, until) for depth, until in opened if until > begin]
        depths.append(1 + max((depth for depth, _ in opened), default=-1))
        opened.append((depths[-1], stop))
    return np.array(depths, np.int64)


def _spans(track: Track, begin: int, end: int, names: dict[tuple[str, str], int]) -> list[int]:
    """The spans that overlap the time from ``begin`` to ``end``, as :class:`RankSpans` has them.

    A span that covers all of that time and more (an epoch) is left out. ``names`` gets those that it lacks.
    """
    start, stop = track.start, track.end
    rows = np.flatnonzero((stop > begin) & (start < end) & ~((start < begin) & (stop > end)))
    if track.rest is not None:
        # Where spans overlap, the track has them cut into pieces that nest; each is drawn once, whole.
        rows = rows[~track.rest[rows]]
    if not len(rows):
        return []
    name_of_site = {}
    for number in distinct(track.site[rows]).tolist():
        site = track.sites[number]
        name_of_site[number] = names.setdefault((site.region, line_of(site.place)), len(names))
    name = np.array([name_of_site[number] for number in track.site[rows].tolist()], np.int64)
    depth = track.depth[rows] if track.rest is None else _depths(start[rows], stop[rows])
    depth = depth - int(depth.min())
    # Durations are rounded up: a span of some nanoseconds would not be seen at all.
    columns = ((start[rows] - begin) // 1000, (stop[rows] - start[rows] + 999) // 1000, depth, name)
    flat: list[int] = np.stack(columns, axis=1).reshape(-1).astype(np.int64).tolist()
    return flat
