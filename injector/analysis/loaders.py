"""The loaders of a track, the iterations of the loops that they drive, and which updates lie in which.

An iteration begins with a fetch and ends with the loader's next fetch, or where the loader has run dry or is
started anew::

    io.start  io  ........  io  ........  io.end        io.start  io  ...
              `iteration 0` `iteration 1`  (dry)                  `iteration 2

Several loaders may be read at once: nested (a validation within the training), side by side (two domains), in
turns. :func:`share_out` decides for each update which loader's iteration it belongs to; the iterations that
hold updates become steps (:mod:`.iterations`). A loader may be one batch ahead of the training: the last
batch is then trained with after the loader ran dry, in an iteration without a fetch (:mod:`.read_ahead`).
"""

from __future__ import annotations

import numpy as np

from ..store.call_sites import CallSite
from ..store.spans import is_loaders
from ..value_class import state_class
from .arrays import OPEN, among, counts, kinds_of, median_of, merged, next_moment, places
from .columns import Flags, Ints
from .landmarks import Landmarks
from .tracks import Track, numbers_of

MANY = 32
"""Up to this number, loaders at one line are kept apart. More are one, made anew for each epoch or fold."""

Key = tuple[object, ...]
"""A loader by its object and the file and line where it is read."""


@state_class
class Stream:
    """The batches of one loader, or of several that belong together, with an iteration for each fetch."""

    keys: frozenset[int]
    """The numbers of its loaders."""
    rows: Ints
    """The row of the fetch that begins each iteration."""
    start: Ints
    """When each iteration begins, unix nanoseconds."""
    close: Ints
    """When it ends; :data:`OPEN` if nothing ends it."""
    epoch: Ints
    """How often the stream had run dry, or was started anew, before it."""
    left: Flags
    """Whether the loop was left by ``break`` in it: then only the next start of the loader ends it."""
    begin: Ints
    """When its fetch begins, with the start of the loader's iterator and workers just before it."""
    fetched: Ints
    """How many fetches it began with: 1, or 0 for one that was inserted by :mod:`.read_ahead`."""
    by_hand: bool = False
    """Whether the batches come from a function that makes one a call, which paces no steps."""


