"""Loaders that are a batch or more ahead of the training: what is trained with after they ran dry."""

from __future__ import annotations

import numpy as np

from .arrays import OPEN, among, counts, differing, kinds_of, median_of, places, runs
from .columns import Flags, Ints
from .landmarks import Landmarks
from .loaders import Stream


def take_ahead(
    stream: Stream, marks: Landmarks, best: Ints, number: int, iteration: Ints, fetches: Ints
) -> Ints:
    """Give ``stream`` iterations without a fetch for what it trained with after it had run dry.

    ``best`` says to which stream each update belongs (-1: to none), ``number`` which one this is,
    ``iteration`` in which of its iterations each update lies, ``fetches`` when any training loader fetched.
    Changes ``best`` and the iterations of ``stream``. Returns the new ``iteration``.
    """
    iteration = _insert_for_updates(stream, marks, best, number, iteration, fetches)
    return _insert_for_backwards(stream, marks, best == number, iteration, fetches)


def _insert_for_updates(
    stream: Stream, marks: Landmarks, best: Ints, number: int, iteration: Ints, fetches: Ints
) -> Ints:
    """Insert iterations for updates that came after the stream had run dry. As :func:`take_ahead`."""
    free = np.flatnonzero(best == -1)
    is_own = (best == number) & (iteration >= 0)
    if not len(free) or not is_own.any():
        return iteration
    track = marks.track
    moments = track.start[marks.updates[free]]
    last = places(stream.start, moments, "right") - 1
    free, moments, last = (column[last >= 0] for column in (free, moments, last))
    close = stream.close[last]
    is_ahead = (
        (moments >= close) & (close < OPEN) & ~stream.left[last] & (_ahead(stream, marks)[last] > 0)
    )
    # No loader has fetched meanwhile, the optimizer is one of this loop, and a batch was trained with.
    is_ahead &= counts(fetches, close, moments) == 0
    site = track.site[marks.updates]
    is_ahead &= among(site[free], kinds_of(site[is_own]))
    is_ahead &= (
        counts(track.start[_training_work(marks)], close, track.end[marks.updates[free]]) > 0
    )
    free, last = free[is_ahead], last[is_ahead]
    if not len(free):
        return iteration
    # As many updates as iterations usually have, for each batch that the loader is ahead: something else
    # paces what is updated later.
    updates_in = np.bincount(iteration[is_own])
    usual = max(1, int(median_of(updates_in[updates_in > 0])))
    first, length = runs(last)
    inserted = (np.arange(len(free)) - np.repeat(first, length)) // usual
    kept = inserted < _ahead(stream, marks)[last]
    free, last, inserted = free[kept], last[kept], inserted[kept]
    best[free] = number
    is_last = np.append(differing(last, inserted)[1:], True)
    end = track.end[marks.updates[free[is_last]]]
    return _insert(stream, iteration, last[is_last], end, (free, last, inserted))


def _insert_for_backwards(
    stream: Stream, marks: Landmarks, is_own: Flags, iteration: Ints, fetches: Ints
) -> Ints:
    """Insert iterations for backwards after the stream had run dry. As :func:`take_ahead`.

    Their update comes in the next epoch only: gradients are accumulated.
    """
    track = marks.track
    work_rows = _training_work(marks)
    is_last = np.append(differing(stream.epoch)[1:], False)
    is_last &= (_ahead(stream, marks) > 0) & ~stream.left & (stream.fetched > 0)
    last_iterations = np.flatnonzero(is_last)
    if not len(last_iterations) or not (is_own & (iteration >= 0)).any():
        return iteration
    close = stream.close[last_iterations]
    following = fetches[places(fetches, close)]  # at least the next epoch's
    first, beyond = (places(track.start[work_rows], each) for each in (close, following))
    # If there is an update meanwhile, the work belongs to that, and something else paces it.
    has_work = (beyond > first) & (counts(track.start[marks.updates], close, following) == 0)
    return _insert(
        stream, iteration, last_iterations[has_work], track.end[work_rows[beyond[has_work] - 1]]
    )


def _training_work(marks: Landmarks) -> Ints:
    """The rows that show that a batch is trained with."""
    return marks.backward if len(marks.backward) else marks.may_train


def fetched_only(stream: Stream, marks: Landmarks) -> Flags:
    """Which iterations precede the first of their epoch that trains: later ones train with their batches."""
    starts = marks.track.start[_training_work(marks)]
    works = counts(starts, stream.start, stream.close) > 0
    first, length = runs(stream.epoch)
    working_before: Ints = np.cumsum(works) - works
    only: Flags = ~works & (working_before == np.repeat(working_before[first], length))
    return only


def _ahead(stream: Stream, marks: Landmarks) -> Ints:
    """How many batches the loader is ahead in the epoch of each iteration."""
    first, length = runs(stream.epoch)
    if not len(first):
        return first
    return np.repeat(np.add.reduceat(fetched_only(stream, marks).astype(np.int64), first), length)


def _insert(
    stream: Stream,
    iteration: Ints,
    at: Ints,
    end: Ints,
    held: tuple[Ints, Ints, Ints] | None = None,
) -> Ints:
    """Insert an iteration after each of the iterations ``at``, from where the one before it ends to ``end``.

    Several may come after one. ``iteration`` says for each update in which iteration it lies, and is returned
    with the new numbers. ``held`` are the updates in the new iterations, the iteration that each of these
    follows, and how many are inserted between the two.
    """
    follows_inserted = np.concatenate(([False], at[1:] == at[:-1]))[: len(at)]
    begin = np.where(follows_inserted, np.roll(end, 1), stream.close[at])
    renumbered = np.where(iteration >= 0, iteration + np.searchsorted(at, iteration), iteration)
    if held is not None:
        renumbered[held[0]] = held[1] + 1 + np.searchsorted(at, held[1]) + held[2]
    stream.rows = np.insert(stream.rows, at + 1, stream.rows[at])
    stream.start = np.insert(stream.start, at + 1, begin)
    stream.close = np.insert(stream.close, at + 1, end)
    stream.epoch = np.insert(stream.epoch, at + 1, stream.epoch[at])
    stream.left = np.insert(stream.left, at + 1, False)
    stream.begin = np.insert(stream.begin, at + 1, begin)
    stream.fetched = np.insert(stream.fetched, at + 1, 0)
    return renumbered
