"""What is kept of a track once its spans are let go: those of all ranks do not fit into memory."""

from __future__ import annotations

import numpy as np

from ..store.call_sites import SourceLine
from ..value_class import state_class
from .arrays import ExcludedIntervals, kinds_of, owners, statistics_of
from .columns import SECOND, Flags, Floats, Ints, RecordedProcess
from .epochs import begins_of
from .evaluation import Passes
from .gaps import LargestGap, largest_gap
from .latencies import TimedBatches, timed_batches
from .passes import PlacePasses, passes_by_place
from .profile import OTHER_THREAD, Evaluation, Node
from .tables import Seconds
from .timeline import Sum, between_them
from .traces import LoopTrace, Thread
from .tracks import STRUCTURE

OTHERS = 12
"""Regions outside of steps that are kept apart."""
Outside = dict[tuple[str, SourceLine | None, str | None], Seconds]
"""By region, line and what it works on: the seconds of each call."""


@state_class
class TrackSummary:
    """One track."""

    source: RecordedProcess
    traces: list[LoopTrace]
    where: list[LargestGap | None]
    """For each trace, where most of its steps' ``other`` lies; None but of leading processes."""
    begins: list[Ints]
    """For each trace, when its epochs began; the same."""
    passes: Passes
    evaluations: list[Evaluation]
    batches: list[TimedBatches]
    between: list[Sum]
    span: tuple[int, int]
    outside: Outside


def track_summary(thread: Thread, main: bool, skip: int, leads: bool) -> TrackSummary:
    """Of one track; ``main`` says whether its process trains in it, or nowhere; ``skip``: the run's.

    Its process ``leads`` where it may be the first rank of a loop.
    """
    between, span = between_them(thread)
    passes = passes_by_place(thread)
    return TrackSummary(
        source=thread.source,
        traces=thread.traces,
        where=[largest_gap(thread, trace) if leads else None for trace in thread.traces],
        begins=[begins_of(thread, t) if leads else t.start[:0].copy() for t in thread.traces],
        passes=thread.passes,
        evaluations=[_evaluation(thread, each) for each in passes if len(thread.passes)],
        batches=timed_batches(thread, passes, skip),
        between=between,
        span=span,
        outside=_outside(thread, main),
    )


def evaluations_of(summaries: list[TrackSummary]) -> tuple[Evaluation, ...]:
    """By place those of the first rank that evaluates, and of all processes that are no ranks of a job."""
    having = [each for each in summaries if len(each.passes)]
    ranks = [each.source for each in having if each.source.is_rank]
    first = min(ranks, key=lambda source: (source.rank or 0, source.index), default=None)
    found: dict[tuple[SourceLine | None, int | None], list[Evaluation]] = {}
    for track in having:
        if track.source is first or not track.source.is_rank:
            for each in track.evaluations:
                found.setdefault((each.place, each.data), []).append(each)
    return tuple(each[0] if len(each) == 1 else _together(each) for each in found.values())


def _together(found: list[Evaluation]) -> Evaluation:
    """Those of one place in several threads, or processes side by side."""
    items = [each.items for each in found if each.items is not None]
    measured = [each.seconds - each.warmup for each in found]
    rated = [
        each.throughput * seconds
        for each, seconds in zip(found, measured, strict=True)
        if each.throughput is not None
    ]
    names = dict.fromkeys(name for each in found for name in each.regions)
    return Evaluation(
        place=found[0].place,
        passes=sum(each.passes for each in found),
        batches=sum(each.batches for each in found),
        seconds=sum(each.seconds for each in found),
        items=sum(items) if len(items) == len(found) else None,
        throughput=sum(rated) / sum(measured) if len(rated) == len(found) else None,
        regions={name: sum(each.regions.get(name, 0.0) for each in found) for name in names},
        data=found[0].data,
        warmup=sum(each.warmup for each in found),
    )


def _evaluation(thread: Thread, found: PlacePasses) -> Evaluation:
    passes, items, warmup = thread.passes, found.items, found.warmup
    seconds = float((passes.end[found.which] - passes.start[found.which]).sum()) / SECOND
    measured, share = seconds - warmup, 1 - 1 / found.batches if warmup else 1.0
    return Evaluation(
        place=found.place,
        passes=len(found.which),
        batches=found.batches,
        seconds=seconds,
        items=items,
        throughput=items * share / measured if items and measured > 0 else None,
        regions=_regions(thread, found.inside, seconds),
        data=found.data,
        warmup=warmup,
    )


def _regions(thread: Thread, inside: Flags, seconds: float) -> dict[str, float]:
    track = thread.track
    structure = track.flags(lambda site: site.region in STRUCTURE)
    rows = track.outermost(np.flatnonzero(inside & ~structure), track.until)
    lengths = (track.until[rows] - track.start[rows]) / SECOND
    found: dict[str, float] = {}
    for site in kinds_of(track.site[rows]):
        name = track.sites[site].region
        found[name] = found.get(name, 0.0) + float(lengths[track.site[rows] == site].sum())
    found["other"] = max(0.0, seconds - sum(found.values()))
    return found


def _outside(thread: Thread, main: bool) -> Outside:
    """Spans in no step and no evaluation, without the steps and evaluations that lie in them."""
    track, steps, passes = thread.track, thread.steps, thread.passes
    outside = ~track.flags(lambda site: site.region in STRUCTURE - {"epoch"})
    outside[thread.pieces.row] = False
    if track.rest is not None:
        outside &= ~track.rest
    rows = np.flatnonzero(outside)  # few: nearly all spans are parts of steps
    rows = rows[~passes.excluded().hold(track.start[rows])]
    # What a step's own span of the same name and line holds is no part of the step, and not outside.
    step = owners(steps.start, steps.end, track.start[rows])
    if len(steps):
        rows = rows[(step < 0) | (track.end[rows] > steps.end[step])]
    start, end = track.start[rows], track.end[rows]
    inner = ExcludedIntervals(
        np.concatenate((steps.start, passes.start)), np.concatenate((steps.end, passes.end))
    )
    length, sites = end - start - inner.within(start, end), track.site[rows]
    found: dict[tuple[str, SourceLine | None, str | None], list[Floats]] = {}
    for site in kinds_of(sites):
        one = track.sites[site]
        key = (one.region, one.place, one.label or (None if main else OTHER_THREAD))
        found.setdefault(key, []).append(length[sites == site] / SECOND)
    return {key: np.concatenate(parts).astype(np.float32) for key, parts in found.items()}


def others_of(summaries: list[TrackSummary], wall: float) -> tuple[Node, ...]:
    """Regions in no step and no evaluation, by name and line; a share is what one rank spends of the run."""
    keys = list(dict.fromkeys(key for each in summaries for key in each.outside))
    nodes = []
    for key in keys:
        having = [each for each in summaries if key in each.outside]
        seconds = np.concatenate([each.outside[key] for each in having])
        ranks = len({each.source.rank for each in having} - {None}) or 1
        share = float(seconds.sum(dtype=np.float64)) / ranks / wall if wall else 0.0
        name, place, what = key
        nodes.append(
            Node(name, place, statistics_of(seconds), share, float(len(seconds)), what=what)
        )
    return tuple(sorted(nodes, key=lambda node: -node.share)[:OTHERS])
