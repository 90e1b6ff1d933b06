"""Steps: what they are made of before anything is measured in them, and those that optimizers pace."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..store.call_sites import CallSite, SourceLine
from ..value_class import field, state_class
from .arrays import ExcludedIntervals, counts, kinds_of, median_of, merged, places, runs
from .columns import Ints
from .tracks import Landmarks, Track


class StepPacing(NamedTuple):
    """What makes steps of one loop: a loader, an optimizer, or a voirfile's word."""

    task: str
    paced_by: str
    place: SourceLine | None
    object_id: int | None = None
    what: str | None = None


@state_class
class TrackSteps:
    """The steps of one track in order; none overlaps another."""

    start: Ints
    end: Ints
    pace: Ints
    """Which of ``paces``."""
    fetches: Ints
    updates: Ints
    paces: list[StepPacing] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: Ints) -> TrackSteps:
        """Those of the given numbers, or flags."""
        return TrackSteps(
            self.start[which],
            self.end[which],
            self.pace[which],
            self.fetches[which],
            self.updates[which],
            self.paces,
        )


def no_steps() -> TrackSteps:
    """None at all."""
    none = np.empty(0, np.int64)
    return TrackSteps(none, none, none, none, none, [])


def joined(parts: list[TrackSteps]) -> TrackSteps:
    """All of ``parts`` in the order of time, each ended where the next begins at the latest."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return no_steps()
    offsets = np.cumsum([0, *(len(part.paces) for part in parts[:-1])])
    start, end, pace, fetches, updates = (
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.end for part in parts]),
        np.concatenate([part.pace + offset for part, offset in zip(parts, offsets, strict=True)]),
        np.concatenate([part.fetches for part in parts]),
        np.concatenate([part.updates for part in parts]),
    )
    paces = [each for part in parts for each in part.paces]
    whole = TrackSteps(start, end, pace, fetches, updates, paces)
    if len(parts) > 1:
        whole = whole.take(np.lexsort((whole.end, whole.start)))
    whole.end[:-1] = np.minimum(whole.end[:-1], whole.start[1:])
    return whole


def pace_of(site: CallSite, paced_by: str) -> StepPacing:
    """The pace that the spans of ``site`` set."""
    return StepPacing(site.task or "train", paced_by, site.place, site.object_id, site.label)


MANY = 64
"""Optimizers beyond which those at one line count as one."""
_LONG = 8
"""Updates in a row by each of two optimizers that take turns as stages, not as parts of a step."""
PAUSE = 5.0
"""Median steps that what precedes an update, and is none of its work, lasts where it is no part of it."""


def paced_by_updates(marks: Landmarks, free: Ints) -> TrackSteps:
    """The steps that the updates ``free`` (rows, in order) make."""
    track = marks.track
    if not len(free):
        return no_steps()
    key = _optimizer_keys(track, free)
    found = []
    for group in _groups(key):
        mine = np.isin(key, group)
        found.append(_of_group(track, free[mine], key[mine]))
    steps = joined(found)
    steps.start[1:] = steps.end[:-1]
    return steps


def _optimizer_keys(track: Track, rows: Ints) -> Ints:
    """A number for each update by which optimizer is stepped where."""
    sites = kinds_of(track.site[rows])
    made = {n: (track.sites[n].object_id, track.sites[n].place) for n in sites}
    if len(set(made.values())) > MANY:
        made = {n: (None, place) for n, (_, place) in made.items()}
    numbers = list(dict.fromkeys(made.values()))
    return track.table(
        lambda site: numbers.index(made[site.number]) if site.number in made else -1, rows
    )


def _groups(key: Ints) -> list[list[int]]:
    """Which optimizers take turns within one loop."""
    kinds = kinds_of(key)
    positions = {kind: np.flatnonzero(key == kind) for kind in kinds}
    leader = {kind: kind for kind in kinds}
    for i, a in enumerate(kinds):
        for b in kinds[i + 1 :]:
            if leader[a] != leader[b] and _alternate(positions[a], positions[b]):
                old, new = leader[b], leader[a]
                leader = {kind: new if to == old else to for kind, to in leader.items()}
    return [[kind for kind in kinds if leader[kind] == top] for top in set(leader.values())]


def _alternate(a: Ints, b: Ints) -> bool:
    """Whether the updates at the positions ``a`` and ``b`` belong to the iterations of one loop."""
    if a[-1] < b[0] or b[-1] < a[0]:
        return False
    order = np.argsort(np.concatenate((a, b)), kind="stable")
    who = (order >= len(a)).astype(np.int64)
    first, length = runs(who)
    return bool(min(np.median(length[who[first] == side]) for side in (0, 1)) <= _LONG)


def _of_group(track: Track, rows: Ints, key: Ints) -> TrackSteps:
    """One loop's steps, by their ends; where they begin is found out later."""
    kinds, first, number = np.unique(key, return_index=True, return_counts=True)
    fewest = number == number.min()
    closing = kinds[fewest][first[fewest].argmax()]
    mine = key == closing
    ends = np.flatnonzero(mine)
    if len(kinds) > 1 and np.median(runs(key)[1][key[runs(key)[0]] == closing]) > 1:
        ends = np.flatnonzero(mine & np.concatenate((key[1:] != closing, [True])))
    end = track.end[rows[ends]]
    start = track.start[rows[ends]]
    updates = np.diff(np.concatenate(([-1], ends)))
    site = track.sites[int(track.site[rows[ends[0]]])]
    zeros = np.zeros(len(end), np.int64)
    paces: list[StepPacing] = [pace_of(site, "optimizer")]
    return TrackSteps(start, end, zeros, zeros.copy(), updates, paces)


