"""What is kept of a track once its spans are let go: those of all ranks do not fit into memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..store.spans import is_loaders, unpack
from .arrays import ExcludedIntervals, owners, statistics_of
from .columns import SECOND, Flags, Floats, Ints, RecordedProcess
from .epochs import begins_of
from .evaluation import Passes
from .gaps import LargestGap, largest_gap
from .items import contradicts, evaluated, fits
from .profile import Evaluation, Node, SourceLine
from .tables import Seconds
from .timeline import Sum, between_them
from .traces import LoopTrace, Thread
from .tracks import STRUCTURE

DATA = 4
"""Data sets that are kept apart where passes over them begin at one line: a loader made anew is none."""
FEW, SLOW, WORTH = 4, 10, 0.1
"""Calls, times the usual one, and part of all, from which on an evaluation's first call is its warm-up."""
OTHERS = 12
"""Regions outside of steps that are kept apart."""
Outside = dict[tuple[str, SourceLine | None, str | None], Seconds]
"""By region, line and what it works on: the seconds of each call."""


@dataclass
class TrackSummary:
    """One track."""

    source: RecordedProcess
    traces: list[LoopTrace]
    where: list[LargestGap | None]
    """For each trace, where most of its steps' ``other`` lies."""
    begins: list[Ints]
    """For each trace, when its epochs began."""
    passes: Passes
    evaluations: list[Evaluation]
    between: list[Sum]
    span: tuple[int, int]
    outside: Outside


def track_summary(thread: Thread, main: bool) -> TrackSummary:
    """Of one track; ``main`` says whether its process trains in it, or nowhere."""
    between, span = between_them(thread)
    return TrackSummary(
        source=thread.source,
        traces=thread.traces,
        where=[largest_gap(thread, trace) for trace in thread.traces],
        begins=[begins_of(thread, trace) for trace in thread.traces],
        passes=thread.passes,
        evaluations=_evaluations(thread) if len(thread.passes) else [],
        between=between,
        span=span,
        outside=_outside(thread, main),
    )


def first_of(summaries: list[TrackSummary]) -> list[TrackSummary]:
    """The tracks of the first rank that evaluates."""
    having = [each for each in summaries if len(each.passes)]
    first = min(having, key=lambda f: (f.source.rank or 0, f.source.index), default=None)
    return [each for each in having if first is not None and each.source is first.source]


def _evaluations(thread: Thread) -> list[Evaluation]:
    """One for each line that passes begin at, and for each data set there, unless these are many."""
    sites, passes = thread.track.sites, thread.passes.site.tolist()
    data: dict[SourceLine | None, list[int | None]] = {}
    for number in dict.fromkeys(passes):
        mine = data.setdefault(sites[number].place, [])
        if sites[number].of not in mine:
            mine.append(sites[number].of)
    found: dict[tuple[SourceLine | None, int | None], list[int]] = {}
    for number, site in enumerate(passes):
        place, several = sites[site].place, data[sites[site].place]
        apart = 1 < len(several) <= DATA and sites[site].region in ("io", "step")
        which = several.index(sites[site].of) + 1 if apart else None
        found.setdefault((place, which), []).append(number)
    return [_evaluation(thread, *key, np.array(each)) for key, each in found.items()]


def _evaluation(
    thread: Thread, place: SourceLine | None, data: int | None, which: Ints
) -> Evaluation:
    track, marks = thread.track, thread.marks
    start, end = thread.passes.start[which], thread.passes.end[which]
    inside = owners(start, end, track.start) >= 0
    seconds = float((end - start).sum()) / SECOND
    loaders = track.flags(lambda site: is_loaders(site.of, site.asked))
    fetches = marks.fetches[(inside & loaders)[marks.fetches]]
    calls = marks.forward[inside[marks.forward]]
    items, batches = _items(thread, calls, fetches)
    warmup = _compiling(track.end[calls] - track.start[calls])
    measured, share = seconds - warmup, 1 - 1 / (len(fetches) or batches) if warmup else 1.0
    return Evaluation(
        place=place,
        passes=len(which),
        batches=len(fetches) or batches,
        seconds=seconds,
        items=items,
        throughput=items * share / measured if items and measured > 0 else None,
        regions=_regions(thread, inside, seconds),
        data=data,
        warmup=warmup,
    )


def _compiling(length: Ints) -> float:
    """Seconds of the first call of a model where that was far longer than usual; 0 where it was not."""
    if len(length) < FEW or length[0] < SLOW * np.median(length):
        return 0.0
    return float(length[0]) / SECOND if length[0] > length.sum() * WORTH else 0.0


