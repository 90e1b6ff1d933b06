"""The spans of one thread, or of one device, as a forest: which lies in which.

All of it is vectorised: a track may hold tens of millions of spans.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ..store.call_sites import OWN, CallSite
from ..store.spans import updates
from .arrays import among, counts, kinds_of, merged, places
from .columns import COMPILED, PREDICT, TRYING, Flags, Ints, SpanColumns, evaluates

Numbers = npt.NDArray[np.int32]
_CUTS = 32
"""Rounds in which spans that overlap without enclosing each other are brought into order."""


class Track:
    """Rows in the order of their start, whatever encloses others before them: each is a span, or a piece.

    A span that begins in another but outlasts it (a region that ends elsewhere, coroutines that take
    turns) is divided where the other ends: a piece lies in it, the next beside it. So each moment belongs to
    the span that began last of those that have not ended, nothing is counted twice, and nothing is lost.
    What counts spans, or measures them whole, takes the rows that are no :attr:`rest`, and :attr:`end`.
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
        """When the row ended: of a span that was divided, this piece of it."""
        self.begun: Ints | None = None
        """For each row the row that its span begins with; None where no span was divided."""
        self._nest()
        width = 1 + max(sites, default=0)
        # A sort of narrow numbers counts them, and takes a fraction of the time.
        narrow = self.site.astype(np.uint16) if width <= 1 << 16 else self.site
        self._by_site = np.argsort(narrow, kind="stable")
        self._by_site.flags.writeable = False
        self._ends = np.cumsum(np.bincount(self.site, minlength=width))
        self.kinds: list[int] = np.flatnonzero(np.diff(self._ends, prepend=0)).tolist()
        """The sites that it has rows of."""

    def __len__(self) -> int:
        return len(self.start)

    @property
    def rest(self) -> Flags | None:
        """Which rows go on with a span that another row begins; None where no span was divided."""
        return None if self.begun is None else self.begun != np.arange(len(self))

    def _nest(self) -> None:
        nested = _nested(self.start, self.until)
        if nested is not None:
            self.depth, self.parent = nested
            return
        for _ in range(_CUTS):
            self.depth = _depths(self.start, self.until)
            self.parent = _parents(self.depth)
            inner = np.flatnonzero(self.parent >= 0)
            limit = self.until[self.parent[inner]]
            late = inner[self.until[inner] > limit]
            if not len(late):
                return
            # What looks like an enclosing span may itself be cut before this one begins: once more.
            limit = self.until[self.parent[late]]
            late, limit = late[limit > self.start[late]], limit[limit > self.start[late]]
            if not len(late):
                break
            self._divide(late, limit)
        self._cut()

    def _divide(self, rows: Ints, at: Ints) -> None:
        """Let ``rows`` end at these moments, and go on in rows of their own."""
        n = len(self)
        begun = np.arange(n) if self.begun is None else self.begun
        until = np.concatenate((self.until, self.until[rows]))
        until[rows] = at
        start, end = np.concatenate((self.start, at)), np.concatenate((self.end, self.end[rows]))
        begun = np.concatenate((begun, begun[rows]))
        # Of pieces that begin together, that of the span which began first encloses the others.
        order = np.lexsort((begun, start))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self.start, self.until, self.end = start[order], until[order], end[order]
        self.begun = place[begun[order]]
        self.payload = np.concatenate((self.payload, np.zeros(len(rows), np.int64)))[order]
        self.site = np.concatenate((self.site, self.site[rows]))[order]

    def _cut(self) -> None:
        """Bring into order what so many rounds did not: more is open at once than they are."""
        until: list[int] = []
        opened: list[int] = []
        for start, end in zip(self.start.tolist(), self.until.tolist(), strict=True):
            while opened and opened[-1] <= start:
                opened.pop()
            until.append(min(end, opened[-1]) if opened else end)
            opened.append(until[-1])
        self.until = np.array(until, np.int64)
        self.depth = _depths(self.start, self.until)
        self.parent = _parents(self.depth)

    def lanes(self) -> list[Ints]:
        """The rows with which spans begin, in lists in which each encloses what it overlaps, whole."""
        if self.begun is None:
            return [np.arange(len(self))]
        lanes: list[tuple[list[int], list[int]]] = []
        rows = np.flatnonzero(self.begun == np.arange(len(self)))
        for row, start, end in zip(
            rows.tolist(), self.start[rows].tolist(), self.end[rows].tolist(), strict=True
        ):
            for _, opened in lanes:
                while opened and opened[-1] <= start:
                    opened.pop()
            free = (lane for lane in lanes if not lane[1] or lane[1][-1] >= end)
            lane = next(free, ([], []))
            if not lane[0]:
                lanes.append(lane)
            lane[0].append(row)
            lane[1].append(end)
        return [np.array(mine) for mine, _ in lanes]

    def table(self, of: Callable[[CallSite], int], rows: Ints | None = None) -> Ints:
        """A number for each row, or for some, that its site stands for."""
        return lookup(self.sites, of)[self.site if rows is None else self.site[rows]]

    def flags(self, test: Callable[[CallSite], bool]) -> Flags:
        """Whether the site of each row passes ``test``."""
        passing = [n for n in self.kinds if test(self.sites[n])]
        if len(passing) in (0, len(self.kinds)):
            return np.full(len(self), bool(passing))
        return among(self.site, passing)

    def of_site(self, number: int) -> Ints:
        """The rows of a site, in order."""
        return self._by_site[self._ends[number - 1] if number else 0 : self._ends[number]]

    def where(self, test: Callable[[CallSite], bool]) -> Ints:
        """The rows with which the spans begin whose sites pass ``test``, in order."""
        passing = [self.of_site(number) for number in self.kinds if test(self.sites[number])]
        if not passing:
            return np.empty(0, np.int64)
        rows = passing[0] if len(passing) == 1 else merged(*passing)
        return rows if self.begun is None else rows[self.begun[rows] == rows]

    def only(self, rows: Ints, test: Callable[[CallSite], bool]) -> Ints:
        """Of ``rows``, those whose sites pass ``test``."""
        passing = [number for number in self.kinds if test(self.sites[number])]
        if len(passing) == len(self.kinds):
            return rows
        return rows[among(self.site[rows], passing)] if passing else rows[:0]

    def apart(self, rows: Ints) -> bool:
        """Whether none of ``rows`` lies in anything."""
        return self.begun is None and not self.depth[rows].any()

    def outermost(self, rows: Ints, end: Ints | None = None) -> Ints:
        """Of ``rows``, in order, those that begin in no other of them; ``end`` is that of each row."""
        if len(rows) < 2 or self.apart(rows):
            return rows
        latest = np.maximum.accumulate((self.end if end is None else end)[rows])[:-1]
        return rows[np.concatenate(([True], self.start[rows[1:]] >= latest))]

    def region(self, *names: str) -> Ints:
        """The outermost spans of regions of these names, in order."""
        return self.outermost(self.where(lambda site: site.region in names))


