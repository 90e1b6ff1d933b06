"""Which loaders pace a lane's training, and the turns of the loops that they drive.

A turn begins with a fetch and ends with the loader's next one, or where it has no more to give. The
turns that hold updates of an optimizer become steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import among, counts
from .columns import Flags, Ints, Site
from .tracks import Lane, Marks

OPEN = np.iinfo(np.int64).max
"""The end of a turn that nothing ended."""
MANY = 32
"""Loaders beyond which those at one line count as one: made anew for each epoch, or fold."""

Key = tuple[object, ...]


@dataclass
class Stream:
    """What hands out batches, at one place or several that belong together."""

    keys: frozenset[int]
    rows: Ints
    """Its fetches in the lane."""
    start: Ints
    close: Ints
    """Where the turn of each fetch ends; ``OPEN`` where nothing ends it."""
    epoch: Ints
    """For each fetch how often the stream had run dry before."""
    left: Flags
    """Whether the loop was left by ``break`` in that turn: all that is known to end it is the next loop."""
    begin: Ints
    """Where each fetch begins, the start of the loader's iterator (and its workers) included."""
    fetched: Ints
    """How many fetches each turn began with: none where the loader has been one batch ahead."""


class Loaders:
    """The loaders of a lane."""

    def __init__(self, marks: Marks) -> None:
        self.lane = lane = marks.lane
        self.marks = marks
        fetching = {n: s for n, s in lane.sites.items() if s.region in ("io", "io.start", "io.end")}
        keys, self.numbers = _keys(fetching)
        table = np.full(1 + max(lane.sites, default=0), -1, np.int64)
        for number, key in keys.items():
            table[number] = key
        self.key_of_fetch = table[lane.site[marks.fetches]]
        self.key_of_end = table[lane.site[marks.ends]]
        self.key_of_start = table[lane.site[marks.starts]]
        self.busy = np.sort(
            np.concatenate((lane.start[marks.updates], lane.start[marks.backward])), kind="stable"
        )

    def streams(self, merged: list[frozenset[int]]) -> list[Stream]:
        """One for each loader that has fetched; those of a set in ``merged`` are one."""
        together = [*merged]
        taken = frozenset().union(*merged)
        together += [rest for group in self._same_source() if (rest := group - taken)]
        return [self.stream(group) for group in together]

    def _same_source(self) -> list[frozenset[int]]:
        """Keys by what they load from, where what follows their fetches trains.

        ``next(it)`` stands at two lines where the first batch, or the one after the last, is fetched
        apart. Fetches elsewhere for another purpose (to look at a batch, to validate) are not meant.
        """
        groups: dict[Key, set[int]] = {}
        for key in np.unique(self.key_of_fetch).tolist():
            groups.setdefault(self.numbers[key][:1], set()).add(key)
        found: list[frozenset[int]] = []
        for source, group in groups.items():
            if len(group) == 1 or source == (None,):
                found += [frozenset({key}) for key in group]
                continue
            stream = self.stream(frozenset(group))
            trains = counts(self.busy, stream.start, stream.close) > 0
            mine = self.key_of_fetch[among(self.key_of_fetch, group)]
            training = {key for key in group if trains[mine == key].mean() >= 0.1}
            found += [frozenset({key}) for key in group - training]
            if training:
                found.append(frozenset(training))
        return found

    def stream(self, keys: frozenset[int]) -> Stream:
        """The fetches of ``keys`` as one stream of batches."""
        lane = self.lane
        rows = self.marks.fetches[among(self.key_of_fetch, keys)]
        ends = lane.start[self.marks.ends[among(self.key_of_end, keys)]]
        start = lane.start[rows]
        begun = lane.start[self.marks.starts[among(self.key_of_start, keys)]]
        begin, dry = _since(start, begun), ends
        if len(begun) > len(rows) / 2:
            start = begin  # next(iter(loader)): each batch waits for that as well
        else:
            ends = np.sort(np.concatenate((ends, begun)))
        close = np.concatenate((start[1:], [OPEN])) if len(start) else start
        following = np.searchsorted(ends, start)
        limit = np.concatenate((ends, [OPEN]))[following]
        exhausted = np.concatenate((dry, [OPEN]))[np.searchsorted(dry, start)]
        left = (limit < close) & (limit < exhausted)
        return Stream(keys, rows, start, np.minimum(close, limit), following, left, begin,
                      np.ones(len(start), np.int64))  # fmt: skip


