"""Epochs: where a loop begins anew over its data, how long each lasts, its cost and its losses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import fsum

import numpy as np

from ..value_class import replace
from .arrays import among, kinds_of, owners, places
from .columns import SECOND, Ints, evaluates
from .profile import Epoch, EpochLoss, TrainingLoop
from .recorded import TimedLoss
from .traces import LoopTrace, Thread

FEW = 0.5
"""Epochs by steps, from which on what begins anew is no epoch: ``next(iter(loader))`` for each batch."""
LOSSES = 4
"""Losses of a loop, at most: those recorded most often."""


def begins_of(thread: Thread, trace: LoopTrace) -> Ints:
    """When each epoch of a loop began, unix nanoseconds; nothing where no epochs were seen.

    An epoch is what the program or its library calls so (a region ``epoch``), else what lies between two
    beginnings of the loader that paces the loop; of a loader whose beginning is not seen, between its ends.
    An epoch has at least one step.
    """
    track = thread.track
    explicit = track.where(lambda site: site.region == "epoch" and not evaluates(site))
    moments = track.start[track.outermost(explicit)]
    if not len(moments) and trace.pace.paced_by == "loader":
        moments = _of_loader(thread, trace)
        if len(moments) and trace.start[0] < moments[0]:
            moments = np.concatenate((trace.start[:1], moments))
    first = places(trace.start, moments)
    moments, first = moments[first < len(trace.start)], first[first < len(trace.start)]
    # Of several beginnings before one step, the last one is its epoch's.
    moments = moments[np.append(first[1:] != first[:-1], True)[: len(moments)]]
    kept: Ints = moments[:0] if 1 < len(moments) > FEW * len(trace.start) else moments
    return kept


def _of_loader(thread: Thread, trace: LoopTrace) -> Ints:
    """Where the loaders that pace ``trace`` begin, else where they end."""
    track, marks, steps = thread.track, thread.marks, thread.steps
    mine = kinds_of(steps.pace[places(steps.start, trace.start)])
    of = {steps.paces[number].object_id for number in mine}
    sites = [number for number, site in track.sites.items() if site.object_id in of]
    excluded = thread.passes.excluded()
    for rows in (marks.starts, marks.ends):
        moments = track.start[rows[among(track.site[rows], sites)]]
        moments = moments[~excluded.hold(moments)]
        if rows is marks.starts:  # one that begins within a step begins no epoch
            moments = moments[owners(trace.start, trace.end, moments) < 0]
        else:
            following = np.searchsorted(trace.start, moments)
            moments = trace.start[following[following < len(trace.start)]]
        if len(moments):
            return moments
    return moments


def epochs_of(
    begins: Ints, traces: Sequence[LoopTrace], end: int, losses: Iterable[TimedLoss]
) -> tuple[Epoch, ...]:
    """The epochs of a loop that begin at ``begins`` on its first rank, ``traces[0]``.

    Other ranks' items are those of the same steps. ``end`` is when that rank's last step or evaluation
    ended.
    """
    if not len(begins):
        return ()
    first = traces[0]
    edges = [*np.searchsorted(first.start, begins).tolist(), len(first.start)]
    known = sorted(
        (each for each in losses if each.process == first.source.index),
        key=lambda each: -len(each.times),
    )[:LOSSES]
    found = []
    for number, (a, b) in enumerate(pairwise(edges)):
        begin, last = int(begins[number]), int(first.end[b - 1])
        following = int(begins[number + 1]) if number + 1 < len(begins) else max(end, last)
        items = [float(each.items[a:b].sum()) for each in traces if each.items is not None]
        whole = sum(items) if len(items) == len(traces) else None
        found.append(
            Epoch(
                number=number,
                steps=b - a,
                seconds=(last - begin) / SECOND,
                after=max(following - last, 0) / SECOND,
                items=whole,
                throughput=whole / ((last - begin) / SECOND) if whole and last > begin else None,
                losses=tuple(filter(None, (_loss(each, begin, last) for each in known))),
            )
        )
    return tuple(found)


def _loss(series: TimedLoss, begin: int, end: int) -> EpochLoss | None:
    """Of what was recorded in one epoch; None of nothing."""
    a, b = np.searchsorted(np.asarray(series.times), (begin / SECOND, end / SECOND)).tolist()
    values = series.values[a:b]
    if not len(values):
        return None
    return EpochLoss(series.label, len(values), values[0], values[-1], fsum(values) / len(values))


def with_cost(loop: TrainingLoop, per_hour: float) -> TrainingLoop:
    """``loop``, whose epochs have what they cost where an hour of the run costs ``per_hour``."""
    priced = (replace(e, cost=(e.seconds + e.after) / 3600 * per_hour) for e in loop.epochs)
    return replace(loop, epochs=tuple(priced))
