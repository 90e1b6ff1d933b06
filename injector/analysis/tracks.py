"""Tracks: the spans of one thread, or of one device, and which span lies in which.

Spans of a thread mostly nest, as calls do. A track has for each row its ``depth`` and its ``parent``::

    row 0  step      |--------------------------|     depth 0  parent -1
    row 1  forward     |----------|                   depth 1  parent 0
    row 2  comm           |---|                       depth 2  parent 1
    row 3  backward                 |-------|         depth 1  parent 0

Spans that overlap without nesting are divided, so that the pieces nest (:class:`Track`).
All of it is vectorised: a track may hold tens of millions of spans.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ..store.call_sites import CallSite
from .arrays import among, merged, nesting, places
from .columns import Flags, Ints, SpanColumns

Numbers = npt.NDArray[np.int32]
_ROUNDS = 32
"""How many times spans that overlap without nesting are divided, before a slower way does the rest."""


class Track:
    """Rows in the order of their start, enclosing spans first. Each row is a span, or a piece of one.

    A span may begin in another and outlast it: a region that ends elsewhere, coroutines that take turns. Such
    a span is divided where the other ends; its first piece lies in the other, the next one beside it. So each
    moment belongs to the span that began last of those that are still open, and no time is counted twice or
    lost::

        outer  |----------|               outer  |----------|
        late         |---------|    =>    late         |----||---|

    Where spans are counted, or measured whole, take the rows that are not in :attr:`rest`, and :attr:`end`.
    """

    def __init__(
        self, sites: dict[int, CallSite], start: Ints, end: Ints, payload: Ints, site: Ints
    ) -> None:
        order = _order(start, end)
        if order is not None:
            start, end, payload, site = start[order], end[order], payload[order], site[order]
        self.sites = sites
        self.start, self.payload, self.site = start, payload, site
        self.end = end
        """When the whole span ended."""
        self.until = end
        """When the row ended: for a span that was divided, this piece of it."""
        self.begun: Ints | None = None
        """For each row the first row of its span; None if no span was divided."""
        self._nest()
        width = 1 + max(sites, default=0)
        # NumPy sorts 16-bit numbers by counting, in a fraction of the time that wider ones take.
        narrow = self.site.astype(np.uint16) if width <= 1 << 16 else self.site
        self._by_site = np.argsort(narrow, kind="stable")
        self._by_site.flags.writeable = False
        self._ends = np.cumsum(np.bincount(self.site, minlength=width))
        self.kinds: list[int] = np.flatnonzero(np.diff(self._ends, prepend=0)).tolist()
        """The numbers of the sites that have rows here."""

    def __len__(self) -> int:
        return len(self.start)

    @property
    def rest(self) -> Flags | None:
        """Which rows continue a span that began in an earlier row; None if no span was divided."""
        return None if self.begun is None else self.begun != np.arange(len(self))

    def _nest(self) -> None:
        """Set ``depth`` and ``parent``, dividing spans until all of them nest."""
        # Nearly every track nests already, and this takes a fraction of the time.
        nested = _nested(self.start, self.until)
        if nested is not None:
            self.depth, self.parent = nested
            return
        for _ in range(_ROUNDS):
            self.depth = _depths(self.start, self.until)
            self.parent = _parents(self.depth)
            inner = np.flatnonzero(self.parent >= 0)
            limit = self.until[self.parent[inner]]
            late = inner[self.until[inner] > limit]
            if not len(late):
                return
            # A parent may itself have been divided just now and end before this row begins: its parent is
            # found anew in the next round.
            limit = self.until[self.parent[late]]
            late, limit = late[limit > self.start[late]], limit[limit > self.start[late]]
            if not len(late):
                break
            self._divide(late, limit)
        self._clip()

    def _divide(self, rows: Ints, at: Ints) -> None:
        """End ``rows`` at the moments ``at``, and add a row for the rest of each."""
        n = len(self)
        begun = np.arange(n) if self.begun is None else self.begun
        until = np.concatenate((self.until, self.until[rows]))
        until[rows] = at
        start, end = np.concatenate((self.start, at)), np.concatenate((self.end, self.end[rows]))
        begun = np.concatenate((begun, begun[rows]))
        # Of pieces that begin together, the one whose span began first encloses the others.
        order = np.lexsort((begun, start))
        new_row = np.empty(len(order), np.int64)
        new_row[order] = np.arange(len(order))
        self.start, self.until, self.end = start[order], until[order], end[order]
        self.begun = new_row[begun[order]]
        self.payload = np.concatenate((self.payload, np.zeros(len(rows), np.int64)))[order]
        self.site = np.concatenate((self.site, self.site[rows]))[order]

    def _clip(self) -> None:
        """Make the rows nest by clipping each to the one around it.

        For a track with more spans open at once than there are rounds: hundreds of coroutines, for example.
        What is clipped here counts for no region.
        """
        until: list[int] = []
        open_ends: list[int] = []
        for start, end in zip(self.start.tolist(), self.until.tolist(), strict=True):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            until.append(min(end, open_ends[-1]) if open_ends else end)
            open_ends.append(until[-1])
        self.until = np.array(until, np.int64)
        self.depth = _depths(self.start, self.until)
        self.parent = _parents(self.depth)

    def lanes(self) -> list[Ints]:
        """The first rows of all spans, as few lists as it takes for whole spans to nest within each list.

        A viewer that draws undivided spans needs one lane for each list.
        """
        if self.begun is None:
            return [np.arange(len(self))]
        rows = np.flatnonzero(self.begun == np.arange(len(self)))
        return [rows[lane] for lane in nesting(self.start[rows], self.end[rows])]

    def table(self, of: Callable[[CallSite], int], rows: Ints | None = None) -> Ints:
        """``of`` the site of each row, or of each of ``rows``: one integer a row."""
        return lookup(self.sites, of)[self.site if rows is None else self.site[rows]]

    def flags(self, test: Callable[[CallSite], bool]) -> Flags:
        """Whether the site of each row passes ``test``."""
        passing = [n for n in self.kinds if test(self.sites[n])]
        if len(passing) in (0, len(self.kinds)):
            return np.full(len(self), bool(passing))
        return among(self.site, passing)

    def of_site(self, number: int) -> Ints:
        """All rows of a site, in order."""
        return self._by_site[self._ends[number - 1] if number else 0 : self._ends[number]]

    def where(self, test: Callable[[CallSite], bool]) -> Ints:
        """The first rows of the spans whose sites pass ``test``, in order."""
        passing = [self.of_site(number) for number in self.kinds if test(self.sites[number])]
        if not passing:
            return np.empty(0, np.int64)
        rows = passing[0] if len(passing) == 1 else merged(*passing)
        return rows if self.begun is None else rows[self.begun[rows] == rows]

    def only(self, rows: Ints, test: Callable[[CallSite], bool]) -> Ints:
        """Those of ``rows`` whose sites pass ``test``."""
        passing = [number for number in self.kinds if test(self.sites[number])]
        if len(passing) == len(self.kinds):
            return rows
        return rows[among(self.site[rows], passing)] if passing else rows[:0]

    def apart(self, rows: Ints) -> bool:
        """Whether it is certain that none of ``rows`` lies in another span."""
        return self.begun is None and not self.depth[rows].any()

    def outermost(self, rows: Ints, end: Ints | None = None) -> Ints:
        """Those of ``rows``, in order, that begin in no other of them.

        ``end``, if given, has an end for each track row.
        """
        if len(rows) < 2 or self.apart(rows):
            return rows
        latest = np.maximum.accumulate((self.end if end is None else end)[rows])[:-1]
        return rows[np.concatenate(([True], self.start[rows[1:]] >= latest))]

    def region(self, *names: str) -> Ints:
        """The outermost spans of the regions with these ``names``, in order."""
        return self.outermost(self.where(lambda site: site.region in names))


Name = TypeVar("Name", bound=Hashable)


def numbers_of(names: Iterable[Name]) -> dict[Name, int]:
    """A number for each distinct name, in the order of first use. (A study has thousands of call sites.)"""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def lookup(sites: dict[int, CallSite], of: Callable[[CallSite], int], otherwise: int = 0) -> Ints:
    """An array with ``of(site)`` at the index of each site's number, and ``otherwise`` elsewhere."""
    values = np.full(1 + max(sites, default=0), otherwise, np.int64)
    for number, site in sites.items():
        values[number] = of(site)
    return values


