"""What passes over data in which nothing is trained are made of.

A part of a pass is a span that a voirfile or library marks, an iteration of a loader in which a model only
predicts, or a single call of such a model. :mod:`.evaluation` puts them together.
"""

from __future__ import annotations

import numpy as np

from ..value_class import state_class
from .arrays import (
    OPEN,
    among,
    counts,
    differing,
    distinct,
    kinds_of,
    merged,
    next_moment,
    places,
    stacked,
    taken,
)
from .columns import Flags, Ints
from .iterations import LoaderIterations
from .landmarks import Landmarks
from .loaders import Loaders, Stream
from .pass_begins import begins_of_calls
from .steps import TrackSteps
from .tracks import numbers_of, object_number
from .untrained_calls import evaluating_calls

MOST_PASSES = 1 << 32
"""More than there are passes over one loader: with its number they make one integer."""


@state_class
class PassParts:
    """Parts of evaluations, as columns: what is certainly evaluation."""

    start: Ints
    end: Ints
    site: Ints
    rank: Ints
    """The part with the smallest rank gives a pass its site: a span before a loader before a call."""
    last: Flags
    """Whether a loader ran dry with it: what comes next is another pass."""
    loader: Ints
    """A number for the loader and the pass over it (:func:`_passes_over`); -1 without a loader."""
    begins: Flags
    """Whether another pass begins with it, unless it lies between batches of a loader."""


def parts_of_passes(marks: Landmarks, iterations: LoaderIterations, steps: TrackSteps) -> PassParts:
    """All that is certainly evaluation in a track, in the order of time."""
    track, spans = marks.track, marks.passes
    parts = [
        PassParts(track.start[spans], track.end[spans], track.site[spans],
                  np.zeros(len(spans), np.int64), np.ones(len(spans), np.bool_),
                  np.full(len(spans), -1, np.int64), np.ones(len(spans), np.bool_))
    ]  # fmt: skip
    if len(marks.forward):
        parts += _loader_parts(marks, iterations)
        parts.append(_model_parts(marks, steps))
    unordered = stacked(parts)
    return taken(unordered, np.argsort(unordered.start, kind="stable"))


def _loader_parts(marks: Landmarks, iterations: LoaderIterations) -> list[PassParts]:
    """The iterations of loaders with whose batches nothing is trained."""
    parts = []
    track = marks.track
    for start, end in iterations.evaluating:
        rows = marks.fetches[places(track.start[marks.fetches], start)]
        parts.append(_iteration_parts(marks, rows, start, end))
    # What a loader that is ahead trained with after it had run dry has the row of its last fetch once more.
    if np.count_nonzero(differing(iterations.pacing)) == len(marks.fetches):
        return parts
    pacing = track.start[iterations.pacing]
    streams = Loaders(marks).streams([])
    first = np.array([stream.start[0] for stream in streams])
    begun = merged(first, track.start[marks.starts])
    for stream in streams:
        at = int(np.searchsorted(iterations.pacing, stream.rows[0]))
        # A loader that paces training: its iterations that evaluate are there already.
        if at < len(iterations.pacing) and iterations.pacing[at] == stream.rows[0]:
            continue
        parts.append(_stream_parts(marks, stream, pacing, begun))
    return parts


def _stream_parts(marks: Landmarks, stream: Stream, pacing: Ints, begun: Ints) -> PassParts:
    """The iterations of one loader that evaluate.

    ``pacing`` are the moments of fetches that pace training, ``begun`` those at which any loader begins.
    """
    track = marks.track
    next_pacing = next_moment(pacing, stream.start)
    close = np.minimum(stream.close, next_pacing)
    # A loop that was left by break has ended where another one begins.
    next_begin = next_moment(begun, stream.start, "right")
    fetched = track.start[stream.rows]
    left_for_another = counts(begun, fetched, np.concatenate((stream.begin[1:] + 1, [OPEN]))) > 0
    left_for_another &= np.concatenate((stream.begin[1:] < fetched[1:], [True]))
    left_for_another &= ~np.isin(stream.close, track.start[marks.ends])
    close = np.where(stream.left | left_for_another, np.minimum(close, next_begin), close)
    training = merged(track.start[marks.learning()], track.start[marks.updates])
    trains = counts(training, stream.start, close) > 0
    first = places(track.start[marks.forward], stream.start)
    is_there = first < len(marks.forward)
    call = marks.forward[np.minimum(first, len(marks.forward) - 1)]
    calls_model = is_there & (track.start[call] < close)
    only_predicts = calls_model & np.isin(call, marks.predicting)
    # A loader that is read inside of a step (of another domain, say) feeds the backward of that step.
    next_training = next_moment(training, stream.start)
    feeds = np.isin(call, marks.training) & (next_training < next_pacing) & (len(pacing) > 0)
    if stream.by_hand:
        feeds |= _is_summed(marks, call)
    # A function that makes batches serves training too: if training follows a call, it was for that batch.
    only_predicts &= ~trains | (not stream.by_hand)
    # Of a loader that feeds steps which something else paces, a teacher may see the batch first.
    object_of = track.table(object_number)
    is_teacher = ~np.isin(object_of[call], object_of[marks.training])
    is_beside = trains & (2 * np.count_nonzero(trains) > len(trains))
    is_beside &= is_teacher | (len(pacing) > 0)
    only_predicts &= ~is_beside
    feeds |= is_beside
    # The first batch of a program that failed, in training mode, was to be trained with.
    feeds |= ~only_predicts & (not len(training) and len(stream.rows) == 1)
    evaluates = only_predicts | (calls_model & ~trains & ~feeds)
    end = _ends_of_ahead(marks, stream, calls_model, evaluates, begun, training)
    # A loop that is left once it has enough batches has fetched one more by then.
    more = np.flatnonzero(evaluates[:-1] & ~calls_model[1:] & ~differing(stream.epoch)[1:])
    more = more[counts(training, stream.start[more], stream.start[more + 1]) == 0]
    end[more] = np.maximum(end[more], track.end[stream.rows[more + 1]])
    parts = _iteration_parts(
        marks,
        stream.rows[evaluates],
        stream.start[evaluates],
        close[evaluates],
        stream.begin[evaluates],
        end[evaluates],
    )
    if stream.by_hand:
        # No loop is there: the pass is known by the call of the model, as where nothing says io.
        parts.site = track.site[call[evaluates]]
        parts.loader = np.full(len(parts.loader), -1, np.int64)
        if evaluates[0]:
            parts.start[0] = _begin_by_hand(marks, int(parts.start[0]), int(first[0]), training)
    return parts