class Loaders:
    """The loaders of a track, each with a number (a key), and the rows of its fetches, starts and ends."""

    def __init__(self, marks: Landmarks) -> None:
        self.track = track = marks.track
        self.marks = marks
        fetching = {
            n: s for n, s in track.sites.items() if s.region in ("io", "io.start", "io.end")
        }
        keys, self.numbers = _loader_keys(fetching)
        table = np.full(1 + max(track.sites, default=0), -1, np.int64)
        for number, key in keys.items():
            table[number] = key
        self._loaders = {
            keys[n] for n, s in fetching.items() if is_loaders(s.object_id, s.selector)
        }
        self.key_of_fetch = table[track.site[marks.fetches]]
        self.key_of_end = table[track.site[marks.ends]]
        self.key_of_start = table[track.site[marks.starts]]
        self.learning = merged(track.start[marks.updates], track.start[marks.learning()])
        self.busy = merged(self.learning, track.start[marks.forward])

    def streams(self, merged: list[frozenset[int]]) -> list[Stream]:
        """A stream for each loader that has fetched. Each set of keys in ``merged`` is one stream."""
        groups = [*merged]
        merged_keys = frozenset().union(*merged)
        groups += [rest for group in self._same_source() if (rest := group - merged_keys)]
        return [self.stream(group) for group in groups]

    def _same_source(self) -> list[frozenset[int]]:
        """The keys grouped by the object that is loaded from, as far as what follows their fetches trains.

        ``next(it)`` may stand at two lines for one loop: the first batch, or the one after the last, is
        fetched apart. Fetches elsewhere for another purpose (to look at a batch, to validate) do not belong
        to it.
        """
        groups: dict[Key, set[int]] = {}
        for key in kinds_of(self.key_of_fetch):
            groups.setdefault(self.numbers[key][:1], set()).add(key)
        result: list[frozenset[int]] = []
        for source, group in groups.items():
            if len(group) == 1 or source == (None,):
                result += [frozenset({key}) for key in group]
                continue
            stream = self.stream(frozenset(group))
            trains = counts(self.learning, stream.start, stream.close) > 0
            trains |= self._learnt_later(stream)
            key_of_iteration = self.key_of_fetch[among(self.key_of_fetch, group)]
            # Now and then a validation's iteration holds an update that follows it.
            training = {key for key in group if trains[key_of_iteration == key].mean() >= 0.1}
            ahead = self._only_lead_to(stream, among(key_of_iteration, training))
            training |= {key for key in group if ahead[key_of_iteration == key].all()}
            result += [frozenset({key}) for key in group - training]
            if training:
                result.append(frozenset(training))
        return result

    def _only_lead_to(self, stream: Stream, trains: Flags) -> Flags:
        """Which iterations of ``stream`` call no model before the next fetch out of the same iterator, which
        one that ``trains`` makes: a loop that is one batch ahead fetches its first batch apart.
        """
        called = self.track.start[self.marks.forward]
        only_lead: Flags = counts(called, stream.start, stream.close) == 0
        only_lead &= np.append(trains[1:] & (stream.epoch[1:] == stream.epoch[:-1]), False)
        return only_lead

    def _learnt_later(self, stream: Stream) -> Flags:
        """Which iterations of ``stream`` call a model whose backward follows the next fetch."""
        called, backward = (
            self.track.start[rows] for rows in (self.marks.training, self.marks.backward)
        )
        begins = next_moment(backward, stream.close)
        learnt: Flags = counts(called, stream.start, stream.close) > 0
        learnt &= (begins < OPEN) & (counts(called, stream.close, begins) == 0)
        return learnt

    def stream(self, keys: frozenset[int]) -> Stream:
        """The fetches of ``keys`` as one stream of batches."""
        track = self.track
        rows = self.marks.fetches[among(self.key_of_fetch, keys)]
        ends = track.start[self.marks.ends[among(self.key_of_end, keys)]]
        start = track.start[rows]
        started = self.marks.starts[self._begins(keys)]
        # tqdm.auto starts a loader, and then starts it again to read it.
        restarts = track.start[
            started[np.append(True, started[1:] > started[:-1] + 1)[: len(started)]]
        ]
        begin, ends_dry = with_start(start, restarts, self.busy), ends
        if np.count_nonzero(begin < start) > len(rows) / 2:
            start = begin  # next(iter(loader)): each batch waits for that as well
        else:
            # The loop is over where the loader is started anew, even if it did not run dry.
            ends = merged(ends, restarts)
        close = np.concatenate((start[1:], [OPEN])) if len(start) else start
        limit = next_moment(ends, start)
        left = (limit < close) & (limit < next_moment(ends_dry, start))
        return Stream(keys, rows, start, np.minimum(close, limit), places(ends, start), left, begin,
                      np.ones(len(start), np.int64), not keys & self._loaders)  # fmt: skip

    def _begins(self, keys: frozenset[int]) -> Flags:
        """Which starts of a loader are those of ``keys``: at their lines, or, of ``it = iter(loader)`` above
        a loop of ``next(it)``, at a line that reads nothing, where ``keys`` have the loader's next fetch.
        """
        begun = self.track.start[self.marks.starts]
        begins: Flags = among(self.key_of_start, keys)
        reading = {*kinds_of(self.key_of_fetch), *kinds_of(self.key_of_end)}
        for source in {self.numbers[key][0] for key in keys} - {None}:
            own = {number for number, key in enumerate(self.numbers) if key[0] == source}
            is_own = among(self.key_of_fetch, own)
            following = places(self.track.start[self.marks.fetches[is_own]], begun)
            key_of_next = np.append(self.key_of_fetch[is_own], -1)[following]
            begins |= among(self.key_of_start, own - reading) & among(key_of_next, keys)
        return begins


def with_start(start: Ints, begun: Ints, busy: Ints) -> Ints:
    """When each fetch begins; the first one after a start of the loader's iterator begins with that.

    Unless the program computes in between, at the moments ``busy``: it may make an iterator at its begin, and
    read it in each epoch.
    """
    if not len(begun):
        return start
    last = places(begun, start) - 1
    latest_start = begun[np.maximum(last, 0)]
    fetch_before = np.concatenate(([np.iinfo(np.int64).min], start[:-1]))
    leads = (last >= 0) & (latest_start > fetch_before) & (counts(busy, latest_start, start) == 0)
    return np.where(leads, latest_start, start)


def _loader_keys(sites: dict[int, CallSite]) -> tuple[dict[int, int], list[Key]]:
    """For each site the number of its loader, and for each number what the loader is."""
    keys = {number: _key(site) for number, site in sites.items()}
    if len(set(keys.values())) > MANY:
        keys = {number: (None, *key[1:]) for number, key in keys.items()}
    numbers = numbers_of(keys.values())
    return {number: numbers[key] for number, key in keys.items()}, list(numbers)


def _key(site: CallSite) -> Key:
    place = site.place
    return (site.object_id, place.file, place.line) if place else (site.object_id, None, None)


