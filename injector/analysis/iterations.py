"""Steps out of the iterations of loaders: which iterations make one step, and where it begins and ends."""

from __future__ import annotations

import numpy as np

from .arrays import counts, median_of, merged, numbered_kinds, places
from .columns import Flags, Ints
from .loaders import OPEN, Loaders, Stream, fetched_only, share_out, take_ahead
from .steps import StepPacing, TrackSteps, joined, no_steps, pace_of
from .tracks import Landmarks, Track

_ROUNDS = 8
_NEARLY = 0.75
"""Fraction of the steps that have equally many batches where that is the program's way."""


class LoaderIterations:
    """The steps that loaders pace in a track."""

    def __init__(self, marks: Landmarks) -> None:
        self.marks = marks
        self.steps = no_steps()
        self.free = marks.updates
        """The updates that belong to no iteration."""
        self.pacing: Ints = marks.fetches[:0]
        """The fetches of the loaders that pace."""
        self.tried: list[tuple[Ints, Ints]] = []
        """Iterations of such loaders in which something was evaluated: starts and ends."""
        if len(marks.fetches) and len(marks.updates):
            self._find(Loaders(marks))

    def _find(self, loaders: Loaders) -> None:
        merged: list[frozenset[int]] = []
        for _ in range(_ROUNDS):
            streams = [each for each in loaders.streams(merged) if not each.by_hand]
            parts = self._divide(streams)
            both = _entangled(parts)
            if both is None:
                break
            # Two loaders that take turns in no fixed order are one stream of batches.
            a, b = (streams[number].keys for number in both)
            merged = [group for group in merged if not group & (a | b)] + [a | b]
        self.steps = joined([part for part in parts if len(part)])

    def _divide(self, streams: list[Stream]) -> list[TrackSteps]:
        track, updates = self.marks.track, self.marks.updates
        best, iterations = share_out(streams, track, updates)
        self.tried, pacing, found = [], [], []
        driving = [each.start for n, each in enumerate(streams) if (best == n).any()]
        fetches = merged(*driving) if driving else self.marks.fetches[:0]
        for number, stream in enumerate(streams):
            if not (best == number).any():
                found.append(no_steps())
                continue
            _take_leftovers(stream, track, self.marks, best, number, iterations[number])
            pacing.append(stream.rows)
            iterations[number] = take_ahead(
                stream, self.marks, best, number, iterations[number], fetches
            )
            found.append(self._of_stream(stream, iterations[number], best == number, best == -1))
        self.free = updates[best == -1]
        self.pacing = merged(*pacing) if pacing else self.marks.fetches[:0]
        return found

    def _of_stream(self, stream: Stream, iteration: Ints, mine: Flags, free: Flags) -> TrackSteps:
        track, updates = self.marks.track, self.marks.updates
        mine = mine & (iteration >= 0)
        number = np.bincount(iteration[mine], minlength=len(stream.start))
        last_update = np.zeros(len(stream.start), np.int64)
        last_update[iteration[mine]] = track.end[updates[mine]]  # in order: the last one stays
        # What comes after a loop that was left early is none of its last step.
        early = (stream.close == OPEN) | (stream.left & (number > 0))
        close = np.where(early, np.maximum(last_update, stream.start), stream.close)
        # A iteration that nothing ended, and whose later updates are paced by something else.
        others = updates[(iteration >= 0) & free]
        if len(others):
            cut = counts(track.start[others], last_update, close) > 0
            close = np.where(cut & (number > 0), last_update, close)
        tried = self._evaluating(stream.start, close, number)
        self.tried.append((stream.start[tried], close[tried]))
        ahead = fetched_only(stream, self.marks)
        return _join(stream, close, number, ~tried, ahead, self._paces(stream))

    def _evaluating(self, start: Ints, close: Ints, updates: Ints) -> Flags:
        """The iterations that only evaluate: the same loop is used for both."""
        marks, track = self.marks, self.marks.track
        if not len(marks.tried):
            return np.zeros(len(start), np.bool_)
        here = counts(track.start[marks.tried], start, close) > 0
        trains = counts(track.start[marks.backward], start, close) > 0
        learns = counts(track.start[marks.trained], start, close) > 0
        only: Flags = (updates == 0) & here & ~trains & ~learns
        return only

    def _paces(self, stream: Stream) -> tuple[Ints, list[StepPacing]]:
        """For each iteration what paces it: fetches at several lines by turns are one loop."""
        track = self.marks.track
        sites, which = numbered_kinds(track.site[stream.rows])
        paces = [pace_of(track.sites[site], "loader") for site in sites]
        if len(sites) == 1:
            return which, paces
        number = np.bincount(which)
        first = np.array([stream.start[which == i][0] for i in range(len(sites))])
        last = np.array([stream.start[which == i][-1] for i in range(len(sites))])
        leader = np.arange(len(sites))
        for i in np.argsort(-number, kind="stable").tolist():
            if leader[i] != i:
                continue
            same = (first <= last[i]) & (last >= first[i]) | (number < 2)
            leader[same & (leader == np.arange(len(sites)))] = i
        return leader[which], paces