def object_number(site: CallSite) -> int:
    """The number of the loader, model or optimizer that the site's calls are of; -1 for none."""
    return -1 if site.object_id is None else site.object_id


def _order(start: Ints, end: Ints) -> Ints | None:
    """The permutation that sorts spans by start, enclosing ones first; None if they are in that order.

    A thread records each span when it ends, so of two that begin at the same moment, the later one in the
    file encloses the other.
    """
    if len(start) < 2:
        return None
    rising = bool((start[1:] > start[:-1]).all())
    if rising:
        return None
    # Devices and merged threads: the ends are in no order, so that the whole comparison is needed.
    if not (end[1:] >= end[:-1]).all():
        order: Ints = np.lexsort((-np.arange(len(start)), -end, start))
        return order
    order = np.argsort(start, kind="stable").astype(np.int64, copy=False)
    begins = start[order]
    # Ends rise, as in any one thread: a stable sort by start, with each group of equal starts turned round.
    same_start = begins[1:] == begins[:-1]
    if not same_start.any():
        return order
    first = np.flatnonzero(np.concatenate(([True], ~same_start)))
    last = np.concatenate((first[1:], [len(start)])) - 1
    group = np.repeat(np.arange(len(first)), last - first + 1)
    reversed_groups: Ints = order[first[group] + last[group] - np.arange(len(start))]
    return reversed_groups


