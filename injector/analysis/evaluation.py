"""When a track evaluates: passes over other data in which nothing is trained."""

from __future__ import annotations

import numpy as np

from ..store.call_sites import CallSite
from ..store.spans import unpack
from ..value_class import state_class
from .arrays import ExcludedIntervals, counts, distinct, kinds_of, merged, owners, places
from .columns import Flags, Ints
from .iterations import LoaderIterations
from .loaders import OPEN, Loaders, Stream
from .steps import TrackSteps
from .tracks import Landmarks, numbers_of

_USUAL = 0.5
"""A model that only predicts in so many of the steps (a teacher, a target network) is part of them."""

_PASSES = 1 << 32
"""Passes over one loader that are kept apart."""


@state_class
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

    def excluded(self) -> ExcludedIntervals:
        return ExcludedIntervals(self.start, self.end)


def no_passes() -> Passes:
    """None at all."""
    none = np.empty(0, np.int64)
    return Passes(none, none, none)


@state_class
class _Atoms:
    """What is certainly evaluation: pieces that a pass is made of."""

    start: Ints
    end: Ints
    site: Ints
    rank: Ints
    """Which of several names a pass that holds them: the smallest."""
    last: Flags
    """Whether a loader had run dry: what comes next is another pass."""
    loader: Ints
    """Of which pass over which loader; -1 for none."""


def passes_of(marks: Landmarks, iterations: LoaderIterations, steps: TrackSteps) -> Passes:
    """Where ``marks``' track evaluates, given the steps as far as they are known."""
    spans = marks.passes
    track = marks.track
    atoms = [
        _Atoms(track.start[spans], track.end[spans], track.site[spans],
               np.zeros(len(spans), np.int64), np.ones(len(spans), np.bool_),
               np.full(len(spans), -1, np.int64))
    ]  # fmt: skip
    if len(marks.forward):
        atoms += _by_loader(marks, iterations)
        atoms.append(_by_model(marks, steps))
    passes = _joined(_together(atoms), _training(marks, iterations))
    return passes.take(~_played(marks, iterations, passes))


def _training(marks: Landmarks, iterations: LoaderIterations) -> Ints:
    """The moments at which something is trained, which ends any pass."""
    track = marks.track
    rows = np.concatenate((marks.updates, marks.backward, marks.steps))
    pacing = track.start[iterations.pacing]
    for start, end in iterations.tried:
        pacing = pacing[owners(start, end, pacing) < 0]
    return merged(track.start[rows], pacing)


def _played(marks: Landmarks, iterations: LoaderIterations, passes: Passes) -> Flags:
    """Which of ``passes`` are an agent's iterations in its environment, and no evaluation.

    Such a model is called on what few environments show, without a loader, and before it is trained
    for the first time: it learns from what it has seen there, in larger batches.
    """
    track = marks.track
    found = np.zeros(len(passes), np.bool_)
    if not (len(iterations.free) and len(passes) and len(marks.learnt)):
        return found
    trained, _ = unpack(track.payload[marks.learnt])
    trained = trained[trained > 0]  # a loss, or a distribution, may say nothing
    if not len(trained):
        return found
    usual = np.median(trained)
    moments = track.start[iterations.free]
    calls = track.start[marks.tried]
    for site in distinct(passes.site).tolist():
        mine = np.flatnonzero(passes.site == site)
        if track.sites[site].region != "forward" or passes.start[mine[0]] > moments[0]:
            continue
        first, last = np.searchsorted(calls, (passes.start[mine], passes.end[mine]))
        seen = np.concatenate([marks.tried[a:b] for a, b in zip(first, last, strict=True)])
        sizes, _ = unpack(track.payload[seen])
        sizes = sizes[sizes > 0]
        if len(sizes) and np.median(sizes) < usual:
            found[mine] = passes.start[mine] < moments[-1]
    return found


def _by_loader(marks: Landmarks, iterations: LoaderIterations) -> list[_Atoms]:
    """The iterations of loaders that nothing is trained with."""
    found = []
    track = marks.track
    for start, end in iterations.tried:
        rows = marks.fetches[places(track.start[marks.fetches], start)]
        found.append(_iteration_atoms(marks, rows, start, end))
    if len(marks.fetches) == len(iterations.pacing):
        return found
    pacing = track.start[iterations.pacing]
    streams = Loaders(marks).streams([])
    first = np.array([stream.start[0] for stream in streams])
    begun = merged(first, track.start[marks.starts])
    for stream in streams:
        at = int(np.searchsorted(iterations.pacing, stream.rows[0]))
        if at < len(iterations.pacing) and iterations.pacing[at] == stream.rows[0]:
            continue
        found.append(_of_stream(marks, stream, pacing, begun))
    return found


