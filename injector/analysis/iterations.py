"""Steps out of the iterations of loaders.

An iteration is one fetch and all that follows it, up to the next fetch (:mod:`.loaders`). A step is one
iteration, or several where gradients are accumulated: it ends with the iteration that holds the update::

    io forward backward | io forward backward optimizer | io forward backward | io forward ...
    `-- iteration 0 ---'  `------- iteration 1 -------'
    `------------------ step 0 -----------------------'   `------- step 1 -------------------

Iterations that only evaluate, in a loop that is used for both, are no parts of steps. Loaders that are drawn
from in no fixed order pace one loop together.
"""

from __future__ import annotations

import numpy as np

from .arrays import (
    OPEN,
    among,
    counts,
    differing,
    distinct,
    kinds_of,
    median_of,
    merged,
    numbered_kinds,
    owners,
    places,
)
from .columns import Flags, Ints
from .landmarks import Landmarks
from .loaders import Loaders, Stream, share_out
from .read_ahead import fetched_only, take_ahead
from .steps import StepPacing, TrackSteps, joined, no_steps, pace_of
from .tracks import Track

_ROUNDS = 8
"""How many pairs of loaders are merged at most."""
_USUAL = 0.5
"""A call that this fraction of the iterations with an update makes is a part of steps."""
_REPEATED = 3
"""The least updates after a loader ran dry from which on its batches are repeated."""
_NEARLY = 0.75
"""Fraction of the steps with equally many batches from which on all are meant to have so many."""


class LoaderIterations:
    """The steps that loaders pace on one track, and what belongs to none of them."""

    def __init__(self, marks: Landmarks) -> None:
        self.marks = marks
        self.steps = no_steps()
        self.free = marks.updates
        """The rows of updates that belong to no iteration."""
        self.pacing: Ints = marks.fetches[:0]
        """The rows of fetches from loaders that pace steps."""
        self.evaluating: list[tuple[Ints, Ints]] = []
        """Iterations of such loaders that only evaluate: for each loader their starts and ends."""
        if len(marks.fetches) and len(marks.updates):
            self._find(Loaders(marks))

    def _find(self, loaders: Loaders) -> None:
        """Find the steps; loaders whose steps overlap again and again become one, and all is divided anew."""
        merged: list[frozenset[int]] = []
        for _ in range(_ROUNDS):
            streams = [stream for stream in loaders.streams(merged) if not stream.by_hand]
            parts = self._divide(streams)
            entangled = _entangled(parts)
            if entangled is None:
                break
            # Two loaders that take turns in no fixed order are one stream of batches.
            a, b = (streams[number].keys for number in entangled)
            merged = [group for group in merged if not group & (a | b)] + [a | b]
        self.steps = joined([part for part in parts if len(part)])

    def _divide(self, streams: list[Stream]) -> list[TrackSteps]:
        """The steps of each stream, no update in two. Sets ``free``, ``pacing`` and ``evaluating``."""
        track, updates = self.marks.track, self.marks.updates
        stream_of_update, iterations = share_out(streams, track, updates)
        for number, stream in enumerate(streams):
            own = stream_of_update == number
            if own.any() and _looks_only(stream, self.marks):
                stream_of_update[own] = -1
        self.evaluating, pacing_rows, steps = [], [], []
        training_starts = [
            stream.start for n, stream in enumerate(streams) if (stream_of_update == n).any()
        ]
        training_fetches = merged(*training_starts) if training_starts else self.marks.fetches[:0]
        for number, stream in enumerate(streams):
            if not (stream_of_update == number).any():
                steps.append(no_steps())
                continue
            _take_leftovers(stream, track, self.marks, stream_of_update, number, iterations[number])
            iterations[number] = take_ahead(
                stream, self.marks, stream_of_update, number, iterations[number], training_fetches
            )
            if _is_repeated(stream, self.marks, stream_of_update == number, stream_of_update == -1):
                stream_of_update[stream_of_update == number] = -1
                steps.append(no_steps())
                continue
            pacing_rows.append(stream.rows)
            steps.append(
                self._steps_of(
                    stream, iterations[number], stream_of_update == number, stream_of_update == -1
                )
            )
        self.free = updates[stream_of_update == -1]
        self.pacing = merged(*pacing_rows) if pacing_rows else self.marks.fetches[:0]
        return steps

    def _steps_of(self, stream: Stream, iteration: Ints, mine: Flags, free: Flags) -> TrackSteps:
        """The steps of one stream.

        ``iteration`` says for each update in which iteration of the stream it lies, ``mine`` whether it
        belongs to the stream, and ``free`` whether it belongs to none.
        """
        track, updates = self.marks.track, self.marks.updates
        mine = mine & (iteration >= 0)
        updates_of = np.bincount(iteration[mine], minlength=len(stream.start))
        last_update = np.zeros(len(stream.start), np.int64)
        last_update[iteration[mine]] = track.end[updates[mine]]  # the last of each iteration stays
        # What comes after a loop that was left by break does not belong to its last step.
        ends_with_update = (stream.close == OPEN) | (stream.left & (updates_of > 0))
        close = np.where(ends_with_update, np.maximum(last_update, stream.start), stream.close)
        # Nor does what follows in an iteration whose later updates something else paces, such as a second
        # stage of training without a loader.
        free_updates = updates[(iteration >= 0) & free]
        if len(free_updates):
            goes_on_elsewhere = counts(track.start[free_updates], last_update, close) > 0
            close = np.where(goes_on_elsewhere & (updates_of > 0), last_update, close)
        # A loop that was left with the last batch of its evaluation has no end.
        if stream.close[-1] == OPEN and updates_of[-1] == 0:
            close[-1] = OPEN
        evaluates = self._evaluating(stream.start, close, updates_of)
        evaluates[-1] &= close[-1] < OPEN or bool(evaluates[:-1][-1:].any())
        self.evaluating.append((stream.start[evaluates], close[evaluates]))
        ahead = fetched_only(stream, self.marks)
        return _steps_of_iterations(
            stream, close, updates_of, ~evaluates, ahead, self._paces(stream)
        )

    def _evaluating(self, start: Ints, close: Ints, updates: Ints) -> Flags:
        """Which iterations only evaluate: the same loop may serve both, switching the model's mode."""
        marks, track = self.marks, self.marks.track
        if not len(marks.predicting):
            return np.zeros(len(start), np.bool_)
        has_backward = counts(track.start[marks.backward], start, close) > 0
        has_training = counts(track.start[marks.training], start, close) > 0
        # Batches whose outputs are kept without gradients, until several are learnt from together, are called
        # where each step calls its own: at one line, in training mode.
        rows = marks.predicting
        iteration = owners(start, close, track.start[rows])
        trains = np.append((updates > 0) & has_backward, False)
        shared = [
            site
            for site in kinds_of(track.site[rows[trains[iteration]]])
            if track.sites[site].phase == "predict"
            and len(distinct(iteration[trains[iteration] & (track.site[rows] == site)]))
            >= _USUAL * trains.sum()
        ]
        rows = rows[~among(track.site[rows], shared)]
        predicts = counts(track.start[rows], start, close) > 0
        only_evaluates: Flags = (updates == 0) & predicts & ~has_backward & ~has_training
        return only_evaluates

    def _paces(self, stream: Stream) -> tuple[Ints, list[StepPacing]]:
        """The index of each iteration's pace, and the paces.

        Fetches from one stream may stand at several lines: a loop that fetches its first batch apart. Those
        that come by turns, and single ones, count as fetches at the line that has the most.
        """
        track = self.marks.track
        sites, line_of = numbered_kinds(track.site[stream.rows])
        paces = [pace_of(track.sites[site], "loader") for site in sites]
        if len(sites) == 1:
            return line_of, paces
        times = np.bincount(line_of)
        first = np.array([stream.start[line_of == line][0] for line in range(len(sites))])
        last = np.array([stream.start[line_of == line][-1] for line in range(len(sites))])
        leader = np.arange(len(sites))
        for line in np.argsort(-times, kind="stable").tolist():
            if leader[line] != line:
                continue
            # Their fetches overlap in time, or there is one only. A line that is used later is another
            # loop.
            joins = (first <= last[line]) & (last >= first[line]) | (times < 2)
            leader[joins & (leader == np.arange(len(sites)))] = line
        return leader[line_of], paces