def _begin_by_hand(marks: Landmarks, start: int, first: int, training: Ints) -> int:
    """When a pass begins whose batches a function makes, from ``start``, before the call ``first``, on.

    A function is known to make batches once it has made one: the call with that one comes before. In
    training mode nothing else makes it a part of the pass.
    """
    track = marks.track
    rows = marks.forward[max(first - 1, 0) : first + 1]
    if len(rows) < 2 or len(distinct(track.site[rows])) > 1 or rows[0] not in marks.training:
        return start
    begin = int(track.start[rows[0]])
    between = training[(training > begin) & (training < start)]
    return start if len(between) else begin


def _is_summed(marks: Landmarks, calls: Ints) -> Flags:
    """Which of ``calls``, one for each batch, a backward learns from together: where most learn from several.

    A call in training mode is an evaluation where the other backwards follow one call each.
    """
    learning = marks.track.start[marks.learning()]
    following = places(learning, marks.track.start[calls])
    is_summed: Flags = np.isin(calls, marks.training) & (following < len(learning))
    numbers = np.bincount(following[is_summed])
    return is_summed & bool(len(numbers) and np.median(numbers[numbers > 0]) > 1)


def _ends_of_ahead(
    marks: Landmarks,
    stream: Stream,
    calls_model: Flags,
    evaluates: Flags,
    begun: Ints,
    training: Ints,
) -> Ints:
    """For the last fetch of a loader that is one batch ahead, when the call with its batch ends; else 0.

    That call comes after the loader ran dry. ``evaluates`` is changed: the first fetch of such a pass, which
    no call follows before the next fetch, belongs to it.
    """
    track, n = marks.track, len(stream.start)
    end = np.zeros(n, np.int64)
    is_first = differing(stream.epoch)
    is_last = np.concatenate((is_first[1:], [True]))
    predictions = track.start[marks.predicting]
    # What is called after a checkpoint, or after the evaluation as it is marked, is of no batch of it.
    over = merged(track.end[marks.passes], track.start[track.region("checkpoint")])
    work = merged(begun, training, track.start[marks.fetches], over)
    next_work = next_moment(work, stream.close)
    calls_late = (
        is_last
        & ~stream.left
        & (stream.close < OPEN)
        & (counts(predictions, stream.close, next_work) > 0)
    )
    epoch = np.cumsum(is_first) - 1
    calls_late &= ~calls_model[np.flatnonzero(is_first)[epoch]]
    # A loader that is read into a list, without a call before it has run dry, is not ahead.
    is_list = (np.bincount(epoch) > 1) & (np.bincount(epoch, calls_model) == 0)
    calls_late &= ~is_list[epoch]
    late_ones = np.flatnonzero(calls_late)
    end[late_ones] = track.end[
        marks.predicting[np.searchsorted(predictions, next_work[late_ones]) - 1]
    ]
    evaluates[late_ones] = True
    without_call = np.flatnonzero(is_first & ~calls_model & ~evaluates)
    without_call = without_call[without_call + 1 < n]
    evaluates[without_call] = evaluates[without_call + 1] & ~is_first[without_call + 1]
    return end