def _since(start: Ints, begun: Ints) -> Ints:
    """The fetches together with the loader's start, where one has just been made."""
    if not len(begun):
        return start
    last = np.searchsorted(begun, start) - 1
    made = begun[np.maximum(last, 0)]
    before = np.concatenate(([np.iinfo(np.int64).min], start[:-1]))
    return np.where((last >= 0) & (made > before), made, start)


def _keys(sites: dict[int, Site]) -> tuple[dict[int, int], list[Key]]:
    """For each site the number of its loader, and what each loader is."""
    made = {number: _key(site) for number, site in sites.items()}
    if len(set(made.values())) > MANY:
        made = {number: (None, *key[1:]) for number, key in made.items()}
    numbers = list(dict.fromkeys(made.values()))
    return {number: numbers.index(key) for number, key in made.items()}, numbers


def _key(site: Site) -> Key:
    place = site.place
    return (site.of, place.file, place.line) if place else (site.of, None, None)


def turns_of(stream: Stream, lane: Lane, updates: Ints) -> Ints:
    """In which turn of ``stream`` each update begins; -1 for none."""
    moments = lane.start[updates]
    turn = np.searchsorted(stream.start, moments, side="right") - 1
    if not len(stream.start):
        return turn
    return np.where((turn >= 0) & (moments < stream.close[turn]), turn, -1)


def share_out(streams: list[Stream], lane: Lane, updates: Ints) -> tuple[Ints, list[Ints]]:
    """To which stream each update belongs (-1: none), and for each stream the turns of all updates.

    Of several turns around an update the one with the fewest updates has it: of nested loaders that
    is the innermost. Where they hold equally many (two loaders fetched side by side), the loader
    with more such turns has it, then the one that fetched first.
    """
    turns = [turns_of(stream, lane, updates) for stream in streams]
    inside = [np.bincount(turn[turn >= 0], minlength=len(stream.start))
              for stream, turn in zip(streams, turns, strict=True)]  # fmt: skip
    ranking = sorted(
        range(len(streams)),
        key=lambda i: (-int(np.count_nonzero(inside[i])), int(streams[i].start[0])),
    )
    best = np.full(len(updates), -1, np.int64)
    fewest = np.full(len(updates), OPEN, np.int64)
    for i in ranking:
        held = turns[i] >= 0
        if not held.any():
            continue
        number = np.where(held, inside[i][turns[i]], OPEN)
        better = number < fewest
        best[better], fewest[better] = i, number[better]
    for i in ranking:
        best[_surplus(turns[i], best == i, lane.site[updates].astype(np.int64), streams[i])] = -1
    return best, turns


def _surplus(turn: Ints, mine: Flags, site: Ints, stream: Stream) -> Ints:
    """Those of a stream's updates that a turn holds only because nothing ended it."""
    held = np.flatnonzero(mine)
    if not len(held):
        return held
    number = np.bincount(turn[held], minlength=len(stream.start))
    trained = np.flatnonzero(number)
    if len(trained) == 1:
        # One batch for a whole program: the updates pace it.
        kinds = len(np.unique(site[held]))
        return held if len(held) > kinds else held[:0]
    last = trained[-1]
    usual = int(np.median(number[trained[:-1]]))
    limit = np.full(len(number), 10 * usual + 10)
    if stream.close[last] == OPEN:
        limit[last] = 2 * usual + 1
    over = np.flatnonzero(number > limit)
    if not len(over):
        return held[:0]
    extra = [held[turn[held] == each][usual:] for each in over]
    return np.concatenate(extra)


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
