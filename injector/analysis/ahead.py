"""Loaders that fetch one batch ahead of the one that is trained with.

They run dry while their last batch is still to come, so that an epoch's last update lies behind its
last turn: ``fetch fetch update fetch update … dry update``.
"""

from __future__ import annotations

import numpy as np

from .columns import Flags, Ints
from .intervals import among, counts
from .loaders import OPEN, Stream
from .marks import Marks


def take_ahead(
    stream: Stream, marks: Marks, best: Ints, number: int, turn: Ints, fetches: Ints
) -> Ints:
    """Give ``stream`` a turn without a fetch for what it trained after it had run dry.

    ``best`` says to which stream each update belongs (-1: none), ``number`` which one this is,
    ``turn`` in which of its turns each update lies, ``fetches`` when any training loader fetched.
    Changes ``best`` and the turns of ``stream``; returns the new ``turn``.
    """
    turn = _updated(stream, marks, best, number, turn, fetches)
    return _accumulated(stream, marks, best == number, turn, fetches)


def _updated(
    stream: Stream, marks: Marks, best: Ints, number: int, turn: Ints, fetches: Ints
) -> Ints:
    """Turns for the updates that came after it had run dry."""
    free = np.flatnonzero(best == -1)
    mine = (best == number) & (turn >= 0)
    if not len(free) or not mine.any():
        return turn
    lane = marks.lane
    moments = lane.start[marks.updates[free]]
    last = np.searchsorted(stream.start, moments, side="right") - 1
    free, moments, last = (each[last >= 0] for each in (free, moments, last))
    close = stream.close[last]
    after = (moments >= close) & (close < OPEN) & ~stream.left[last] & _spare(stream, marks)[last]
    after &= counts(fetches, close, moments) == 0
    site = lane.site[marks.updates].astype(np.int64)
    after &= among(site[free], np.unique(site[mine]).tolist())
    after &= counts(lane.start[_work(marks)], close, lane.end[marks.updates[free]]) > 0
    free, last = free[after], last[after]
    if not len(free):
        return turn
    # As many as a turn has: what else is updated later is paced by something else.
    held = np.bincount(turn[mine])
    fresh = np.concatenate(([True], last[1:] != last[:-1]))
    first = np.flatnonzero(fresh)
    nth = np.arange(len(free)) - first[np.cumsum(fresh) - 1]
    kept = nth < max(1, int(np.median(held[held > 0])))
    free, last = free[kept], last[kept]
    best[free] = number
    final = np.concatenate((last[1:] != last[:-1], [True]))
    return _insert(stream, turn, last[final], lane.end[marks.updates[free[final]]], (free, last))


def _accumulated(stream: Stream, marks: Marks, mine: Flags, turn: Ints, fetches: Ints) -> Ints:
    """Turns for what was trained after it had run dry, and updated in the next epoch only."""
    lane = marks.lane
    work = _work(marks)
    last = np.concatenate((stream.epoch[1:] != stream.epoch[:-1], [False]))
    last &= _spare(stream, marks) & ~stream.left & (stream.fetched > 0)
    at = np.flatnonzero(last)
    if not len(at) or not (mine & (turn >= 0)).any():
        return turn
    close = stream.close[at]
    following = fetches[np.searchsorted(fetches, close)]  # at least the next epoch's
    first, beyond = (np.searchsorted(lane.start[work], each) for each in (close, following))
    # Where something is updated meanwhile, it is that update's, and paced by something else.
    some = (beyond > first) & (counts(lane.start[marks.updates], close, following) == 0)
    return _insert(stream, turn, at[some], lane.end[work[beyond[some] - 1]])


def _work(marks: Marks) -> Ints:
    """What tells that a batch is trained with."""
    return marks.backward if len(marks.backward) else marks.learnt


def fetched_only(stream: Stream, marks: Marks) -> Flags:
    """For each turn whether it is the first of an epoch, and its batch was not trained with in it."""
    worked = counts(marks.lane.start[_work(marks)], stream.start, stream.close) > 0
    fresh = np.concatenate(([True], stream.epoch[1:] != stream.epoch[:-1]))
    only: Flags = fresh & ~worked
    return only


def _spare(stream: Stream, marks: Marks) -> Flags:
    """For each turn whether its epoch began with a batch that was not trained with in its turn."""
    spare: Flags = fetched_only(stream, marks)[np.searchsorted(stream.epoch, stream.epoch)]
    return spare


def _insert(
    stream: Stream, turn: Ints, at: Ints, end: Ints, held: tuple[Ints, Ints] | None = None
) -> Ints:
    """A turn after each of the turns ``at``, from where that one closed to ``end``.

    ``held`` are the updates that lie in the new ones, and behind which turn each of them does.
    """
    begin = stream.close[at]
    found = np.where(turn >= 0, turn + np.searchsorted(at, turn), turn)
    if held is not None:
        found[held[0]] = held[1] + 1 + np.searchsorted(at, held[1])
    stream.rows = np.insert(stream.rows, at + 1, stream.rows[at])
    stream.start = np.insert(stream.start, at + 1, begin)
    stream.close = np.insert(stream.close, at + 1, end)
    stream.epoch = np.insert(stream.epoch, at + 1, stream.epoch[at])
    stream.left = np.insert(stream.left, at + 1, False)
    stream.begin = np.insert(stream.begin, at + 1, begin)
    stream.fetched = np.insert(stream.fetched, at + 1, 0)
    return found