def iterations_of(stream: Stream, track: Track, updates: Ints) -> Ints:
    """In which iteration of ``stream`` each of ``updates`` (rows) begins; -1 if in none."""
    moments = track.start[updates]
    iteration = places(stream.start, moments, "right") - 1
    if not len(stream.start):
        return iteration
    return np.where((iteration >= 0) & (moments < stream.close[iteration]), iteration, -1)


def share_out(streams: list[Stream], track: Track, updates: Ints) -> tuple[Ints, list[Ints]]:
    """To which of ``streams`` each update belongs (-1: to none), and for each stream :func:`iterations_of`
    all updates.

    Of several iterations around an update, the one with the fewest updates has it: of nested loaders that is
    the innermost. If they hold equally many (two loaders are read side by side), the loader with more such
    iterations has it, then the one that fetched first.
    """
    iterations = [iterations_of(stream, track, updates) for stream in streams]
    updates_in = [np.bincount(iteration[iteration >= 0], minlength=len(stream.start))
              for stream, iteration in zip(streams, iterations, strict=True)]  # fmt: skip
    ranking = sorted(
        range(len(streams)),
        key=lambda n: (-int(np.count_nonzero(updates_in[n])), int(streams[n].start[0])),
    )
    best = np.full(len(updates), -1, np.int64)
    fewest = np.full(len(updates), OPEN, np.int64)
    for n in ranking:
        rivals = _rivals(streams[n], iterations[n], updates_in[n])
        better = rivals < fewest
        best[better], fewest[better] = n, rivals[better]
    for n in ranking:
        # Only afterwards: an update that is given up must not go to a loader around it.
        best[_not_held(iterations[n], best == n, track.site[updates], streams[n])] = -1
    for n in ranking:
        own = best == n
        if own.any() and _is_only_open(streams, n, iterations[n], best, track, updates):
            best[own] = -1
    return best, iterations


def _is_only_open(
    streams: list[Stream], n: int, iteration: Ints, best: Ints, track: Track, updates: Ints
) -> bool:
    """Whether all updates of stream ``n`` follow fetches of another one, to which more at their sites belong.

    A validation that was left early may be open while that one runs dry, a batch ahead of its training.
    ``best`` says for each of ``updates`` which stream it belongs to, ``iteration`` in which of ``n`` it lies.
    """
    own = best == n
    iteration, moments, sites = iteration[own], track.start[updates[own]], track.site[updates]
    for m, other in enumerate(streams):
        if m == n or np.count_nonzero(best == m) <= len(moments):
            continue
        follows = counts(other.start, streams[n].start[iteration], moments) > 0
        is_single = (iteration == iteration[0]).all()
        if follows.all() and (is_single or among(sites[own], kinds_of(sites[best == m])).all()):
            return True
    return False


def _rivals(stream: Stream, iteration: Ints, updates_in: Ints) -> Ints:
    """For each update twice how many updates there are in its iteration; :data:`OPEN` for those in none.

    The last iteration of a loader that did not run dry has no end: another training may follow. Of its
    updates the first ones, as many as usual, have no more rivals than usual; but where the loop was left
    before an update, a loader that has the next one to itself keeps it.
    """
    if not len(updates_in):
        return np.full(len(iteration), OPEN)
    rivals: Ints = np.where(iteration >= 0, 2 * updates_in[iteration], OPEN)
    trained = updates_in[:-1][updates_in[:-1] > 0]
    if stream.close[-1] == OPEN and len(trained):
        usual = int(median_of(trained))
        first = np.flatnonzero(iteration == len(updates_in) - 1)[:usual]
        rivals[first] = np.minimum(rivals[first], 2 * usual + 1)
    return rivals


def _not_held(iteration: Ints, is_own: Flags, site: Ints, stream: Stream) -> Ints:
    """Those of a stream's updates, by index, that lie in an iteration only because nothing ended it."""
    own = np.flatnonzero(is_own)
    if not len(own):
        return own
    updates_in = np.bincount(iteration[own], minlength=len(stream.start))
    trained = np.flatnonzero(updates_in)
    if len(trained) == 1:
        # One batch for a whole program: the updates pace it.
        kinds = len(kinds_of(site[own]))
        return own if len(own) > kinds else own[:0]
    last = trained[-1]
    usual = int(median_of(updates_in[trained[:-1]]))
    # An open last iteration holds all that is trained after the loop: twice as many updates as usual are
    # too many. In a closed one they may be the program's way (several passes over what an agent has
    # collected), so that only ten times as many are.
    limit = np.full(len(updates_in), 10 * usual + 10)
    if stream.close[last] == OPEN:
        limit[last] = 2 * usual + 1
    overfull = np.flatnonzero(updates_in > limit)
    if not len(overfull):
        return own[:0]
    surplus = [own[iteration[own] == which][usual:] for which in overfull]
    return np.concatenate(surplus)
