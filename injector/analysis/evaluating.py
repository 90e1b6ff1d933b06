"""When a lane evaluates: passes over other data in which nothing is trained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .columns import Flags, Ints
from .intervals import Holes, counts, owners
from .loaders import OPEN, Loaders, Stream
from .marks import Marks
from .steps import Steps
from .tables import counted
from .turns import Turns

_USUAL = 0.5
"""A model that only predicts in so many of the steps (a teacher, a target network) is part of them."""


@dataclass
class Passes:
    """Evaluations in order; none overlaps another."""

    start: Ints
    end: Ints
    site: Ints
    """Of what they are known by: the fetch of a loader, a span, a model's call."""

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: Flags) -> Passes:
        """Those of the given flags."""
        return Passes(self.start[which], self.end[which], self.site[which])

    def holes(self) -> Holes:
        return Holes(self.start, self.end)


@dataclass
class _Atoms:
    """What is certainly evaluation: pieces that a pass is made of."""

    start: Ints
    end: Ints
    site: Ints
    rank: Ints
    """Which of several names a pass that holds them: the smallest."""
    last: Flags
    """Whether a loader had run dry: what comes next is another pass."""


def passes_of(marks: Marks, turns: Turns, steps: Steps) -> Passes:
    """Where ``marks``' lane evaluates, given the steps as far as they are known."""
    spans = marks.passes
    lane = marks.lane
    atoms = [
        _Atoms(lane.start[spans], lane.end[spans], lane.site[spans].astype(np.int64),
               np.zeros(len(spans), np.int64), np.ones(len(spans), np.bool_))
    ]  # fmt: skip
    if len(marks.forward):
        atoms += _by_loader(marks, turns)
        atoms.append(_by_model(marks, steps))
    passes = _joined(_together(atoms), _training(marks, turns))
    return passes.take(~_played(marks, turns, passes))


def _training(marks: Marks, turns: Turns) -> Ints:
    """The moments at which something is trained, which ends any pass."""
    lane = marks.lane
    rows = np.concatenate((marks.updates, marks.backward))
    pacing = lane.start[turns.pacing]
    for start, end in turns.tried:
        pacing = pacing[owners(start, end, pacing) < 0]
    return np.sort(np.concatenate((lane.start[rows], pacing)))


def _played(marks: Marks, turns: Turns, passes: Passes) -> Flags:
    """Which of ``passes`` are an agent's turns in its environment, and no evaluation.

    Such a model is called on what few environments show, without a loader, and before it is trained
    for the first time: it learns from what it has seen there, in larger batches.
    """
    lane = marks.lane
    found = np.zeros(len(passes), np.bool_)
    if not (len(turns.free) and len(passes) and len(marks.learnt)):
        return found
    trained, _ = counted(lane.payload[marks.learnt])
    if not len(trained):
        return found
    usual = np.median(trained)
    moments = lane.start[turns.free]
    calls = lane.start[marks.tried]
    for site in np.unique(passes.site).tolist():
        mine = np.flatnonzero(passes.site == site)
        if lane.sites[site].region != "forward" or passes.start[mine[0]] > moments[0]:
            continue
        first, last = np.searchsorted(calls, (passes.start[mine], passes.end[mine]))
        seen = np.concatenate([marks.tried[a:b] for a, b in zip(first, last, strict=True)])
        sizes, _ = counted(lane.payload[seen])
        if len(sizes) and np.median(sizes) < usual:
            found[mine] = passes.start[mine] < moments[-1]
    return found


def _by_loader(marks: Marks, turns: Turns) -> list[_Atoms]:
    """The turns of loaders that nothing is trained with."""
    found = []
    lane = marks.lane
    for start, end in turns.tried:
        rows = marks.fetches[np.searchsorted(lane.start[marks.fetches], start)]
        found.append(_turn_atoms(marks, rows, start, end))
    if len(marks.fetches) == len(turns.pacing):
        return found
    pacing = lane.start[turns.pacing]
    for stream in Loaders(marks).streams([]):
        at = int(np.searchsorted(turns.pacing, stream.rows[0]))
        if at < len(turns.pacing) and turns.pacing[at] == stream.rows[0]:
            continue
        found.append(_of_stream(marks, stream, pacing))
    return found