def _of_stream(marks: Landmarks, stream: Stream, pacing: Ints, begun: Ints) -> _Atoms:
    """Its iterations that evaluate; ``begun`` are the moments at which any loader begins."""
    track = marks.track
    following = np.concatenate((pacing, [OPEN]))[places(pacing, stream.start)]
    close = np.minimum(stream.close, following)
    # A loop that is left has ended where another one begins; a batch that is not used is none.
    another = np.concatenate((begun, [OPEN]))[places(begun, stream.start, "right")]
    fetched = track.start[stream.rows]
    anew = counts(begun, fetched, np.concatenate((stream.begin[1:] + 1, [OPEN]))) > 0
    anew &= np.concatenate((stream.begin[1:] < fetched[1:], [True]))
    anew &= ~np.isin(stream.close, track.start[marks.ends])
    close = np.where(stream.left | anew, np.minimum(close, another), close)
    busy = merged(track.start[marks.backward], track.start[marks.updates])
    trains = counts(busy, stream.start, close) > 0
    first = places(track.start[marks.forward], stream.start)
    some = first < len(marks.forward)
    row = marks.forward[np.minimum(first, len(marks.forward) - 1)]
    called = some & (track.start[row] < close)
    only_tries = called & np.isin(row, marks.tried)
    # A loader inside of a step: what its batches lead to goes into the backward of that step.
    later = np.concatenate((busy, [OPEN]))[places(busy, stream.start)]
    feeds = np.isin(row, marks.trained) & (later < following) & (len(pacing) > 0)
    # A function that makes batches is called for either: what is trained after a call was its batch.
    only_tries &= ~trains | (not stream.by_hand)
    kept = only_tries | (called & ~trains & ~feeds)
    end = _ahead(marks, stream, called, kept, begun, busy)
    found = _iteration_atoms(
        marks, stream.rows[kept], stream.start[kept], close[kept], stream.begin[kept], end[kept]
    )
    if stream.by_hand:
        # No loop is there: the pass is known by the call of the model, as where nothing says io.
        found.site = track.site[row[kept]]
    return found


def _ahead(
    marks: Landmarks, stream: Stream, called: Flags, kept: Flags, begun: Ints, busy: Ints
) -> Ints:
    """Of a loader that is one batch ahead, when the call with the last batch ends, after it ran dry.

    Has its first fetch, which no call follows before the next one, ``kept``.
    """
    track, n = marks.track, len(stream.start)
    end = np.zeros(n, np.int64)
    fresh = np.concatenate(([True], stream.epoch[1:] != stream.epoch[:-1]))
    final = np.concatenate((fresh[1:], [True]))
    tried = track.start[marks.tried]
    others = merged(begun, busy, track.start[marks.fetches], np.array([OPEN]))
    following = others[places(others, stream.close)]
    late = (
        final & ~stream.left & (stream.close < OPEN) & (counts(tried, stream.close, following) > 0)
    )
    first = np.flatnonzero(fresh)[np.cumsum(fresh) - 1]  # of each iteration's epoch
    late &= ~called[first]
    at = np.flatnonzero(late)
    end[at] = track.end[marks.tried[np.searchsorted(tried, following[at]) - 1]]
    kept[at] = True
    whole = np.flatnonzero(fresh & ~called & ~kept)
    whole = whole[whole + 1 < n]
    kept[whole] = kept[whole + 1] & ~fresh[whole + 1]
    return end


def _iteration_atoms(
    marks: Landmarks,
    rows: Ints,
    start: Ints,
    close: Ints,
    begin: Ints | None = None,
    until: Ints | None = None,
) -> _Atoms:
    """From the fetch to its last call of a model, and to where the loader had run dry, or ``until``.

    The first fetch of a pass also waits for the loader to start, from ``begin``.
    """
    track = marks.track
    ends = track.start[marks.ends]
    at = places(ends, close)
    dry = at < len(ends)
    row = marks.ends[np.minimum(at, len(ends) - 1)] if len(ends) else rows
    dry &= track.start[row] == close if len(ends) else False
    busy = merged(track.start[marks.backward], track.start[marks.updates])
    stop = np.minimum(close, np.concatenate((busy, [OPEN]))[places(busy, start)])
    forward = track.start[marks.forward]
    last = np.maximum(places(forward, stop) - 1, 0)
    end = np.where(dry, track.end[row], track.end[marks.forward[last]])
    end = np.maximum(end, track.end[rows])
    if until is not None:
        end = np.maximum(end, until)
    site = track.site[rows]
    return _Atoms(start if begin is None else begin, end, site, np.ones(len(rows), np.int64), dry,
                  _passes_over(marks, rows))  # fmt: skip


