"""Spans of a few steps of a loop, as they were recorded: what a timeline shows when one looks close."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import distinct
from .columns import SECOND, Ints
from .traces import LoopTrace, Thread
from .tracks import Track
from .wording import line_of, rank_name

WHOLE = 12_000
"""Spans up to which all are kept; else of some steps, so many at most."""
FIRST, MIDDLE, AROUND = 6, 12, 2
"""Steps at the beginning of a loop, in its middle, and on each side of a slow one."""
SLOW = 4
"""Slow steps that are shown."""


@dataclass(frozen=True)
class RankSpans:
    """The spans of one rank that lie in an excerpt, by their beginning.

    Each span is four numbers: microseconds since the excerpt began, microseconds that it took, how deep
    it lies in others (0: in none) or below those that it overlaps, and which of ``names`` it is.
    """

    name: str
    spans: list[int]
    steps: list[int]
    """Microseconds at which its steps began and ended, in turns."""


@dataclass(frozen=True)
class Excerpt:
    """Some consecutive steps on all ranks that are shown. Seconds since the run began."""

    title: str
    begin: float
    end: float
    names: tuple[tuple[str, str], ...]
    """Region, and the line of the program."""
    ranks: tuple[RankSpans, ...]


def excerpts_of(
    traces: Sequence[LoopTrace], threads: Sequence[Thread], slow: Sequence[int], began: float
) -> tuple[Excerpt, ...]:
    """Of the loop whose ranks are ``traces``: the first steps, some in the middle, and ``slow`` ones.

    Where there are few spans, all of the run in one.
    """
    if sum(len(thread.track) for thread in threads) <= WHOLE:
        first = min(int(thread.track.start[0]) for thread in threads)
        last = max(int(thread.track.end.max()) for thread in threads)
        return (_excerpt("all steps", first, last, traces, threads, began),)
    count = min(len(trace.start) for trace in traces)
    middle = count // 2
    wanted = [("the first steps", 0, FIRST), ("typical steps", middle, middle + MIDDLE)]
    for step in sorted(slow[:SLOW]):
        title = f"slow step {step}"
        wanted.append((title, max(step - AROUND, 0), step + AROUND + 1))
    found = []
    left = WHOLE
    for title, first, last in wanted:
        bounds = [_bounds(trace, first, last) for trace in traces if len(trace.start) > first]
        if not bounds:
            continue
        begin, end = min(each[0] for each in bounds), max(each[1] for each in bounds)
        made = _excerpt(title, begin, end, traces, threads, began)
        left -= sum(len(rank.spans) // 4 for rank in made.ranks)
        if left < 0:
            break
        found.append(made)
    return tuple(found)


def _bounds(trace: LoopTrace, first: int, last: int) -> tuple[int, int]:
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
                rank_name(trace.source.rank, trace.source.pid),
                _spans(thread.track, begin, end, names),
                ((steps - begin) // 1000).tolist(),
            )
        )
    seconds = (begin / SECOND - began, end / SECOND - began)
    return Excerpt(title, *seconds, tuple(names), tuple(ranks))


def _lanes(start: Ints, end: Ints) -> Ints:
    """For each of some spans, in the order of their start, a depth below all that is open when it begins."""
    lanes: list[int] = []
    opened: list[tuple[int, int]] = []
    for begin, stop in zip(start.tolist(), end.tolist(), strict=True):
        opened = [each for each in opened if each[1] > begin]
        lanes.append(1 + max((lane for lane, _ in opened), default=-1))
        opened.append((lanes[-1], stop))
    return np.array(lanes, np.int64)


def _spans(track: Track, begin: int, end: int, names: dict[tuple[str, str], int]) -> list[int]:
    """What overlaps the time from ``begin`` to ``end``; what is around all of it is left out."""
    start, stop = track.start, track.end
    rows = np.flatnonzero((stop > begin) & (start < end) & ~((start < begin) & (stop > end)))
    if track.rest is not None:
        rows = rows[~track.rest[rows]]
    if not len(rows):
        return []
    number = {}
    for site in distinct(track.site[rows]).tolist():
        known = track.sites[site]
        number[site] = names.setdefault((known.region, line_of(known.place)), len(names))
    kind = np.array([number[site] for site in track.site[rows].tolist()], np.int64)
    depth = track.depth[rows] if track.rest is None else _lanes(start[rows], stop[rows])
    depth = depth - int(depth.min())
    columns = ((start[rows] - begin) // 1000, (stop[rows] - start[rows] + 999) // 1000, depth, kind)
    found: list[int] = np.stack(columns, axis=1).reshape(-1).astype(np.int64).tolist()
    return found
