"""Which loaders pace a track's training, and the iterations of the loops that they drive.

An iteration begins with a fetch and ends with the loader's next one, or where it has no more to give. The
iterations that hold updates of an optimizer become steps.
"""

from __future__ import annotations

import numpy as np

from ..store.call_sites import CallSite
from ..store.spans import is_loaders
from ..value_class import state_class
from .arrays import among, counts, kinds_of, median_of, merged, places, runs
from .columns import Flags, Ints
from .tracks import Landmarks, Track, numbers_of

OPEN = np.iinfo(np.int64).max
"""The end of an iteration that nothing ended."""
MANY = 32
"""Loaders beyond which those at one line count as one: made anew for each epoch, or fold."""

Key = tuple[object, ...]


@state_class
class Stream:
    """What hands out batches, at one place or several that belong together."""

    keys: frozenset[int]
    rows: Ints
    """Its fetches in the track."""
    start: Ints
    close: Ints
    """Where the iteration of each fetch ends; ``OPEN`` where nothing ends it."""
    epoch: Ints
    """For each fetch how often the stream had run dry before."""
    left: Flags
    """Whether the loop was left by ``break`` in that iteration: only the next loop is known to end it."""
    begin: Ints
    """Where each fetch begins, the start of the loader's iterator (and its workers) included."""
    fetched: Ints
    """How many fetches each iteration began with: none where the loader has been one batch ahead."""
    by_hand: bool = False
    """Whether a function makes these batches, one a call, and no loader: it paces nothing."""


class Loaders:
    """The loaders of a track."""

    def __init__(self, marks: Landmarks) -> None:
        self.track = track = marks.track
        self.marks = marks
        fetching = {
            n: s for n, s in track.sites.items() if s.region in ("io", "io.start", "io.end")
        }
        keys, self.numbers = _keys(fetching)
        table = np.full(1 + max(track.sites, default=0), -1, np.int64)
        for number, key in keys.items():
            table[number] = key
        self._loaders = {
            keys[n] for n, s in fetching.items() if is_loaders(s.object_id, s.selector)
        }
        self.key_of_fetch = table[track.site[marks.fetches]]
        self.key_of_end = table[track.site[marks.ends]]
        self.key_of_start = table[track.site[marks.starts]]
        self.busy = merged(track.start[marks.updates], track.start[marks.backward])

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
        for key in kinds_of(self.key_of_fetch):
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
        track = self.track
        rows = self.marks.fetches[among(self.key_of_fetch, keys)]
        ends = track.start[self.marks.ends[among(self.key_of_end, keys)]]
        start = track.start[rows]
        begun = track.start[self.marks.starts[among(self.key_of_start, keys)]]
        begin, dry = _since(start, begun), ends
        if np.count_nonzero(begin < start) > len(rows) / 2:
            start = begin  # next(iter(loader)): each batch waits for that as well
        else:
            ends = merged(ends, begun)
        close = np.concatenate((start[1:], [OPEN])) if len(start) else start
        following = places(ends, start)
        limit = np.concatenate((ends, [OPEN]))[following]
        exhausted = np.concatenate((dry, [OPEN]))[places(dry, start)]
        left = (limit < close) & (limit < exhausted)
        return Stream(keys, rows, start, np.minimum(close, limit), following, left, begin,
                      np.ones(len(start), np.int64), not keys & self._loaders)  # fmt: skip


def _since(start: Ints, begun: Ints) -> Ints:
    """The fetches together with the loader's start, where one has just been made."""
    if not len(begun):
        return start
    last = places(begun, start) - 1
    made = begun[np.maximum(last, 0)]
    before = np.concatenate(([np.iinfo(np.int64).min], start[:-1]))
    return np.where((last >= 0) & (made > before), made, start)


def _keys(sites: dict[int, CallSite]) -> tuple[dict[int, int], list[Key]]:
    """For each site the number of its loader, and what each loader is."""
    made = {number: _key(site) for number, site in sites.items()}
    if len(set(made.values())) > MANY:
        made = {number: (None, *key[1:]) for number, key in made.items()}
    numbers = numbers_of(made.values())
    return {number: numbers[key] for number, key in made.items()}, list(numbers)


def _key(site: CallSite) -> Key:
    place = site.place
    return (site.object_id, place.file, place.line) if place else (site.object_id, None, None)


def iterations_of(stream: Stream, track: Track, updates: Ints) -> Ints:
    """In which iteration of ``stream`` each update begins; -1 for none."""
    moments = track.start[updates]
    iteration = places(stream.start, moments, "right") - 1
    if not len(stream.start):
        return iteration
    return np.where((iteration >= 0) & (moments < stream.close[iteration]), iteration, -1)


def share_out(streams: list[Stream], track: Track, updates: Ints) -> tuple[Ints, list[Ints]]:
    """To which stream each update belongs (-1: none), and for each stream the iterations of all updates.

    Of several iterations around an update the one with the fewest updates has it: of nested loaders that
    is the innermost. Where they hold equally many (two loaders fetched side by side), the loader
    with more such iterations has it, then the one that fetched first.
    """
    iterations = [iterations_of(stream, track, updates) for stream in streams]
    inside = [np.bincount(iteration[iteration >= 0], minlength=len(stream.start))
              for stream, iteration in zip(streams, iterations, strict=True)]  # fmt: skip
    ranking = sorted(
        range(len(streams)),
        key=lambda i: (-int(np.count_nonzero(inside[i])), int(streams[i].start[0])),
    )
    best = np.full(len(updates), -1, np.int64)
    fewest = np.full(len(updates), OPEN, np.int64)
    for i in ranking:
        held = iterations[i] >= 0
        if not held.any():
            continue
        number = np.where(held, inside[i][iterations[i]], OPEN)
        better = number < fewest
        best[better], fewest[better] = i, number[better]
    for i in ranking:
        best[_surplus(iterations[i], best == i, track.site[updates], streams[i])] = -1
    return best, iterations