def _nested(start: Ints, end: Ints) -> tuple[Numbers, Ints] | None:
    """:func:`_depths` and :func:`_parents` of spans that all nest; None if some do not, or have no length.

    It goes level by level. What begins after all spans before it have ended lies in nothing; the others are
    treated the same way, one level deeper. Nothing is sorted or searched, which would take far longer.
    """
    depth, parent = np.zeros(len(start), np.int32), np.full(len(start), -1, np.int64)
    if (start == end).any():
        return None
    rows = np.arange(len(start))
    while len(rows):
        latest = np.maximum.accumulate(end)[:-1]
        within = start[1:] < latest
        inner = np.flatnonzero(within) + 1
        if not len(inner):
            break
        start, end, latest = start[inner], end[inner], latest[inner - 1]
        if (end > latest).any():
            return None
        outer = rows[np.concatenate(([True], ~within))]
        rows = rows[inner]
        depth[rows] += 1
        parent[rows] = outer[inner - np.arange(1, len(inner) + 1)]  # the last outer row before it
    return depth, parent


def _depths(start: Ints, end: Ints) -> Numbers:
    """For each span, in order of start, how many of those before it are still open when it begins."""
    n = len(start)
    empty = start == end
    ended_before: Ints = np.searchsorted(np.sort(end, kind="stable"), start, side="right")
    if empty.any():
        # An empty span ends where it begins: this one, and those after it at the same moment, have been
        # counted as ended before, which they are not.
        last = np.searchsorted(start, start, side="right") - 1
        total = np.cumsum(empty)
        ended_before = ended_before - (total[last] - total + empty)
    return (np.arange(n) - ended_before).astype(np.int32)


def _parents(depth: Numbers) -> Ints:
    """For each span the row that it lies in, or -1, out of the depths of all."""
    parent = np.full(len(depth), -1, np.int64)
    if not len(depth):
        return parent
    upper_rows = np.flatnonzero(depth == 0)
    for level in range(1, int(depth.max()) + 1):
        rows = np.flatnonzero(depth == level)
        if not len(rows):
            break
        # The parent is the last row before it that is one level higher.
        parent[rows] = upper_rows[places(upper_rows, rows) - 1]
        upper_rows = rows
    return parent


def split(rows: SpanColumns, sites: dict[int, CallSite], clock: str) -> dict[int | str, Track]:
    """The tracks of one ``clock``: ``"host"``, by number of the thread, or ``"device"``, by its name."""
    keys: dict[int | str, list[int]] = {}
    for number, site in sites.items():
        if site.clock == clock:
            key = site.thread if clock == "host" else site.device or ""
            keys.setdefault(key, []).append(number)
    tracks: dict[int | str, Track] = {}
    for key in sorted(keys, key=str):
        track = _track_of(rows, sites, keys[key])
        if len(track):
            tracks[key] = track
    return tracks


def _track_of(rows: SpanColumns, sites: dict[int, CallSite], numbers: list[int]) -> Track:
    chosen = None if len(numbers) == len(sites) else among(rows.site, numbers)
    if chosen is None or chosen.all():
        # The columns themselves: a copy of each would double the memory of most processes.
        return Track(sites, rows.start, rows.end, rows.payload, rows.site)
    return Track(
        sites, rows.start[chosen], rows.end[chosen], rows.payload[chosen], rows.site[chosen]
    )


LAYERS = ("layer", "layer.backward")
"""Calls of single layers of a model, and their gradients: each lies in a forward or backward."""
STRUCTURE = frozenset({"step", "epoch", "evaluation", "eval_mode", "io.end", *LAYERS})
"""Regions that are not shown as parts of a step: they say what other spans belong to."""
