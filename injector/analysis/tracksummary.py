"""What is kept of a track once its spans are dropped: those of all ranks do not fit into memory."""

from __future__ import annotations

import numpy as np

from ..store.call_sites import SourceLine
from ..value_class import replace, state_class
from .arrays import distinct, kinds_of, owners, statistics_of, union_of
from .columns import SECOND, Flags, Floats, Ints, RecordedProcess
from .epochs import begins_of, ends_of
from .evaluation import Passes
from .gaps import largest_gap
from .latencies import TimedBatches, timed_batches
from .passes import PlacePasses, passes_by_place
from .pieces import Seconds
from .profile import Evaluation
from .timeline import Sum, between_them
from .traces import LoopTrace, Thread
from .tracks import STRUCTURE, Track, numbers_of
from .training_loop import OTHER_THREAD, Node

OTHERS = 12
"""The most regions outside of steps that are kept."""
Outside = dict[tuple[str, SourceLine | None, str | None], Seconds]
"""The seconds of each call, by region, line and what it works on."""


@state_class
class TrackSummary:
    """What is kept of one track."""

    source: RecordedProcess
    traces: list[LoopTrace]
    passes: Passes
    evaluations: list[Evaluation]
    batches: list[TimedBatches]
    between: list[Sum]
    span: tuple[int, int]
    outside: Outside
    trained: frozenset[str]
    """The names of the models that more than one of its steps calls to train them, or its only one."""


def track_summary(thread: Thread, main: bool, skip: int, leads: bool) -> TrackSummary:
    """What is kept of one track.

    ``main`` says whether its process trains in it, or nowhere; ``skip`` is that of the run. A process
    ``leads`` if it may be the first rank of a loop: only of these, epochs and gaps are needed.
    """
    between, span = between_them(thread)
    passes = passes_by_place(thread)
    if leads:
        for trace in thread.traces:
            trace.gap, trace.begins = largest_gap(thread, trace), begins_of(thread, trace)
            trace.ends = ends_of(thread, trace, trace.begins)
    return TrackSummary(
        source=thread.source,
        traces=thread.traces,
        passes=thread.passes,
        evaluations=[_evaluation(thread, each) for each in passes if len(thread.passes)],
        batches=timed_batches(thread, passes, skip),
        between=between,
        span=span,
        outside=_outside(thread, main),
        trained=_trained_models(thread),
    )


def evaluations_of(summaries: list[TrackSummary]) -> tuple[Evaluation, ...]:
    """Evaluations by line: of the first rank that evaluates, and of all processes without a rank."""
    evaluating = [each for each in summaries if len(each.passes)]
    ranks = [each.source for each in evaluating if each.source.is_rank]
    first = min(ranks, key=lambda source: (source.rank or 0, source.index), default=None)
    by_place: dict[tuple[SourceLine | None, int | None], list[Evaluation]] = {}
    for track in evaluating:
        if track.source is first or not track.source.is_rank:
            for each in track.evaluations:
                by_place.setdefault((each.place, each.data), []).append(each)
    found = (each[0] if len(each) == 1 else _merged(each) for each in by_place.values())
    if first is None or all(source is first for source in ranks):
        return tuple(found)
    return tuple(replace(each, rank=first.rank) for each in found)


def _merged(parts: list[Evaluation]) -> Evaluation:
    """The evaluations at one line in several threads, or processes side by side, as one."""
    items = [each.items for each in parts if each.items is not None]
    measured = [each.seconds - each.warmup for each in parts]
    # The mean of one, weighted by seconds: they run side by side.
    weighted = [
        each.throughput * seconds
        for each, seconds in zip(parts, measured, strict=True)
        if each.throughput is not None
    ]
    names = dict.fromkeys(name for each in parts for name in each.regions)
    return Evaluation(
        place=parts[0].place,
        passes=sum(each.passes for each in parts),
        batches=sum(each.batches for each in parts),
        seconds=sum(each.seconds for each in parts),
        items=sum(items) if len(items) == len(parts) else None,
        throughput=sum(weighted) / sum(measured) if len(weighted) == len(parts) else None,
        regions={name: sum(each.regions.get(name, 0.0) for each in parts) for name in names},
        data=parts[0].data,
        warmup=sum(each.warmup for each in parts),
    )


def _evaluation(thread: Thread, placed: PlacePasses) -> Evaluation:
    """The evaluation that the passes over one data set at one line make."""
    passes, items, warmup = thread.passes, placed.items, placed.warmup
    seconds = float((passes.end[placed.which] - passes.start[placed.which]).sum()) / SECOND
    # Without the first batch if that compiled: its time and its part of the items are left out.
    measured, measured_share = seconds - warmup, 1 - 1 / placed.batches if warmup else 1.0
    return Evaluation(
        place=placed.place,
        passes=len(placed.which),
        batches=placed.batches,
        seconds=seconds,
        items=items,
        throughput=items * measured_share / measured if items and measured > 0 else None,
        regions=_regions(thread, placed.inside, seconds),
        data=placed.data,
        warmup=warmup,
    )


