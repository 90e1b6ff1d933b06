"""How long a batch takes where a model only predicts, and how long that is for each item of it.

A batch is what an evaluation's loader gives: it takes from when it is there until the next one is fetched,
so that waiting for data is no part of it, and waiting for a device is. Where nothing is fetched it is a call
of the model, and of libraries that have one a call of ``predict``. Of a run that trains nothing, the steps
that ``--skip`` names are left out.

Statistics are those of lightgbm-benchmark's ``log_inferencing_latencies``: percentiles over batches, linear
between neighbours, of the seconds of a batch and of its seconds by its items (a *query* is an item); the mean
is all seconds by all items. Beyond it the histogram of queries counts each batch as often as it has items.
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
from .columns import PREDICT, SECOND, TRYING, Floats, Ints, RecordedProcess, read_rows, sources
from .loops import skipped_steps
from .passes import PlacePasses, passes_by_place
from .profile import Histogram, Latency, Percentiles
from .traces import Thread, threads_of

BINS = 24
PLACES = 12
"""Places that are kept, those with most batches."""


class TimedBatches(NamedTuple):
    """The batches of one place, on one track."""

    what: str
    """``evaluation``, ``inference`` or ``predict``."""
    place: SourceLine | None
    data: int | None
    """Of an evaluation: which of several data sets at that line."""
    seconds: Floats
    items: Floats | None
    """None where those of some batch are not known."""


def timed_passes(
    thread: Thread, found: PlacePasses, skipped: ExcludedIntervals = NOTHING
) -> TimedBatches:
    """The batches of these passes, but a first one that compiles and those that begin in ``skipped`` time."""
    start, seconds, items = _batches(thread, found.which, found.calls, found.fetches)
    kept = ~skipped.hold(start)
    kept[: 1 if found.warmup else 0] = False
    items = None if items is None or found.items is None else items[kept]
    what = INFERENCE if thread.source.infers else "evaluation"
    return TimedBatches(what, found.place, found.data, seconds[kept], items)


def _skipped(thread: Thread, skip: int) -> ExcludedIntervals:
    """The time of the first ``skip`` steps of each loop of inference."""
    if not (skip and thread.source.infers):
        return NOTHING
    begins = [(trace.start, trace.measured_from(skip)) for trace in thread.traces]
    return ExcludedIntervals(
        np.array([start[0] for start, first in begins if first], np.int64),
        np.array([start[first] for start, first in begins if first], np.int64),
    )


def _batches(
    thread: Thread, which: Ints, calls: Ints, fetches: Ints
) -> tuple[Ints, Floats, Floats | None]:
    """When each began (unix nanoseconds), its seconds, its items."""
    track, marks = thread.track, thread.marks
    calls = marks.of_models(calls)
    items = unpack(track.payload[calls])[0].astype(np.float64)
    if not len(fetches):
        length = (track.end[calls] - track.start[calls]).astype(np.float64)
        model = track.table(lambda site: -1 if site.object_id is None else site.object_id, calls)
        every, number = np.unique(model, return_inverse=True)
        mine = (
            number == np.bincount(number, length, len(every)).argmax() if len(every) else model == 0
        )
        return track.start[calls][mine], length[mine] / SECOND, _known(items[mine])
    begin = track.end[fetches]
    bounds = (track.start[fetches], track.start[marks.ends], thread.predicted.end[which])
    every = merged(*bounds)
    end = every[np.minimum(np.searchsorted(every, begin), len(every) - 1)]
    batch = owners(begin, end, track.start[calls])
    most = np.zeros(len(fetches))
    np.maximum.at(most, batch[batch >= 0], items[batch >= 0])
    drawn = unpack(track.payload[fetches])[0].astype(np.float64)
    # One of a loader that is a batch ahead, or of a second one, leads to no call by itself.
    used = np.bincount(batch[batch >= 0], minlength=len(fetches)) > 0
    items = drawn if len(drawn) and drawn.all() else most
    return begin[used], (end - begin)[used] / SECOND, _known(items[used])


def _timed_predictions(thread: Thread, skipped: ExcludedIntervals) -> Iterator[TimedBatches]:
    """The calls of ``predict`` by their lines."""
    track = thread.track
    rows = track.outermost(track.where(lambda site: site.region == PREDICT))
    rows = rows[~skipped.hold(track.start[rows])]
    places = [track.sites[number].place for number in track.site[rows].tolist()]
    items = unpack(track.payload[rows])[0].astype(np.float64)
    seconds = (track.end[rows] - track.start[rows]) / SECOND
    for place in dict.fromkeys(places):
        mine = np.array([each == place for each in places])
        yield TimedBatches(PREDICT, place, None, seconds[mine], _known(items[mine]))


def _known(items: Floats) -> Floats | None:
    return items if len(items) and (items > 0).all() else None


def latencies(found: Iterable[TimedBatches]) -> tuple[Latency, ...]:
    """The figures of each place, over all tracks."""
    places: dict[tuple[str, SourceLine | None, int | None], list[TimedBatches]] = {}
    for each in found:
        if len(each.seconds):
            places.setdefault(each[:3], []).append(each)
    made = [_latency(*key, batches) for key, batches in places.items()]
    return tuple(sorted(made, key=lambda each: -each.batches)[:PLACES])


def _latency(
    what: str, place: SourceLine | None, data: int | None, found: list[TimedBatches]
) -> Latency:
    items = [each.items for each in found if each.items is not None]
    every = np.concatenate(items) if len(items) == len(found) else None
    return latency(np.concatenate([each.seconds for each in found]), every, what, place, data)


def latency(
    seconds: Floats,
    items: Floats | None,
    what: str = "",
    place: SourceLine | None = None,
    data: int | None = None,
) -> Latency:
    """The figures of batches that took so many ``seconds``; without ``items`` nothing is known of queries.

    Raises ValueError where there is none.
    """
    if not len(seconds):
        raise ValueError("no latency of nothing")
    each = None if items is None else seconds / items
    return Latency(
        what=what,
        place=place,
        data=data,
        batches=len(seconds),
        queries=None if items is None else float(items.sum()),
        mean=None if items is None else float(seconds.sum() / items.sum()),
        batch=_percentiles(seconds),
        query=None if each is None else _percentiles(each),
        batch_histogram=_histogram(seconds, None),
        query_histogram=None if each is None else _histogram(each, items),
    )


def _percentiles(values: Floats) -> Percentiles:
    return Percentiles(*np.percentile(values, (50, 75, 90, 95, 99)).tolist())


def _histogram(values: Floats, weights: npt.NDArray[np.float64] | None) -> Histogram:
    """Bins of equal ratio: the slowest batches are many times the usual one."""
    low, high = float(values.min()), float(values.max())
    bins = BINS if 0 < low < high else 1
    edges = np.geomspace(low, high, bins + 1) if bins > 1 else np.array([low, high])
    # Rounding must not leave the ends out.
    edges[0], edges[-1] = low, high
    if bins == 1:
        return Histogram(edges.tolist(), [float(len(values) if weights is None else weights.sum())])
    counts, _ = np.histogram(values, edges, weights=weights)
    return Histogram(edges.tolist(), counts.astype(np.float64).tolist())


def timed_batches(
    thread: Thread, passes: Sequence[PlacePasses], skip: int = 0
) -> list[TimedBatches]:
    """All of one track with these ``passes``; of inference without the first ``skip`` steps."""
    skipped = _skipped(thread, skip)
    found = [timed_passes(thread, each, skipped) for each in passes]
    return [*found, *_timed_predictions(thread, skipped)]


def first_of(found: Iterable[tuple[RecordedProcess, Sequence[TimedBatches]]]) -> list[TimedBatches]:
    """Of processes side by side, the evaluations of the first rank that has some; predictions of all."""
    every = sorted(found, key=lambda each: (each[0].rank or 0, each[0].index))
    having = (source for source, batches in every if any(b.what != PREDICT for b in batches))
    first = next(having, None)
    return [b for source, each in every for b in each if b.what == PREDICT or source is first]


def latencies_of(run: Run) -> tuple[Latency, ...]:
    """Those of ``run``, without the rest of its profile. Raises OSError, NotARunError."""
    found, skip = [], skipped_steps(run)
    for source in sources(run):
        sites = source.sites.values() if source.has_spans() else ()
        if any(s.region in (PREDICT, "evaluation") or s.phase in TRYING for s in sites):
            threads = threads_of(source, read_rows(source))
            batches = [
                each
                for thread in threads
                for each in timed_batches(thread, passes_by_place(thread), skip)
            ]
            found.append((source, batches))
    return latencies(first_of(found))