def _passes_over(marks: Landmarks, rows: Ints) -> Ints:
    """For each fetch a number of its loader, and below it how often that had begun and run dry before."""
    track = marks.track
    names = numbers_of((site.object_id, site.place) for site in track.sites.values())
    name = track.table(lambda site: names[site.object_id, site.place], rows)
    moved = merged(marks.starts, marks.ends)
    of, moved_of = (track.table(_object, each) for each in (rows, moved))
    again = np.zeros(len(rows), np.int64)
    for each in {_object(track.sites[number]) for number in kinds_of(track.site[rows])}:
        mine = of == each
        again[mine] = np.searchsorted(moved[moved_of == each], rows[mine])
    found: Ints = name * _PASSES + again
    return found


def _object(site: CallSite) -> int:
    return -1 if site.object_id is None else site.object_id


def _by_model(marks: Landmarks, steps: TrackSteps) -> _Atoms:
    """Calls of models that are not trained at that moment.

    A model that only predicts in most steps is a part of them, unless it is the one that is trained, and
    all that tells it to evaluate does so.
    """
    track, rows = marks.track, marks.tried
    if len(rows) and len(steps):
        of = track.table(lambda site: -1 if site.object_id is None else site.object_id)
        itself = np.isin(of[rows], of[marks.trained])
        itself &= track.table(lambda site: site.phase == "eval", rows) == 1
        owner = owners(steps.start, steps.end, track.start[rows])
        kept = np.ones(len(rows), np.bool_)
        for each in distinct(of[rows[~itself]]).tolist():
            mine = (of[rows] == each) & ~itself
            inside = owner[mine & (owner >= 0)]
            if len(distinct(inside)) >= max(2, _USUAL * len(steps)):
                kept &= ~mine
        rows = rows[kept]
    none = np.zeros(len(rows), np.bool_)
    site = track.site[rows]
    return _Atoms(track.start[rows], track.end[rows], site, np.full(len(rows), 2, np.int64), none,
                  np.full(len(rows), -1, np.int64))  # fmt: skip


def _together(atoms: list[_Atoms]) -> _Atoms:
    start = np.concatenate([each.start for each in atoms])
    order = np.argsort(start, kind="stable")
    return _Atoms(
        start[order],
        np.concatenate([each.end for each in atoms])[order],
        np.concatenate([each.site for each in atoms])[order],
        np.concatenate([each.rank for each in atoms])[order],
        np.concatenate([each.last for each in atoms])[order],
        np.concatenate([each.loader for each in atoms])[order],
    )


def _joined(atoms: _Atoms, training: Ints) -> Passes:
    """Pieces between which nothing is trained are one pass."""
    n = len(atoms.start)
    if not n:
        return Passes(atoms.start, atoms.end, atoms.site)
    latest = np.maximum.accumulate(atoms.end)
    between = places(training, atoms.start)
    inside = atoms.start[1:] < latest[:-1]
    changed, spanned = _loaders(atoms)
    over = changed[1:] | (_ended(atoms, latest)[:-1] & ~spanned[1:])
    apart = (between[1:] != between[:-1]) | over
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


def _loaders(atoms: _Atoms) -> tuple[Flags, Flags]:
    """Whether each piece begins with another loader, or the same one anew, and whether it lies between
    batches of one that goes on: read side by side with others, or around them.
    """
    n = len(atoms.start)
    changed, spanned = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    rows = np.flatnonzero(atoms.loader >= 0)
    if not len(rows):
        return changed, spanned
    loader = atoms.loader[rows]
    every, which = np.unique(loader, return_inverse=True)
    last = np.zeros(len(every), np.int64)
    last[which] = rows  # in order: the last one stays
    until = np.zeros(n, np.int64)
    until[rows] = last[which]
    spanned[1:] = np.maximum.accumulate(until)[:-1] >= np.arange(1, n)
    name = loader // _PASSES
    # Begun for each batch (`next(iter(loader))`), it goes on.
    once = np.bincount(name, minlength=name.max() + 1) < 2 * np.bincount(every // _PASSES)
    anew = (loader[1:] != loader[:-1]) & ((name[1:] != name[:-1]) | ~once[name[1:]])
    changed[rows[1:]] = anew & ~spanned[rows[1:]]
    return changed, spanned