Name = TypeVar("Name", bound=Hashable)


def numbers_of(names: Iterable[Name]) -> dict[Name, int]:
    """A number for each of ``names`` in the order of their first use: a study has thousands of call sites."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def lookup(sites: dict[int, CallSite], of: Callable[[CallSite], int], otherwise: int = 0) -> Ints:
    """``of`` each site, at the place of its number."""
    found = np.full(1 + max(sites, default=0), otherwise, np.int64)
    for number, site in sites.items():
        found[number] = of(site)
    return found


def _order(start: Ints, end: Ints) -> Ints | None:
    """How to sort by start, enclosing spans first; None where nothing is to be done.

    A thread's spans come in the order of their ends, so that of two which begin at the same moment
    the later one encloses the other.
    """
    if len(start) < 2:
        return None
    rising = bool((start[1:] > start[:-1]).all())
    if rising:
        return None
    if not (end[1:] >= end[:-1]).all():
        order: Ints = np.lexsort((-np.arange(len(start)), -end, start))
        return order
    order = np.argsort(start, kind="stable").astype(np.int64, copy=False)
    begins = start[order]
    same = begins[1:] == begins[:-1]
    if not same.any():
        return order
    first = np.flatnonzero(np.concatenate(([True], ~same)))
    last = np.concatenate((first[1:], [len(start)])) - 1
    group = np.repeat(np.arange(len(first)), last - first + 1)
    turned: Ints = order[first[group] + last[group] - np.arange(len(start))]
    return turned


def _nested(start: Ints, end: Ints) -> tuple[Numbers, Ints] | None:
    """:func:`_depths` and :func:`_parents` of spans that lie in each other whole, or not at all.

    None where some do otherwise, or have no length. Level by level: what begins after all before it have
    ended lies in nothing, and the others are treated the same way. For that nothing is sorted or searched,
    which takes several times as long.
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
        parent[rows] = outer[inner - np.arange(1, len(inner) + 1)]  # the last one before
    return depth, parent