def bounded(
    marks: Landmarks, steps: TrackSteps, others: TrackSteps, excluded: ExcludedIntervals
) -> TrackSteps:
    """``steps`` that begin where their own work does, where something else lies in between.

    That is so for the first of a loop, after steps of ``others``, and where what precedes the first
    part of a step lasts long and has more than twice the usual calls: an agent plays its environment. An
    iteration that is only slow is a slow step, also where an agent acts a few times in each.
    """
    if not len(steps):
        return steps
    track = marks.track
    previous = np.concatenate(([np.iinfo(np.int64).min], steps.end[:-1]))
    fresh = np.concatenate(([True], steps.pace[1:] != steps.pace[:-1]))
    if len(others):
        last = places(others.start, steps.end) - 1
        limit = np.where(last >= 0, others.end[last], previous)
        fresh |= limit > previous
        previous = np.maximum(previous, limit)
    start = np.maximum(steps.start, previous)
    work = _work(marks, np.where(fresh, previous, start), steps.end, excluded)
    # What lies between an evaluation and a step's own work is part of neither.
    fresh |= excluded.within(start, work) > 0
    start = np.where(fresh, work, start)
    length = steps.end - start - excluded.within(start, steps.end)
    for number in range(len(steps.paces)):
        mine = np.flatnonzero((steps.pace == number) & ~fresh)
        if len(mine) < 3:
            continue
        lead = work[mine] - start[mine] - excluded.within(start[mine], work[mine])
        calls = counts(track.start, start[mine], work[mine])
        long = lead > PAUSE * median_of(length[mine])
        late = mine[long & (calls > 2 * median_of(calls))]
        start[late] = work[late]
    return TrackSteps(
        np.minimum(start, lane_start(track, marks, steps)),
        steps.end,
        steps.pace,
        steps.fetches,
        steps.updates,
        steps.paces,
    )


def lane_start(track: Track, marks: Landmarks, steps: TrackSteps) -> Ints:
    """When the update that ends each step began: no step begins later."""
    rows = marks.updates
    found: Ints = track.start[rows[places(track.end[rows], steps.end)]]
    return found


def _work(marks: Landmarks, since: Ints, until: Ints, excluded: ExcludedIntervals) -> Ints:
    """Where in each interval the training's own work begins.

    That is the call of a model which leads to the first backward, so that calls whose results are
    only played with (an agent's) are no part of it.
    """
    track = marks.track
    found: Ints = until.copy()
    called = marks.trained if len(marks.trained) else marks.learnt
    others = track.region("h2d", "gradients")
    rows = merged(called, marks.backward, marks.updates, marks.fetches, others)
    start = track.start[rows]
    rows = rows[~excluded.hold(start)]
    start = track.start[rows]
    first = places(start, since)
    some = first < len(rows)
    found[some] = np.minimum(start[first[some]], until[some])
    if not len(rows) or not len(marks.backward) or len(marks.trained):
        return found
    back = track.start[marks.backward]
    at = places(back, since)
    some = at < len(back)
    leads = np.where(some, back[np.minimum(at, len(back) - 1)], until)
    leads = np.minimum(leads, until)
    usual = median_of(leads - found)
    # The first work that is about as far from its backward as usual.
    close = np.searchsorted(start, leads - np.int64(2 * usual) - 1)
    near = np.where(close < len(start), start[np.minimum(close, len(start) - 1)], until)
    late = leads - found > 4 * usual
    found[late] = np.clip(near, found, leads)[late]
    return found