def _take_leftovers(
    stream: Stream, track: Track, marks: Landmarks, best: Ints, number: int, iteration: Ints
) -> None:
    """Give the last iterations before a loader ran dry the update that follows their loop.

    Changes ``best``, ``iteration`` and the iterations of ``stream``.
    """
    free = np.flatnonzero(best == -1)
    if not len(free):
        return
    updates = marks.updates[free]
    moments = track.start[updates]
    last = places(stream.start, moments, "right") - 1
    held = np.bincount(iteration[(best == number) & (iteration >= 0)], minlength=len(stream.start))
    after = (last >= 0) & (held[last] == 0) & (moments >= stream.close[last])
    if len(marks.backward):
        after &= counts(track.start[marks.backward], stream.start, stream.close)[last] > 0
    fresh = np.concatenate(([True], last[1:] != last[:-1]))
    for each in np.flatnonzero(after & fresh).tolist():
        at = last[each]
        if stream.close[at] != OPEN and held.any():
            best[free[each]], iteration[free[each]] = number, at
            stream.close[at] = track.end[updates[each]]


def _join(
    stream: Stream,
    close: Ints,
    number: Ints,
    usable: Flags,
    ahead: Flags,
    paces: tuple[Ints, list[StepPacing]],
) -> TrackSteps:
    """Steps of one iteration or more each: an update belongs to all the batches since the last one.

    ``ahead`` are the iterations that only fetched, for the next one.
    """
    iterations = np.flatnonzero(usable)
    trained = np.flatnonzero(number[iterations] > 0)
    if not len(trained):
        return no_steps()
    ends = iterations[trained]
    group = places(trained, np.arange(len(iterations)))  # the step each iteration belongs to
    kept = group < len(trained)
    iterations, group = iterations[kept], group[kept]
    if len(iterations) > len(trained):
        same = stream.epoch[iterations] == stream.epoch[ends][group]
        batches = ~ahead[iterations]
        whole = np.bincount(group[batches], minlength=len(trained))
        alike = np.bincount(group[same & batches], minlength=len(trained))
        usual = median_of(whole if _steady(whole) and not _steady(alike) else alike)
        # What was left of an epoch goes on in the next one where the update comes that much earlier.
        across = (alike < usual) & (whole <= usual)
        kept = same | across[group]
        iterations, group = iterations[kept], group[kept]
    size = np.bincount(group, stream.fetched[iterations]).astype(np.int64)  # fetches of each
    first = iterations[places(group, np.arange(len(trained)))]
    return TrackSteps(
        stream.start[first], close[ends], paces[0][ends], size, number[ends], paces[1]
    )  # fmt: skip


def _steady(number: Ints) -> bool:
    """Whether nearly all are the same."""
    return bool(np.mean(number == median_of(number)) >= _NEARLY)


def _entangled(parts: list[TrackSteps]) -> tuple[int, int] | None:
    """Two streams whose steps overlap again and again."""
    filled = [number for number, part in enumerate(parts) if len(part)]
    if len(filled) < 2:
        return None
    stream = np.concatenate([np.full(len(parts[number]), number) for number in filled])
    start = np.concatenate([parts[number].start for number in filled])
    end = np.concatenate([parts[number].end for number in filled])
    order = np.argsort(start, kind="stable")
    stream, start, end = stream[order], start[order], end[order]
    over = (start[1:] < end[:-1]) & (stream[1:] != stream[:-1])
    if not over.any():
        return None
    pairs = np.stack((stream[:-1][over], stream[1:][over]), 1)
    pairs.sort(axis=1)
    found, times = np.unique(pairs, axis=0, return_counts=True)
    a, b = found[times.argmax()].tolist()
    smaller = min(len(parts[a]), len(parts[b]))
    return (a, b) if times.max() >= max(2, 0.01 * smaller) else None