def _depths(start: Ints, end: Ints) -> Numbers:
    """How many spans before each, in order, have not ended when it begins."""
    n = len(start)
    empty = start == end
    over: Ints = np.searchsorted(np.sort(end, kind="stable"), start, side="right")
    if empty.any():
        # Spans without length that begin right here, this one and later ones, are not over before.
        last = np.searchsorted(start, start, side="right") - 1
        total = np.cumsum(empty)
        over = over - (total[last] - total + empty)
    return (np.arange(n) - over).astype(np.int32)


def _parents(depth: Numbers) -> Ints:
    """For each span the one that it lies in, -1 for none."""
    parent = np.full(len(depth), -1, np.int64)
    if not len(depth):
        return parent
    above = np.flatnonzero(depth == 0)
    for level in range(1, int(depth.max()) + 1):
        rows = np.flatnonzero(depth == level)
        if not len(rows):
            break
        parent[rows] = above[places(above, rows) - 1]
        above = rows
    return parent


def split(rows: SpanColumns, sites: dict[int, CallSite], clock: str) -> dict[int | str, Track]:
    """The tracks of one clock: of the host by thread, of devices by device."""
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
    mine = None if len(numbers) == len(sites) else among(rows.site, numbers)
    if mine is None or mine.all():
        return Track(sites, rows.start, rows.end, rows.payload, rows.site)
    return Track(sites, rows.start[mine], rows.end[mine], rows.payload[mine], rows.site[mine])


LAYERS = ("layer", "layer.backward")
"""Calls of the layers of models, and what gradients take in them: each lies in a region of its own right."""
STRUCTURE = frozenset({"step", "epoch", "evaluation", "io.end", *LAYERS})
"""Regions that are no parts of a step but say what others belong to."""


def is_update(site: CallSite) -> bool:
    """Whether the weights of a model are updated there."""
    return updates(site.region, site.phase)


def _is_forward(site: CallSite) -> bool:
    """Whether a model is called there; code that was compiled with its update calls it, too."""
    return site.region == "forward" or (
        site.region in ("compiled", "gradients") and is_update(site)
    )