def _iteration_parts(
    marks: Landmarks,
    rows: Ints,
    start: Ints,
    close: Ints,
    begin: Ints | None = None,
    until: Ints | None = None,
) -> PassParts:
    """A part for each fetch of ``rows``, up to its last call of a model.

    If the loader ran dry, it goes on to there, and at least to ``until``. The first fetch of a pass also
    waits for the loader to start, from ``begin`` on.
    """
    track = marks.track
    ends = track.start[marks.ends]
    next_end = places(ends, close)
    runs_dry = next_end < len(ends)
    end_row = marks.ends[np.minimum(next_end, len(ends) - 1)] if len(ends) else rows
    runs_dry &= track.start[end_row] == close if len(ends) else False
    training = merged(track.start[marks.learning()], track.start[marks.updates])
    latest = np.minimum(close, next_moment(training, start))
    end_of_calls = ends_of_calls(marks, marks.forward, latest)
    # A model may be called with a batch that was fetched before the evaluation began.
    others = marks.forward[~_learns(marks)]
    has_others = counts(track.start[others], start, latest) > 0
    end_of_calls = np.where(has_others, ends_of_calls(marks, others, latest), end_of_calls)
    end = np.where(runs_dry, track.end[end_row], end_of_calls)
    end = np.maximum(end, track.end[rows])
    if until is not None:
        end = np.maximum(end, until)
    site = track.site[rows]
    return PassParts(start if begin is None else begin, end, site, np.ones(len(rows), np.int64), runs_dry,
                  _passes_over(marks, rows), np.zeros(len(rows), np.bool_))  # fmt: skip


def ends_of_calls(marks: Landmarks, calls: Ints, moments: Ints) -> Ints:
    """When the last of ``calls`` before each of ``moments`` ended; any number if there is none."""
    if not len(calls):
        return np.zeros(len(moments), np.int64)
    last = np.maximum(places(marks.track.start[calls], moments) - 1, 0)
    ends: Ints = marks.track.end[calls[last]]
    return ends


def _learns(marks: Landmarks) -> Flags:
    """Which calls are trained with: of models in training mode, where most follow another such call, with the
    functions after them, which have no mode.

    What judges an evaluated batch is often in training mode as well, but follows the evaluated model.
    """
    has_mode = np.isin(marks.forward, merged(marks.training, marks.predicting))
    rows = marks.forward[has_mode]
    trains = np.isin(rows, marks.training)
    follows = np.concatenate(([False], trains[:-1]))[: len(rows)]
    site = marks.track.site[rows]
    calls = np.bincount(site)
    sites = np.flatnonzero(2 * np.bincount(site, follows & trains, len(calls)) > calls)
    # Index -1, of what no call with a mode precedes, reads the last one.
    learns: Flags = np.append(trains & among(site, sites), False)[np.cumsum(has_mode) - 1]
    return learns


def _passes_over(marks: Landmarks, rows: Ints) -> Ints:
    """For each fetch a number: its loader's times :data:`MOST_PASSES`, plus its begins and ends before."""
    track = marks.track
    names = numbers_of((site.object_id, site.place) for site in track.sites.values())
    name = track.table(lambda site: names[site.object_id, site.place], rows)
    begins_and_ends = merged(marks.starts, marks.ends)
    loader_of, their_loader = (
        track.table(object_number, loader) for loader in (rows, begins_and_ends)
    )
    before = np.zeros(len(rows), np.int64)
    for loader in {object_number(track.sites[number]) for number in kinds_of(track.site[rows])}:
        of_loader = loader_of == loader
        before[of_loader] = np.searchsorted(
            begins_and_ends[their_loader == loader], rows[of_loader]
        )
    numbers: Ints = name * MOST_PASSES + before
    return numbers


def _model_parts(marks: Landmarks, steps: TrackSteps) -> PassParts:
    """Calls of models that are not trained at that moment."""
    track, rows = marks.track, evaluating_calls(marks, steps)
    no_flags = np.zeros(len(rows), np.bool_)
    begins = begins_of_calls(marks, rows, has_steps=len(steps) > 0)
    return PassParts(track.start[rows], _until_computed(marks, rows), track.site[rows],
                     np.full(len(rows), 2, np.int64), no_flags, np.full(len(rows), -1, np.int64),
                     begins)  # fmt: skip


def _until_computed(marks: Landmarks, rows: Ints) -> Ints:
    """When the calls ``rows`` end, with the wait for what they compute.

    The program waits for it right away: nothing else is begun before, and the wait takes longest.
    """
    track = marks.track
    end, syncs = track.end[rows], track.region("sync")
    if not len(syncs):
        return end
    following = places(track.start[syncs], end)
    sync = syncs[np.minimum(following, len(syncs) - 1)]
    begun = [marks.forward, marks.fetches, marks.starts, marks.backward, marks.updates, marks.steps]
    work = np.sort(track.start[np.concatenate(begun)])
    is_next = (following < len(syncs)) & (track.start[sync] < next_moment(work, end))
    is_next &= track.start[sync] - end <= track.end[sync] - track.start[sync]
    return np.where(is_next, track.end[sync], end)