def _surplus(iteration: Ints, mine: Flags, site: Ints, stream: Stream) -> Ints:
    """Those of a stream's updates that an iteration holds only because nothing ended it."""
    held = np.flatnonzero(mine)
    if not len(held):
        return held
    number = np.bincount(iteration[held], minlength=len(stream.start))
    trained = np.flatnonzero(number)
    if len(trained) == 1:
        # One batch for a whole program: the updates pace it.
        kinds = len(kinds_of(site[held]))
        return held if len(held) > kinds else held[:0]
    last = trained[-1]
    usual = int(median_of(number[trained[:-1]]))
    limit = np.full(len(number), 10 * usual + 10)
    if stream.close[last] == OPEN:
        limit[last] = 2 * usual + 1
    over = np.flatnonzero(number > limit)
    if not len(over):
        return held[:0]
    extra = [held[iteration[held] == each][usual:] for each in over]
    return np.concatenate(extra)


def take_ahead(
    stream: Stream, marks: Landmarks, best: Ints, number: int, iteration: Ints, fetches: Ints
) -> Ints:
    """Give ``stream`` an iteration without a fetch for what it trained after it had run dry.

    ``best`` says to which stream each update belongs (-1: none), ``number`` which one this is,
    ``iteration`` in which of its iterations each update lies, ``fetches`` when any training loader fetched.
    Changes ``best`` and the iterations of ``stream``; returns the new ``iteration``.
    """
    iteration = _updated(stream, marks, best, number, iteration, fetches)
    return _accumulated(stream, marks, best == number, iteration, fetches)


def _updated(
    stream: Stream, marks: Landmarks, best: Ints, number: int, iteration: Ints, fetches: Ints
) -> Ints:
    """LoaderIterations for the updates that came after it had run dry."""
    free = np.flatnonzero(best == -1)
    mine = (best == number) & (iteration >= 0)
    if not len(free) or not mine.any():
        return iteration
    track = marks.track
    moments = track.start[marks.updates[free]]
    last = places(stream.start, moments, "right") - 1
    free, moments, last = (each[last >= 0] for each in (free, moments, last))
    close = stream.close[last]
    after = (moments >= close) & (close < OPEN) & ~stream.left[last] & _spare(stream, marks)[last]
    after &= counts(fetches, close, moments) == 0
    site = track.site[marks.updates]
    after &= among(site[free], kinds_of(site[mine]))
    after &= counts(track.start[_work(marks)], close, track.end[marks.updates[free]]) > 0
    free, last = free[after], last[after]
    if not len(free):
        return iteration
    # As many as an iteration has: what else is updated later is paced by something else.
    held = np.bincount(iteration[mine])
    fresh = np.concatenate(([True], last[1:] != last[:-1]))
    first = np.flatnonzero(fresh)
    nth = np.arange(len(free)) - first[np.cumsum(fresh) - 1]
    kept = nth < max(1, int(median_of(held[held > 0])))
    free, last = free[kept], last[kept]
    best[free] = number
    final = np.concatenate((last[1:] != last[:-1], [True]))
    return _insert(
        stream, iteration, last[final], track.end[marks.updates[free[final]]], (free, last)
    )


def _accumulated(
    stream: Stream, marks: Landmarks, mine: Flags, iteration: Ints, fetches: Ints
) -> Ints:
    """LoaderIterations for what was trained after it had run dry, and updated in the next epoch only."""
    track = marks.track
    work = _work(marks)
    last = np.concatenate((stream.epoch[1:] != stream.epoch[:-1], [False]))
    last &= _spare(stream, marks) & ~stream.left & (stream.fetched > 0)
    at = np.flatnonzero(last)
    if not len(at) or not (mine & (iteration >= 0)).any():
        return iteration
    close = stream.close[at]
    following = fetches[places(fetches, close)]  # at least the next epoch's
    first, beyond = (places(track.start[work], each) for each in (close, following))
    # Where something is updated meanwhile, it is that update's, and paced by something else.
    some = (beyond > first) & (counts(track.start[marks.updates], close, following) == 0)
    return _insert(stream, iteration, at[some], track.end[work[beyond[some] - 1]])


def _work(marks: Landmarks) -> Ints:
    """What tells that a batch is trained with."""
    return marks.backward if len(marks.backward) else marks.learnt


def fetched_only(stream: Stream, marks: Landmarks) -> Flags:
    """For each iteration whether it is the first of an epoch, and its batch was not trained with in it."""
    only = np.zeros(len(stream.start), np.bool_)
    first, _ = runs(stream.epoch)
    worked = counts(marks.track.start[_work(marks)], stream.start[first], stream.close[first])
    only[first] = worked == 0
    return only


def _spare(stream: Stream, marks: Landmarks) -> Flags:
    """For each iteration whether its epoch began with a batch that was not trained with in its iteration."""
    first, length = runs(stream.epoch)
    return np.repeat(fetched_only(stream, marks)[first], length)


def _insert(
    stream: Stream, iteration: Ints, at: Ints, end: Ints, held: tuple[Ints, Ints] | None = None
) -> Ints:
    """An iteration after each of the iterations ``at``, from where that one closed to ``end``.

    ``held`` are the updates that lie in the new ones, and behind which iteration each of them does.
    """
    begin = stream.close[at]
    found = np.where(iteration >= 0, iteration + np.searchsorted(at, iteration), iteration)
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