def _items(thread: Thread, rows: Ints, fetches: Ints) -> tuple[float | None, int]:
    """What was drawn for the calls ``rows``, else the items of the model that saw most, one call a fetch;
    and how often that one was called. As for steps, None where two sources contradict each other.
    """
    track, losses = thread.track, rows
    rows = evaluated(thread.marks, rows)
    losses = np.setdiff1d(losses, rows)
    items = unpack(track.payload[rows])[0]
    model = track.table(lambda site: -1 if site.of is None else site.of)[rows]
    # One of a loader that is a batch ahead comes after it ran dry.
    begun = np.sort(np.concatenate((thread.marks.fetches, thread.marks.ends)))
    batch = np.searchsorted(begun, rows)
    best, calls, until, before = 0, 0, -1, list[tuple[int, int]]()
    for each in dict.fromkeys(model.tolist()):  # in the order of their first calls
        mine = model == each
        seen = np.flatnonzero(mine)
        if seen[0] > until >= 0:  # it replaces those before it: a checkpoint, loaded for the test
            before.append((best, calls))
            best = calls = 0
        until = max(until, int(seen[-1]))
        one = batch[mine]
        first = np.concatenate(([True], one[1:] != one[:-1])) if len(fetches) else np.True_
        found = int((items[mine] * first).sum())
        whole = bool((items[mine] > 0).all())  # else it is known of some of its batches only
        if whole and not _is_contradicted(track.payload, rows[mine], losses):
            best = max(best, found)
        calls = max(calls, int(mine.sum()))
    before.append((best, calls))
    calls = sum(number for _, number in before)
    best = sum(found for found, _ in before) if all(found for found, _ in before) else 0
    drawn = unpack(track.payload[fetches])[0]
    if len(drawn) and drawn.all():
        loader = track.table(lambda site: -1 if site.of is None else site.of)[fetches]
        used = np.isin(fetches, begun[batch[batch > 0] - 1])
        ahead = np.isin(thread.marks.ends, begun[batch[batch > 0] - 1]).any()
        leading = (used | ahead) & (loader == loader[0])
        if best not in (int(drawn[leading].sum()), int(drawn.sum())):
            one_by_one = best > 0 and drawn[leading].max(initial=0) == 1
            best = 0 if one_by_one else int(drawn[leading].sum())
    return float(best) if best else None, calls


def _is_contradicted(payload: Ints, calls: Ints, losses: Ints) -> bool:
    """Whether the losses after the ``calls`` of a model say another number of items."""
    after = np.searchsorted(losses, calls)
    known = after < len(losses)
    model, loss = unpack(payload[calls[known]])[0], unpack(payload[losses[after[known]]])[0]
    both = (model > 0) & (loss > 0)
    model, loss = model[both], loss[both]
    return not fits(model, loss) and contradicts(model, loss)


def _regions(thread: Thread, inside: Flags, seconds: float) -> dict[str, float]:
    track = thread.track
    structure = track.flags(lambda site: site.region in STRUCTURE)
    rows = track.outermost(np.flatnonzero(inside & ~structure))
    lengths = (track.end[rows] - track.start[rows]) / SECOND
    found: dict[str, float] = {}
    for site in np.unique(track.site[rows]).tolist():
        name = track.sites[site].region
        found[name] = found.get(name, 0.0) + float(lengths[track.site[rows] == site].sum())
    found["other"] = max(0.0, seconds - sum(found.values()))
    return found


def _outside(thread: Thread, main: bool) -> Outside:
    """Spans in no step and no evaluation, without the steps and evaluations that lie in them."""
    track, steps, passes = thread.track, thread.steps, thread.passes
    inner = ExcludedIntervals(np.concatenate((steps.start, passes.start)),
                  np.concatenate((steps.end, passes.end)))  # fmt: skip
    length = track.end - track.start - inner.within(track.start, track.end)
    outside = ~track.flags(lambda site: site.region in STRUCTURE - {"epoch"})
    outside[thread.pieces.row] = False
    outside &= ~thread.passes.excluded().hold(track.start)
    # What a step's own span of the same name and line holds is no part of the step, and not outside.
    step = owners(thread.steps.start, thread.steps.end, track.start)
    if len(thread.steps):
        outside &= (step < 0) | (track.end > thread.steps.end[step])
    rows = np.flatnonzero(outside)
    found: dict[tuple[str, SourceLine | None, str | None], list[Floats]] = {}
    for site in np.unique(track.site[rows]).tolist():
        one = track.sites[site]
        mine = rows[track.site[rows] == site]
        key = (one.region, one.place, one.what or (None if main else "in another thread"))
        found.setdefault(key, []).append(length[mine] / SECOND)
    return {key: np.concatenate(parts).astype(np.float32) for key, parts in found.items()}


def others_of(summaries: list[TrackSummary], wall: float) -> tuple[Node, ...]:
    """Regions in no step and no evaluation, by name and line, over the whole run."""
    keys = list(dict.fromkeys(key for each in summaries for key in each.outside))
    nodes = []
    for key in keys:
        seconds = np.concatenate([each.outside[key] for each in summaries if key in each.outside])
        share = float(seconds.sum(dtype=np.float64)) / wall if wall else 0.0
        name, place, what = key
        nodes.append(
            Node(name, place, statistics_of(seconds), share, float(len(seconds)), what=what)
        )
    return tuple(sorted(nodes, key=lambda node: -node.share)[:OTHERS])