def _of_stream(marks: Marks, stream: Stream, pacing: Ints) -> _Atoms:
    lane = marks.lane
    following = np.concatenate((pacing, [OPEN]))[np.searchsorted(pacing, stream.start)]
    close = np.minimum(stream.close, following)
    busy = np.sort(np.concatenate((lane.start[marks.backward], lane.start[marks.updates])))
    trains = counts(busy, stream.start, close) > 0
    first = np.searchsorted(lane.start[marks.forward], stream.start)
    some = first < len(marks.forward)
    row = marks.forward[np.minimum(first, len(marks.forward) - 1)]
    called = some & (lane.start[row] < close)
    only_tries = called & np.isin(row, marks.tried)
    # A loader inside of a step: what its batches lead to goes into the backward of that step.
    later = np.concatenate((busy, [OPEN]))[np.searchsorted(busy, stream.start)]
    feeds = np.isin(row, marks.trained) & (later < following) & (len(pacing) > 0)
    kept = only_tries | (called & ~trains & ~feeds)
    return _turn_atoms(
        marks, stream.rows[kept], stream.start[kept], close[kept], stream.begin[kept]
    )


def _turn_atoms(
    marks: Marks, rows: Ints, start: Ints, close: Ints, begin: Ints | None = None
) -> _Atoms:
    """From the fetch to its last call of a model, and to where the loader had run dry.

    The first fetch of a pass also waits for the loader to start, from ``begin``.
    """
    lane = marks.lane
    ends = lane.start[marks.ends]
    at = np.searchsorted(ends, close)
    dry = at < len(ends)
    row = marks.ends[np.minimum(at, len(ends) - 1)] if len(ends) else rows
    dry &= lane.start[row] == close if len(ends) else False
    busy = np.sort(np.concatenate((lane.start[marks.backward], lane.start[marks.updates])))
    stop = np.minimum(close, np.concatenate((busy, [OPEN]))[np.searchsorted(busy, start)])
    forward = lane.start[marks.forward]
    last = np.maximum(np.searchsorted(forward, stop) - 1, 0)
    end = np.where(dry, lane.end[row], lane.end[marks.forward[last]])
    end = np.maximum(end, lane.end[rows])
    site = lane.site[rows].astype(np.int64)
    return _Atoms(start if begin is None else begin, end, site, np.ones(len(rows), np.int64), dry)


def _by_model(marks: Marks, steps: Steps) -> _Atoms:
    """Calls of models that are not trained at that moment, where that is not in every step."""
    lane, rows = marks.lane, marks.tried
    if len(rows) and len(steps):
        model = lane.table(lambda site: -1 if site.of is None else site.of)[rows]
        owner = owners(steps.start, steps.end, lane.start[rows])
        for each in np.unique(model).tolist():
            inside = owner[(model == each) & (owner >= 0)]
            if len(np.unique(inside)) >= max(2, _USUAL * len(steps)):
                rows, owner = rows[model != each], owner[model != each]
                model = model[model != each]
    none = np.zeros(len(rows), np.bool_)
    site = lane.site[rows].astype(np.int64)
    return _Atoms(lane.start[rows], lane.end[rows], site, np.full(len(rows), 2, np.int64), none)


def _together(atoms: list[_Atoms]) -> _Atoms:
    start = np.concatenate([each.start for each in atoms])
    order = np.argsort(start, kind="stable")
    return _Atoms(
        start[order],
        np.concatenate([each.end for each in atoms])[order],
        np.concatenate([each.site for each in atoms])[order],
        np.concatenate([each.rank for each in atoms])[order],
        np.concatenate([each.last for each in atoms])[order],
    )


def _joined(atoms: _Atoms, training: Ints) -> Passes:
    """Pieces between which nothing is trained are one pass."""
    n = len(atoms.start)
    if not n:
        return Passes(atoms.start, atoms.end, atoms.site)
    latest = np.maximum.accumulate(atoms.end)
    between = np.searchsorted(training, atoms.start)
    inside = atoms.start[1:] < latest[:-1]
    apart = (between[1:] != between[:-1]) | _ended(atoms, latest)[:-1]
    fresh = np.concatenate(([True], apart & ~inside))
    first = np.flatnonzero(fresh)
    group = np.cumsum(fresh) - 1
    end = np.maximum.reduceat(atoms.end, first)
    best = np.lexsort((np.arange(n), atoms.rank, group))
    named = best[np.searchsorted(group[best], np.arange(len(first)))]
    start = atoms.start[first]
    end[:-1] = np.minimum(end[:-1], start[1:])
    # A pass is over when training goes on, whatever its last span says.
    if len(training):
        later = np.searchsorted(
            training, atoms.start[np.append(first[1:] - 1, n - 1)], side="right"
        )
        limit = np.concatenate((training, [OPEN]))[later]
        covered = atoms.rank[named] == 0
        end = np.where(covered, end, np.maximum(np.minimum(end, limit), start))
    return Passes(start, end, atoms.site[named])


def _ended(atoms: _Atoms, latest: Ints) -> Flags:
    """Whether, after each piece, the pass it belongs to is known to be over."""
    at = np.maximum.accumulate(np.where(atoms.end == latest, np.arange(len(latest)), 0))
    ended: Flags = atoms.last[at]
    return ended
