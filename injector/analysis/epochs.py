"""Epochs: where a loop begins anew over its data, how long each epoch lasts, and its cost and losses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import fsum

import numpy as np

from ..store.call_sites import SourceLine
from ..value_class import replace
from .arrays import among, counts, kinds_of, merged, next_moment, owners, places
from .columns import SECOND, Flags, Ints, evaluates
from .event_samples import TimedLoss
from .traces import LoopTrace, Thread
from .tracks import Track, object_number
from .training_loop import Epoch, EpochLoss, TrainingLoop

FEW = 0.5
"""With more epochs per step they are none: ``next(iter(loader))`` begins anew for each batch."""
LOSSES = 4
"""The most losses of a loop that are kept: those recorded most often."""


def begins_of(thread: Thread, trace: LoopTrace) -> Ints:
    """When each epoch of a loop began, unix nanoseconds; nothing if no epochs were seen.

    An epoch is what the program or its library calls so (a region ``epoch``). Else it lies between two starts
    of the loader that paces the loop, or that another thread reads ahead, or if these are not seen, between
    the ends of the loader. Each epoch has at least one step.
    """
    track = thread.track
    explicit = track.where(lambda site: site.region == "epoch" and not evaluates(site))
    moments = _with_first_fetches(thread, trace, track.start[track.outermost(explicit)])
    pace = trace.pace
    # Steps that a voirfile marks are the turns of a loader's loop if they are of one.
    by_loader = pace.paced_by == "loader" or (
        pace.paced_by == "step" and pace.object_id is not None
    )
    if not len(moments):
        moments = _loader_begins(thread, trace) if by_loader else _begins_of_others(thread)
        if len(moments) and trace.start[0] < moments[0]:
            # The first end of a loader ends an epoch that nothing was seen to begin.
            moments = np.concatenate((trace.start[:1], moments))
    first = _first_steps(trace, moments)
    moments, first = moments[first < len(trace.start)], first[first < len(trace.start)]
    # If there are several starts before one step, the last one begins its epoch.
    moments = moments[np.append(first[1:] != first[:-1], True)[: len(moments)]]
    begins: Ints = moments[:0] if 1 < len(moments) > FEW * len(trace.start) else moments
    return begins


def _with_first_fetches(thread: Thread, trace: LoopTrace, begins: Ints) -> Ints:
    """When epochs that are marked begin: with their first step, whose batch may be fetched just before."""
    if trace.pace.paced_by != "loader":
        return begins
    step = np.maximum(places(trace.start, begins) - 1, 0)
    start, end = trace.start[step], trace.end[step]
    updates, marks = thread.track.start[thread.marks.updates], thread.marks
    # Nothing may be trained in between: a step of several batches may have the last ones of an epoch.
    trained = thread.track.start[merged(marks.may_train, marks.backward, marks.updates)]
    is_ahead = (start < begins) & (begins < end) & (counts(trained, start, begins) == 0)
    is_ahead &= counts(updates, begins, end) > 0
    return np.where(is_ahead, start, begins)


def ends_of(thread: Thread, trace: LoopTrace, begins: Ints) -> Ints:
    """When the last step of each epoch ended, unix nanoseconds; ``begins`` are when the epochs began.

    A program may validate after the last batch of an epoch, before its loader has run dry: an evaluation that
    follows the last update is none between steps.
    """
    last = np.append(_first_steps(trace, begins)[1:], len(trace.end))[: len(begins)] - 1
    updates = thread.track.end[thread.marks.updates]
    updated = np.append(trace.start[:1], updates)[places(updates, trace.end[last], "right")]
    ends: Ints = np.minimum(trace.end[last], next_moment(thread.passes.start, updated))
    return ends


def _first_steps(trace: LoopTrace, begins: Ints) -> Ints:
    """The first step of each epoch that ``begins`` at these moments.

    A step that an update paces begins where the one before it ended, and so before its epoch.
    """
    if trace.pace.paced_by == "optimizer":
        return places(trace.end, begins, "right")
    return places(trace.start, begins)


def _loader_begins(thread: Thread, trace: LoopTrace) -> Ints:
    """When the loaders that pace ``trace`` start over its data, or the first steps after they ran dry."""
    track, marks, steps = thread.track, thread.marks, thread.steps
    paces = kinds_of(steps.pace[places(steps.start, trace.start)])
    loaders = {steps.paces[number].object_id for number in paces}
    sites = [number for number, site in track.sites.items() if site.object_id in loaders]
    # The same loader may also be read to evaluate: no epoch of the training.
    excluded = thread.passes.excluded()
    reads = merged(marks.fetches, marks.ends)
    reads = reads[among(track.site[reads], sites)]
    for rows in (marks.starts, marks.ends):
        rows_of_loader = rows[among(track.site[rows], sites)]
        rows_of_loader = rows_of_loader[~excluded.hold(track.start[rows_of_loader])]
        moments = track.start[rows_of_loader]
        if rows is marks.starts:
            moments = moments[_begin_epochs(track, trace, rows_of_loader, reads)]
        else:
            following = np.searchsorted(trace.start, moments)
            moments = trace.start[following[following < len(trace.start)]]
        if len(moments):
            return moments
    return moments


def _begins_of_others(thread: Thread) -> Ints:
    """When the one loader starts that this thread starts, again and again, for another one to read ahead."""
    track, marks = thread.track, thread.marks
    drawn, begun = (
        track.table(object_number, rows)
        for rows in (merged(marks.fetches, marks.ends), marks.starts)
    )
    times = {number: np.count_nonzero(begun == number) for number in kinds_of(begun)}
    others = [
        each for each, n in times.items() if n > 1 and each >= 0 and not (drawn == each).any()
    ]
    return track.start[marks.starts[among(begun, others)]] if len(others) == 1 else begun[:0]


def _begin_epochs(track: Track, trace: LoopTrace, starts: Ints, reads: Ints) -> Flags:
    """Which of the ``starts`` of loaders that pace ``trace`` begin an epoch; ``reads`` are their fetches, and
    ends.

    One that starts within a step is read beside it, unless at the line that fetches for the steps (then the
    step has the last batches of one epoch and the first of the next), or at a line that reads nothing itself
    (``batches = iter(loader)``), before another step or a fetch at that line.
    """
    # Lines and not functions: a generator expression is one of its own, and its loader is started outside.
    reading = {_line_of(track.sites[number].place) for number in kinds_of(track.site[reads])}
    is_reading = track.table(lambda site: _line_of(site.place) in reading, starts) == 1
    # Steps may begin at several lines: the first batch of an epoch may be fetched apart.
    moments = track.start[reads]
    begun = np.append(trace.start, 0)[places(trace.start, moments)]
    fetched = kinds_of(track.site[reads[begun == moments]])
    pacing = {_line_of(track.sites[number].place) for number in fetched}
    pacing.add(_line_of(trace.pace.place))
    pacing_sites = [n for n, site in track.sites.items() if _line_of(site.place) in pacing]
    started = track.start[starts]
    following = places(moments, started)
    site_of_read = np.append(track.site[reads], 0)[following]
    step = owners(trace.start, trace.end, started)
    next_step = owners(trace.start, trace.end, np.append(moments, trace.end[-1])[following])
    is_before = (step < next_step) | among(site_of_read, pacing_sites)
    begins: Flags = (step < 0) | among(track.site[starts], pacing_sites) | (~is_reading & is_before)
    return begins


def _line_of(place: SourceLine | None) -> tuple[str, int] | None:
    return (place.file, place.line) if place else None


def epochs_of(
    traces: Sequence[LoopTrace], end: int, losses: Iterable[TimedLoss]
) -> tuple[Epoch, ...]:
    """The epochs of a loop as its first rank, ``traces[0]``, began them.

    ``end`` is when that rank's last step or evaluation ended. Other ranks' items are those of the same steps.
    """
    first = traces[0]
    begins, ends = first.begins, first.ends
    if begins is None or ends is None or not len(begins):
        return ()
    edges = [*_first_steps(first, begins).tolist(), len(first.start)]
    rank_losses = sorted(
        (each for each in losses if each.process == first.source.index),
        key=lambda each: -len(each.times),
    )[:LOSSES]
    epochs = []
    for number, (a, b) in enumerate(pairwise(edges)):
        begin, last = int(begins[number]), int(ends[number])
        following = int(begins[number + 1]) if number + 1 < len(begins) else max(end, last)
        # Of the same steps on all ranks, since they step together.
        items = [float(each.items[a:b].sum()) for each in traces if each.items is not None]
        item_sum = sum(items) if len(items) == len(traces) else None
        seconds = (last - begin) / SECOND
        epochs.append(
            Epoch(
                number=number,
                steps=b - a,
                seconds=seconds,
                after=max(following - last, 0) / SECOND,
                items=item_sum,
                throughput=item_sum / seconds if item_sum and last > begin else None,
                losses=tuple(filter(None, (_loss(each, begin, last) for each in rank_losses))),
            )
        )
    return tuple(epochs)


def _loss(series: TimedLoss, begin: int, end: int) -> EpochLoss | None:
    """What ``series`` recorded from ``begin`` to ``end``; None if that is nothing."""
    a, b = np.searchsorted(np.asarray(series.times), (begin / SECOND, end / SECOND)).tolist()
    values = series.values[a:b]
    if not len(values):
        return None
    return EpochLoss(series.label, len(values), values[0], values[-1], fsum(values) / len(values))


def with_cost(loop: TrainingLoop, per_hour: float) -> TrainingLoop:
    """``loop`` with the cost of each epoch, where an hour of the run costs ``per_hour``."""
    priced = (
        replace(epoch, cost=(epoch.seconds + epoch.after) / 3600 * per_hour)
        for epoch in loop.epochs
    )
    return replace(loop, epochs=tuple(priced))