def _regions(thread: Thread, inside: Flags, seconds: float) -> dict[str, float]:
    """Seconds of each region within the passes, ``other`` included."""
    track = thread.track
    # Only outermost regions: the time of those inside is theirs already.
    structure = track.flags(lambda site: site.region in STRUCTURE)
    rows = track.outermost(np.flatnonzero(inside & ~structure), track.until)
    lengths = (track.until[rows] - track.start[rows]) / SECOND
    regions: dict[str, float] = {}
    for site in kinds_of(track.site[rows]):
        name = track.sites[site].region
        regions[name] = regions.get(name, 0.0) + float(lengths[track.site[rows] == site].sum())
    regions["other"] = max(0.0, seconds - sum(regions.values()))
    return regions


def _trained_models(thread: Thread) -> frozenset[str]:
    track, steps, rows = thread.track, thread.steps, thread.marks.training
    rows, step = steps.rows_inside(track, rows)
    names = [track.sites[site].label or "" for site in kinds_of(track.site[rows])]
    numbers = numbers_of(names)
    name = track.table(lambda site: numbers.get(site.label or "", 0), rows)
    width = max(1, len(steps))
    in_steps = np.bincount(distinct(name * width + step) // width, minlength=len(numbers))
    return frozenset(each for each, n in numbers.items() if in_steps[n] >= min(2, width))


def _outside(thread: Thread, main: bool) -> Outside:
    """The calls in no step and no evaluation, without the steps and evaluations that lie in them."""
    track, steps, passes = thread.track, thread.steps, thread.passes
    outside = ~track.flags(lambda site: site.region in STRUCTURE - {"epoch"})
    outside[thread.pieces.row] = False
    # The pieces of a divided span are one call.
    if track.rest is not None:
        outside &= ~track.rest
    rows = np.flatnonzero(outside)  # few: nearly all spans are parts of steps
    rows = rows[~passes.excluded().hold(track.start[rows])]
    # A span inside of another of the same name and line is no part of its step, and not outside either.
    step = owners(steps.start, steps.end, track.start[rows])
    if len(steps):
        rows = rows[(step < 0) | (track.end[rows] > steps.end[step])]
    rows = _outermost_at_lines(track, rows)
    start, end = track.start[rows], track.end[rows]
    nanoseconds = end - start - union_of([steps, passes]).within(start, end)
    sites = track.site[rows]
    seconds_by: dict[tuple[str, SourceLine | None, str | None], list[Floats]] = {}
    for site in kinds_of(sites):
        call_site = track.sites[site]
        key = (
            call_site.region,
            call_site.place,
            call_site.label or (None if main else OTHER_THREAD),
        )
        seconds_by.setdefault(key, []).append(nanoseconds[sites == site] / SECOND)
    return {key: np.concatenate(parts).astype(np.float32) for key, parts in seconds_by.items()}


def _outermost_at_lines(track: Track, rows: Ints) -> Ints:
    """``rows`` without the spans inside of another one of the same region and line."""
    sites = kinds_of(track.site[rows])
    numbers = numbers_of((track.sites[site].region, track.sites[site].place) for site in sites)
    if len(rows) < 2 or track.apart(rows):
        return rows
    at = track.table(lambda site: numbers.get((site.region, site.place), -1), rows)
    return np.sort(np.concatenate([track.outermost(rows[at == n]) for n in range(len(numbers))]))


def others_of(
    summaries: list[TrackSummary], wall: float, training: frozenset[int] | None = None
) -> tuple[Node, ...]:
    """Regions in no step and no evaluation, by name and line.

    Their share is that of the run which one rank spends, or one process of those without a rank. If
    ``training`` has the indexes of the processes that make steps, waits are of these only: others wait for
    them to end, or for their requests.
    """
    keys = list(dict.fromkeys(key for each in summaries for key in each.outside))
    nodes = []
    for key in keys:
        with_key = [
            each
            for each in summaries
            if key in each.outside
            and (training is None or key[0] != "wait" or each.source.index in training)
        ]
        if not with_key:
            continue
        seconds = np.concatenate([each.outside[key] for each in with_key])
        # The mean of one rank or process: all together they may take more than the run.
        ranks = len({each.source.rank for each in with_key} - {None})
        parallel = ranks or len({each.source.index for each in with_key})
        share = float(seconds.sum(dtype=np.float64)) / parallel / wall if wall else 0.0
        name, place, label = key
        nodes.append(
            Node(name, place, statistics_of(seconds), share, float(len(seconds)), what=label)
        )
    return tuple(sorted(nodes, key=lambda node: -node.share)[:OTHERS])
