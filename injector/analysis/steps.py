"""The steps of one track, and how updates of optimizers make steps where no loader paces them.

Where batches come from no loader that is known (``get_batch()``, an environment), the updates themselves say
where steps end::

    forward backward update D   forward backward update G   forward backward update D ...
    `--------------------- step 0 ----------------------'   `-------------------- step 1

Optimizers that take turns, as in a GAN, make one step together; the one that comes last in a turn ends it.
Where a step begins is found afterwards (:mod:`.step_begins`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..store.call_sites import CallSite, SourceLine
from ..value_class import field, replace, state_class
from .arrays import (
    kinds_of,
    owners,
    runs,
    stacked,
    taken,
)
from .columns import Ints
from .landmarks import Landmarks
from .tracks import Track


class StepPacing(NamedTuple):
    """What paces the steps of one loop: a loader, an optimizer, or the steps that a voirfile marks."""

    task: str
    paced_by: str
    """``loader``, ``optimizer``, ``step`` (by a voirfile), or of inference ``call``."""
    place: SourceLine | None
    object_id: int | None = None
    what: str | None = None
    """What the program calls that object: the label of its call site."""


@state_class
class TrackSteps:
    """The steps of one track in the order of time, as columns. They do not overlap."""

    start: Ints
    """Unix nanoseconds, as is ``end``."""
    end: Ints
    pace: Ints
    """For each step the index of what paces it in ``paces``."""
    fetches: Ints
    """How many batches each step fetched from the loader that paces it."""
    updates: Ints
    """How many updates of optimizers each step holds."""
    paces: list[StepPacing] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.start)

    def rows_inside(self, track: Track, rows: Ints) -> tuple[Ints, Ints]:
        """Those of ``rows`` of the track that begin in a step, and the step of each."""
        step = owners(self.start, self.end, track.start[rows])
        return rows[step >= 0], step[step >= 0]


def no_steps() -> TrackSteps:
    none = np.empty(0, np.int64)
    return TrackSteps(none, none, none, none, none, [])


def joined(parts: list[TrackSteps]) -> TrackSteps:
    """All steps of ``parts`` in the order of time. A step that overlaps the next ends where that begins."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return no_steps()
    offsets = np.cumsum([0, *(len(part.paces) for part in parts[:-1])])
    numbered = [
        replace(part, pace=part.pace + offset) for part, offset in zip(parts, offsets, strict=True)
    ]
    steps = replace(stacked(numbered), paces=[pace for part in parts for pace in part.paces])
    if len(parts) > 1:
        steps = taken(steps, np.lexsort((steps.end, steps.start)))
    steps.end[:-1] = np.minimum(steps.end[:-1], steps.start[1:])
    return steps


def pace_of(site: CallSite, paced_by: str) -> StepPacing:
    """How the steps that the spans of ``site`` make are paced."""
    return StepPacing(site.task or "train", paced_by, site.place, site.object_id, site.label)


MANY = 64
"""Up to this number, optimizers that are stepped at one line are kept apart; more count as one."""
_LONG = 8
"""Two optimizers take turns within a step if the median run of updates by either is at most this long."""


def paced_by_updates(marks: Landmarks, free: Ints) -> TrackSteps:
    """The steps that the updates ``free`` make: rows, in order, that no loader's iteration holds.

    Each step begins where the one before it ended; :func:`.step_begins.bounded` corrects that.
    """
    track = marks.track
    if not len(free):
        return no_steps()
    key = _optimizer_keys(track, free)
    parts = []
    for group in _groups(key):
        in_group = np.isin(key, group)
        parts.append(_steps_of_group(track, free[in_group], key[in_group]))
    steps = joined(parts)
    steps.start[1:] = steps.end[:-1]
    return steps