class Landmarks:
    """Rows of a track by what they mean, each in order of time and none inside another of its kind."""

    def __init__(self, track: Track) -> None:
        self.track = track
        self.steps = _held_by_none(
            track, track.where(lambda site: site.region == "step" and not evaluates(site))
        )
        """Those that overlap stand each for itself."""
        self.passes = track.outermost(track.where(_is_pass))
        self.fetches = track.outermost(_seen(track, lambda site: site.region == "io"))
        self.ends = track.region("io.end")
        self.starts = track.region("io.start")
        # A module that is called while a batch is made transforms it.
        forward = _not_inside(track, track.outermost(_seen(track, _is_forward)), self.fetches)
        self.backward = _not_inside(
            track, track.outermost(_seen(track, lambda site: site.region == "backward")), forward
        )
        """Those of losses. A model that differentiates what it computes (forces) trains nothing by it."""
        # What backward computes anew, or solves without gradients (an adjoint), is a part of it.
        self.forward = forward = _not_inside(track, forward, self.backward)
        self.tried = track.only(forward, lambda site: site.phase in TRYING)
        """Forwards that say they only evaluate."""
        self.learnt = track.only(forward, lambda site: site.phase not in TRYING)
        """All the others."""
        self.trained = track.only(forward, lambda site: site.phase == "train")
        self.updates = self._updates()

    def without_optimizers(self) -> None:
        """Take each backward for an update: a program that calls several moves the weights by hand."""
        if len(self.backward) > 1:
            self.updates = self.backward

    def without_training(self) -> None:
        """Have all calls of models be those of steps: of a run that trains nothing, batches are the steps."""
        track = self.track
        others = track.region(PREDICT, COMPILED)
        rows = np.concatenate((self.of_models(self.forward), others))
        self.learnt = track.outermost(np.sort(rows))
        self.steps = track.outermost(track.where(lambda site: site.region == "step"))
        self.trained = self.tried = self.passes = self.updates = rows[:0]

    def of_models(self, calls: Ints) -> Ints:
        """Of ``calls`` in an evaluation those of models.

        A loss has no mode: without gradients it is seen to predict, as a model that was left in its mode
        for training is.
        """
        track, sites = self.track, self.track.sites
        trained = {sites[n].object_id for n in kinds_of(track.site[self.trained])}
        known = {
            n for n, site in sites.items() if site.phase == "eval" or site.object_id in trained
        }
        probes = {sites[n].selector for n in kinds_of(track.site[calls]) if n in known}
        beside = [n for n, site in sites.items() if n not in known and site.selector in probes]
        return calls[~np.isin(track.site[calls], beside)]

    @property
    def optimizes(self) -> bool:
        """Whether an optimizer was stepped, for whatever purpose."""
        return len(self.track.where(is_update)) > 0

    def _updates(self) -> Ints:
        track = self.track
        rows = _seen(track, is_update)
        rows = track.outermost(track.only(rows, lambda site: not evaluates(site)))
        # What is updated within an evaluation (a probe on frozen features) is no step of the training.
        return _not_inside(track, rows, self.passes)


def _seen(track: Track, test: Callable[[CallSite], bool]) -> Ints:
    """The spans of a region, whose sites pass ``test``. A span of the program's own ``injector.region`` or
    ``Timer`` is left out where a probe has seen what is called within it: that knows the object, its phase
    and the items.
    """
    rows = track.where(test)
    others = track.only(rows, lambda site: site.selector != OWN)
    if 0 < len(others) < len(rows):
        own = track.table(lambda site: site.selector == OWN, rows) == 1
        empty = counts(track.start[others], track.start[rows], track.end[rows]) == 0
        rows = rows[~own | empty]
    return rows


def _held_by_none(track: Track, rows: Ints) -> Ints:
    """Of ``rows``, in order, those that lie whole in no other of them."""
    if track.apart(rows):
        return rows
    latest = np.maximum.accumulate(track.end[rows])[:-1]
    apart = np.ones(len(rows), np.bool_)
    apart[1:] = track.end[rows[1:]] > latest
    found: Ints = rows[apart]
    return found


def _not_inside(track: Track, rows: Ints, of: Ints) -> Ints:
    """Of ``rows``, those that lie in none of ``of``, which do not overlap."""
    if not len(of) or not len(rows) or track.apart(rows):
        return rows
    last = places(track.start[of], track.start[rows], "right") - 1
    return rows[(last < 0) | (track.end[rows] > track.end[of[last]])]


def _is_pass(site: CallSite) -> bool:
    return site.region == "evaluation" or (site.region in ("step", "epoch") and evaluates(site))