def _looks_only(stream: Stream, marks: Landmarks) -> bool:
    """Whether a model in evaluation mode predicts with each batch of ``stream`` first, and nothing is trained
    with most of them.

    Such a loader serves an evaluation that is left early: its last iteration, in which updates lie, goes on
    until the next evaluation.
    """
    track = marks.track
    calls = merged(marks.predicting, marks.training)
    if not len(calls):
        return False
    first = calls[np.minimum(places(track.start[calls], stream.start), len(calls) - 1)]
    evaluates = track.table(lambda site: site.phase == "eval", first) == 1
    predicts = evaluates & (track.start[first] >= stream.start)
    predicts &= track.start[first] < stream.close
    training = merged(track.start[marks.training], track.start[marks.backward])
    trains = counts(training, stream.start, stream.close) > 0
    return bool(predicts.all()) and 2 * np.count_nonzero(trains) <= len(stream.start)


def _is_repeated(stream: Stream, marks: Landmarks, is_own: Flags, is_free: Flags) -> bool:
    """Whether the updates ``is_own`` of ``stream`` go on as they were, ``is_free``, after it has run dry for
    good: ``itertools.cycle`` repeats the batches that it kept. Then the updates pace the whole loop.
    """
    track, dry = marks.track, stream.close[-1]
    own = marks.updates[is_own]
    free = marks.updates[is_free & (track.start[marks.updates] >= dry)]
    if dry == OPEN or stream.left[-1] or stream.epoch[0] != stream.epoch[-1]:
        return False
    if len(free) < _REPEATED or not among(track.site[free], kinds_of(track.site[own])).all():
        return False
    learnt = marks.backward[track.start[marks.backward] >= stream.start[0]]
    is_after = track.start[learnt] >= dry
    known = kinds_of(track.site[learnt[~is_after]])
    return bool(among(track.site[learnt[is_after]], known).all())