def _optimizer_keys(track: Track, rows: Ints) -> Ints:
    """For each update a number for its optimizer and the line at which it is stepped."""
    sites = kinds_of(track.site[rows])
    keys = {n: (track.sites[n].object_id, track.sites[n].place) for n in sites}
    # An optimizer made anew for each fold or task goes on with the same loop.
    if len(set(keys.values())) > MANY:
        keys = {n: (None, place) for n, (_, place) in keys.items()}
    distinct_keys = list(dict.fromkeys(keys.values()))
    key = track.table(
        lambda site: distinct_keys.index(keys[site.number]) if site.number in keys else -1, rows
    )
    for optimizer in {optimizer for optimizer, _ in distinct_keys if optimizer is not None}:
        own = [number for number, (other, _) in enumerate(distinct_keys) if other == optimizer]
        _join_places(key, sorted(own, key=lambda number: -int((key == number).sum())))
    return key


def _join_places(key: Ints, own: list[int]) -> None:
    """Give the lines ``own`` of one optimizer, the most frequent first, one number in ``key``.

    That is for a line that is reached now and then, while another one often comes twice in a row: what is
    left over at the end of an epoch. Lines that take turns are parts of one step, and those of two stages are
    two loops.
    """
    for place in own[1:]:
        both = np.flatnonzero((key == own[0]) | (key == place))
        # How much more often the same line comes again than the other one follows it.
        stays = len(both) - 2 * len(runs(key[both])[0]) + 1
        often, seldom = (np.flatnonzero(key == number) for number in (own[0], place))
        if stays >= 0 and _alternate(often, seldom):
            key[seldom] = own[0]


def _groups(key: Ints) -> list[list[int]]:
    """Optimizers, by their keys, that take turns within one loop: a list for each loop."""
    kinds = kinds_of(key)
    positions = {kind: np.flatnonzero(key == kind) for kind in kinds}
    leader = {kind: kind for kind in kinds}
    # Union-find, as plain as a handful of optimizers allows.
    for i, a in enumerate(kinds):
        for b in kinds[i + 1 :]:
            if leader[a] != leader[b] and _alternate(positions[a], positions[b]):
                old, new = leader[b], leader[a]
                leader = {kind: new if to == old else to for kind, to in leader.items()}
    return [[kind for kind in kinds if leader[kind] == top] for top in set(leader.values())]


def _alternate(a: Ints, b: Ints) -> bool:
    """Whether the updates at the positions ``a`` and ``b`` belong to the iterations of one loop.

    If they do, one follows the other every few updates. Stages of a training also follow one another, but
    each makes many updates in a row.
    """
    if a[-1] < b[0] or b[-1] < a[0]:
        return False
    order = np.argsort(np.concatenate((a, b)), kind="stable")
    side_of = (order >= len(a)).astype(np.int64)
    first, length = runs(side_of)
    return bool(min(np.median(length[side_of[first] == side]) for side in (0, 1)) <= _LONG)


def _steps_of_group(track: Track, rows: Ints, key: Ints) -> TrackSteps:
    """The steps that optimizers make by turns; ``key`` is the optimizer of each update of ``rows``.

    A turn ends with the optimizer that makes the fewest updates (a critic is trained several times for each
    update of its generator), and of those with the one that comes last. Where that one comes first of all,
    and not last of all, a turn begins with it: a policy, before the values are fitted. The starts are
    provisional.
    """
    kinds, first_at, times = np.unique(key, return_index=True, return_counts=True)
    fewest = times == times.min()
    closing = kinds[fewest][first_at[fewest].argmax()]
    closes = key == closing
    ends = np.flatnonzero(closes)
    if closes[0] and not closes[-1]:
        begins = np.flatnonzero(closes[1:] & ~closes[:-1])
        ends = np.append(begins, len(key) - 1)
    elif len(kinds) > 1 and np.median(runs(key)[1][key[runs(key)[0]] == closing]) > 1:
        # It usually makes several updates in a row (one for each of several losses): only the last of a row
        # ends the step.
        ends = np.flatnonzero(closes & np.concatenate((key[1:] != closing, [True])))
    end = track.end[rows[ends]]
    start = track.start[rows[ends]]
    updates = np.diff(np.concatenate(([-1], ends)))
    # The line that ends most steps names the loop.
    closing_sites = track.site[rows[ends]]
    site = track.sites[int(np.bincount(closing_sites).argmax())]
    zeros = np.zeros(len(end), np.int64)
    paces: list[StepPacing] = [pace_of(site, "optimizer")]
    return TrackSteps(start, end, zeros, zeros.copy(), updates, paces)
