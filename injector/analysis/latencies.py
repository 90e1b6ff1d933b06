"""How long a batch takes where a model only predicts, and how long that is for each of its items.

A batch is what the loader of an evaluation gives. It takes from the end of its fetch to the begin of the next
one, so that waiting for data is no part of it, and waiting for a device is::

    fetch │ model │ copy of the result │ fetch │ model │ …
          ╰───────── a batch ──────────╯

Where nothing is fetched, a batch is one call of the model; for libraries that have it, one call of
``predict``. The steps that ``--skip`` names are left out in a run that trains nothing.

Statistics are those of lightgbm-benchmark's ``log_inferencing_latencies``: percentiles over batches,
interpolated linearly, of the seconds of a batch and of its seconds divided by its items (a *query* is an
item); the mean is all seconds divided by all items. What that function does not have is a histogram of
queries, which counts each batch as often as it has items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..store.call_sites import INFERENCE, SourceLine
from ..store.folder import Run
from ..store.spans import unpack
from .arrays import NOTHING, ExcludedIntervals, merged, owners
from .columns import PREDICT, SECOND, UNTRAINED, Floats, Ints, RecordedProcess, read_rows, sources
from .loops import skipped_steps
from .passes import PlacePasses, passes_by_place
from .profile import Histogram, Latency, Percentiles
from .traces import Thread, threads_of
from .tracks import object_number

BINS = 24
"""Bins of a histogram."""
PLACES = 12
"""How many places are kept: those with most batches."""


class TimedBatches(NamedTuple):
    """The batches of one place on one track."""

    what: str
    """``evaluation``, ``inference`` or ``predict``."""
    place: SourceLine | None
    data: int | None
    """Which of several data sets that are evaluated at that line; None if there is only one."""
    seconds: Floats
    """One value for each batch."""
    items: Floats | None
    """The same; None if the items of some batch are not known."""


def timed_passes(thread: Thread, passes: PlacePasses, skipped: ExcludedIntervals) -> TimedBatches:
    """The batches of ``passes``, without a first one that compiles and those in ``skipped`` time."""
    start, seconds, items = _batches(thread, passes.which, passes.calls, passes.fetches)
    kept = ~skipped.hold(start)
    kept[: 1 if passes.warmup else 0] = False
    items = None if items is None or passes.items is None else items[kept]
    what = INFERENCE if thread.source.infers else "evaluation"
    return TimedBatches(what, passes.place, passes.data, seconds[kept], items)


def _skipped(thread: Thread, skip: int) -> ExcludedIntervals:
    """The time of the first ``skip`` steps of each loop of inference."""
    if not (skip and thread.source.infers):
        return NOTHING
    starts = [(trace.start, trace.measured_from(skip)) for trace in thread.traces]
    return ExcludedIntervals(
        np.array([start[0] for start, first in starts if first], np.int64),
        np.array([start[first] for start, first in starts if first], np.int64),
    )


def _batches(
    thread: Thread, which: Ints, calls: Ints, fetches: Ints
) -> tuple[Ints, Floats, Floats | None]:
    """When each batch began (unix nanoseconds), its seconds, and its items.

    ``calls`` and ``fetches`` are rows of the thread's track, ``which`` are the passes that they are of.
    """
    calls = thread.marks.of_models(calls)
    return _by_fetch(thread, which, calls, fetches) if len(fetches) else _by_call(thread, calls)


def _by_call(thread: Thread, calls: Ints) -> tuple[Ints, Floats, Floats | None]:
    """Batches that nothing fetches: the calls of the model that takes most of the time.

    Other models (a tokenizer, a detector of language) may be called for the same batch.
    """
    track = thread.track
    items = unpack(track.payload[calls])[0].astype(np.float64)
    durations = (track.end[calls] - track.start[calls]).astype(np.float64)
    model = track.table(object_number, calls)
    models, number = np.unique(model, return_inverse=True)
    total = np.bincount(number, durations, len(models))
    of_main = number == total.argmax() if len(models) else model == 0
    return track.start[calls][of_main], durations[of_main] / SECOND, _if_known(items[of_main])


def _by_fetch(
    thread: Thread, which: Ints, calls: Ints, fetches: Ints
) -> tuple[Ints, Floats, Floats | None]:
    """Batches from the end of their fetch to the begin of the next fetch, else to the end of their pass."""
    track = thread.track
    items_of_calls = unpack(track.payload[calls])[0].astype(np.float64)
    begin = track.end[fetches]
    # Where a loader is exhausted it is fetched from once more, without getting a batch: `marks.ends`.
    ends = merged(track.start[fetches], track.start[thread.marks.ends], thread.predicted.end[which])
    end = ends[np.minimum(np.searchsorted(ends, begin), len(ends) - 1)]
    batch = owners(begin, end, track.start[calls])
    # A batch may be given to several models, or to one in parts: the largest call has most of its items.
    items_of_model = np.zeros(len(fetches))
    np.maximum.at(items_of_model, batch[batch >= 0], items_of_calls[batch >= 0])
    items_of_loader = unpack(track.payload[fetches])[0].astype(np.float64)
    # A fetch of a loader that is a batch ahead, or of a second loader, leads to no call by itself.
    used = np.bincount(batch[batch >= 0], minlength=len(fetches)) > 0
    loader_knows = len(items_of_loader) and items_of_loader.all()
    items = items_of_loader if loader_knows else items_of_model
    return begin[used], (end - begin)[used] / SECOND, _if_known(items[used])


def _timed_predictions(thread: Thread, skipped: ExcludedIntervals) -> Iterator[TimedBatches]:
    """The calls of ``predict`` of each line."""
    track = thread.track
    # `Pipeline.predict` calls `predict` of its last step: that is a part of the same batch.
    rows = track.outermost(track.where(lambda site: site.region == PREDICT))
    rows = rows[~skipped.hold(track.start[rows])]
    places = [track.sites[number].place for number in track.site[rows].tolist()]
    items = unpack(track.payload[rows])[0].astype(np.float64)
    seconds = (track.end[rows] - track.start[rows]) / SECOND
    for place in dict.fromkeys(places):
        there = np.array([each == place for each in places])
        yield TimedBatches(PREDICT, place, None, seconds[there], _if_known(items[there]))


def _if_known(items: Floats) -> Floats | None:
    return items if len(items) and (items > 0).all() else None


def latencies(batches: Iterable[TimedBatches]) -> tuple[Latency, ...]:
    """The figures of each place, over all tracks; those with most batches come first."""
    places: dict[tuple[str, SourceLine | None, int | None], list[TimedBatches]] = {}
    for of_track in batches:
        if len(of_track.seconds):
            places.setdefault(of_track[:3], []).append(of_track)
    figures = [_latency_of_place(*key, of_tracks) for key, of_tracks in places.items()]
    return tuple(sorted(figures, key=lambda latency: -latency.batches)[:PLACES])


def _latency_of_place(
    what: str, place: SourceLine | None, data: int | None, of_tracks: list[TimedBatches]
) -> Latency:
    seconds = np.concatenate([each.seconds for each in of_tracks])
    # Percentiles over batches would be wrong with the items of some batches only.
    known = [each.items for each in of_tracks if each.items is not None]
    items = np.concatenate(known) if len(known) == len(of_tracks) else None
    return latency(seconds, items, what, place, data)


def latency(
    seconds: Floats,
    items: Floats | None,
    what: str = "",
    place: SourceLine | None = None,
    data: int | None = None,
) -> Latency:
    """The figures of batches that took so many ``seconds``, one value for each batch.

    Without ``items``, nothing is known about queries. Raises ValueError if there is no batch.
    """
    if not len(seconds):
        raise ValueError("no latency of nothing")
    per_query = None if items is None else seconds / items
    return Latency(
        what=what,
        place=place,
        data=data,
        batches=len(seconds),
        queries=None if items is None else float(items.sum()),
        mean=None if items is None else float(seconds.sum() / items.sum()),
        batch=_percentiles(seconds),
        query=None if per_query is None else _percentiles(per_query),
        batch_histogram=_histogram(seconds, None),
        query_histogram=None if per_query is None else _histogram(per_query, items),
    )


def _percentiles(values: Floats) -> Percentiles:
    return Percentiles(*np.percentile(values, (50, 75, 90, 95, 99)).tolist())


def _histogram(values: Floats, weights: npt.NDArray[np.float64] | None) -> Histogram:
    """A histogram whose edges grow by a factor: the slowest batches take many times as long as most."""
    low, high = float(values.min()), float(values.max())
    bins = BINS if 0 < low < high else 1
    edges = np.geomspace(low, high, bins + 1) if bins > 1 else np.array([low, high])
    # By rounding, the first or last edge may miss the value that it was made of.
    edges[0], edges[-1] = low, high
    if bins == 1:
        return Histogram(edges.tolist(), [float(len(values) if weights is None else weights.sum())])
    counts, _ = np.histogram(values, edges, weights=weights)
    return Histogram(edges.tolist(), counts.astype(np.float64).tolist())


def timed_batches(thread: Thread, passes: Sequence[PlacePasses], skip: int) -> list[TimedBatches]:
    """The batches of one track: those of ``passes``, and of calls of ``predict``.

    Of inference, the first ``skip`` steps are left out.
    """
    skipped = _skipped(thread, skip)
    of_passes = [timed_passes(thread, each, skipped) for each in passes]
    return [*of_passes, *_timed_predictions(thread, skipped)]


def first_of(
    processes: Iterable[tuple[RecordedProcess, Sequence[TimedBatches]]],
) -> list[TimedBatches]:
    """Evaluations of the first rank that has some, and predictions of all processes.

    In most programs each rank evaluates the same data; predictions are divided among processes.
    """
    ordered = sorted(processes, key=lambda item: (item[0].rank or 0, item[0].index))
    evaluating = (source for source, batches in ordered if any(b.what != PREDICT for b in batches))
    first = next(evaluating, None)
    return [
        batch
        for source, batches in ordered
        for batch in batches
        if batch.what == PREDICT or source is first
    ]


def latencies_of(run: Run) -> tuple[Latency, ...]:
    """The latencies of ``run``, without the rest of its profile. Raises OSError, NotARunError."""
    processes, skip = [], skipped_steps(run)
    for source in sources(run):
        sites = source.sites.values() if source.has_spans() else ()
        if any(s.region in (PREDICT, "evaluation") or s.phase in UNTRAINED for s in sites):
            threads = threads_of(source, read_rows(source))
            batches = [
                of_place
                for thread in threads
                for of_place in timed_batches(thread, passes_by_place(thread), skip)
            ]
            processes.append((source, batches))
    return latencies(first_of(processes))