def _take_leftovers(
    stream: Stream, track: Track, marks: Landmarks, best: Ints, stream_number: int, iteration: Ints
) -> None:
    """Give the last iterations of an epoch the update that comes after the loop, outside of any iteration.

    Where gradients are accumulated, what is left at the end of an epoch is often updated for after the loader
    ran dry. Changes ``best`` (to which stream each update belongs), ``iteration`` and the iterations of
    ``stream``.
    """
    free = np.flatnonzero(best == -1)
    if not len(free):
        return
    rows = marks.updates[free]
    moments = track.start[rows]
    last = places(stream.start, moments, "right") - 1
    updates_in = np.bincount(
        iteration[(best == stream_number) & (iteration >= 0)], minlength=len(stream.start)
    )
    is_leftover = (last >= 0) & (updates_in[last] == 0) & (moments >= stream.close[last])
    # Without a backward in that iteration, there is nothing left to update for.
    if len(marks.backward):
        is_leftover &= counts(track.start[marks.backward], stream.start, stream.close)[last] > 0
    is_first = differing(last)
    for which in np.flatnonzero(is_leftover & is_first).tolist():
        at = last[which]
        if stream.close[at] != OPEN and updates_in.any():
            best[free[which]], iteration[free[which]] = stream_number, at
            stream.close[at] = track.end[rows[which]]


def _steps_of_iterations(
    stream: Stream,
    close: Ints,
    updates: Ints,
    usable: Flags,
    ahead: Flags,
    paces: tuple[Ints, list[StepPacing]],
) -> TrackSteps:
    """Steps of one iteration or more each: an update belongs to all batches since the update before it.

    ``close`` is where each iteration ends, ``updates`` how many it holds. Those that are ``usable`` do
    not only evaluate; those that are ``ahead`` only fetched a batch for the next one.
    """
    iterations = np.flatnonzero(usable)
    with_update = np.flatnonzero(updates[iterations] > 0)
    if not len(with_update):
        return no_steps()
    last_iterations = iterations[with_update]
    # The step that each iteration belongs to: that of the next one with an update.
    step = places(with_update, np.arange(len(iterations)))
    kept = step < len(with_update)
    iterations, step = iterations[kept], step[kept]
    if len(iterations) > len(with_update):
        same_epoch = stream.epoch[iterations] == stream.epoch[last_iterations][step]
        has_batch = ~ahead[iterations]
        all_batches = np.bincount(step[has_batch], minlength=len(with_update))
        batches_of_epoch = np.bincount(step[same_epoch & has_batch], minlength=len(with_update))
        usual = median_of(
            all_batches
            if _steady(all_batches) and not _steady(batches_of_epoch)
            else batches_of_epoch
        )
        # Batches left at the end of an epoch belong to no step, unless the first step of the next epoch makes
        # do with that many fewer of its own: then gradients were accumulated across the end.
        across = (batches_of_epoch < usual) & (all_batches <= usual)
        kept = same_epoch | across[step]
        iterations, step = iterations[kept], step[kept]
    fetches = np.bincount(step, stream.fetched[iterations]).astype(np.int64)
    first = iterations[places(step, np.arange(len(with_update)))]
    return TrackSteps(
        stream.start[first],
        close[last_iterations],
        paces[0][last_iterations],
        fetches,
        updates[last_iterations],
        paces[1],
    )


def _steady(numbers: Ints) -> bool:
    """Whether nearly all of the numbers are the same."""
    return bool(np.mean(numbers == median_of(numbers)) >= _NEARLY)


def _entangled(parts: list[TrackSteps]) -> tuple[int, int] | None:
    """The indices of two streams whose steps overlap again and again, those that do so most; None if there
    are none.

    Such are loaders that are drawn from in turns, or at random.
    """
    with_steps = [number for number, part in enumerate(parts) if len(part)]
    if len(with_steps) < 2:
        return None
    stream = np.concatenate([np.full(len(parts[number]), number) for number in with_steps])
    start = np.concatenate([parts[number].start for number in with_steps])
    end = np.concatenate([parts[number].end for number in with_steps])
    order = np.argsort(start, kind="stable")
    stream, start, end = stream[order], start[order], end[order]
    overlaps = (start[1:] < end[:-1]) & (stream[1:] != stream[:-1])
    if not overlaps.any():
        return None
    pairs = np.stack((stream[:-1][overlaps], stream[1:][overlaps]), 1)
    pairs.sort(axis=1)
    distinct_pairs, times = np.unique(pairs, axis=0, return_counts=True)
    a, b = distinct_pairs[times.argmax()].tolist()
    smaller = min(len(parts[a]), len(parts[b]))
    return (a, b) if times.max() >= max(2, 0.01 * smaller) else None
