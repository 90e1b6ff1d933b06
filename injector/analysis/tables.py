"""What each step of a track spent in each region, as columns."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from functools import reduce

import numpy as np
import numpy.typing as npt

from ..store.call_sites import CallSite, SourceLine
from ..store.spans import START, WAIT, gives
from ..value_class import field, state_class
from .arrays import ExcludedIntervals, distinct, owners, places, warmup_of
from .columns import SECOND, Flags, Ints
from .profile import READING
from .steps import TrackSteps
from .tracks import STRUCTURE, Track, lookup, numbers_of

Seconds = npt.NDArray[np.float32]
"""One a step. Ten million steps with a dozen regions have to fit into memory."""
Name = tuple[str, SourceLine | None]
"""A region by its line."""
Path = tuple[Name, ...]
"""A region by its line, inside another, …, inside the step."""
LINES = 6
"""Lines of one region that are kept apart."""
_MOSTLY = 0.8


@state_class
class Column:
    """One region at one line within each step."""

    seconds: Seconds
    calls: float
    """In a step, on average over all steps after the warm-up, as is ``nbytes``."""
    what: frozenset[str] = frozenset()
    nbytes: float | None = None
    device: Seconds | None = None
    timed: Flags | None = None
    """Of which steps ``device`` is known; None for all."""
    idle: Seconds | None = None
    """Of ``seconds``, those in which its device had nothing queued; None where no device has a clock."""

    def device_filled(self) -> Seconds:
        """``device``, where it is not known the mean of what is."""
        device, timed = _known(self.device), self.timed
        if timed is None or not timed.any():
            return device
        filled: Seconds = np.where(timed, device, device[timed].mean(dtype=np.float64))
        return filled.astype(np.float32)


@state_class
class StepTable:
    """All regions of all steps of one track."""

    seconds: Seconds
    """Of each step, without what is cut out of it."""
    columns: dict[Path, Column] = field(default_factory=dict)
    """Parents before children."""
    device: Seconds | None = None
    """Seconds of the device for the step as a whole, where that was timed."""
    idle: Seconds | None = None
    """As that of a :class:`Column`, of the step as a whole."""
    timed: Flags | None = None
    """In which steps the device's time of all regions is known; None for all. Of others, ``idle`` is not."""
    copying: Seconds | None = None
    """Of each step, the time in which the device copied batches that were queued for it."""
    crossed: frozenset[tuple[Name, Name]] = frozenset()
    """Regions that begin in another one and outlast it: the one that begins later first."""

    def own(self, path: Path) -> Seconds:
        """What ``path`` takes without the regions inside it: not kept, as of all ranks it is much."""
        whole = self.columns[path].seconds if path else self.seconds
        return _without(whole, [each.seconds for each in self._inside(path)])

    def _own_idle(self, path: Path) -> Seconds:
        whole = self.columns[path].idle if path else self.idle
        inside = [each.idle for each in self._inside(path)]
        return _without(_known(whole), [_known(each) for each in inside])

    def _inside(self, path: Path) -> list[Column]:
        return [
            column
            for other, column in self.columns.items()
            if len(other) == len(path) + 1 and other[:-1] == path
        ]

    def regions(self) -> dict[str, Seconds]:
        """The step divided among regions of different names, ``other`` included.

        What is done inside of a wait for a batch is a part of that wait.
        """
        return self._divided(self.own)

    def region(self, name: str) -> Seconds | None:
        """One of :meth:`regions`; None where there is none of this name."""
        found = [self.own(path) for path in self.columns if _shown_as(path) == name]
        return reduce(operator.add, found) if found else None

    def idle_regions(self) -> dict[str, Seconds]:
        """Of each of :meth:`regions`, the time in which the device had nothing queued.

        Nothing is known of that where :attr:`idle` is None.
        """
        return self._divided(self._own_idle)

    def _divided(self, own: Callable[[Path], Seconds]) -> dict[str, Seconds]:
        found: dict[str, Seconds] = {"other": own(())}
        for path in self.columns:
            name = _shown_as(path)
            found[name] = found[name] + own(path) if name in found else own(path)
        return found

    def busy(self, without: str = "") -> Seconds | None:
        """Seconds of the device, for all but the region ``without``; None where there is no device clock.

        A step of which they are not known has the mean of those of which they are.
        """
        timed = {path for path, column in self.columns.items() if column.device is not None}
        total = None
        for path in timed:
            if any(path[:n] in timed for n in range(1, len(path))):
                continue
            device = self.columns[path].device_filled()
            total = device if total is None else total + device
        if total is None or not without:
            return total
        for path in timed:
            if path[-1][0] == without and not any(name == without for name, _ in path[:-1]):
                total = total - self.columns[path].device_filled()
        return np.maximum(total, 0)


def _shown_as(path: Path) -> str:
    return "io" if _reads(path[:-1]) else path[-1][0]


def _without(whole: Seconds, inside: list[Seconds]) -> Seconds:
    if not inside:
        return whole
    left = whole - inside[0]
    for seconds in inside[1:]:
        left -= seconds
    np.maximum(left, 0, out=left)
    return left


def _known(seconds: Seconds | None) -> Seconds:
    assert seconds is not None
    return seconds


@state_class
class Pieces:
    """The spans that are parts of steps."""

    row: Ints
    step: Ints
    seconds: npt.NDArray[np.float64]
    whole: Flags
    """Whether the piece counts as a call: of a span that lies in two steps, only the larger one does."""
    path: Ints
    """For every row of the track, the number of its path; -1 for what is no part of a step."""
    paths: list[Path]
    step_of: Ints
    """For every row of the track, the step that it counts in; -1 for none."""
    crossed: frozenset[tuple[Name, Name]] = frozenset()
    """As those of a :class:`StepTable`."""
    times: tuple[Ints, Ints] | None = None
    """When each begins and ends, where a device has to be looked for: it is much of long runs."""

    def of_steps(self, which: Ints, n: int) -> Pieces:
        """Those of some of the ``n`` steps, which are numbered anew."""
        number = np.full(n + 1, -1, np.int64)  # the last one stands for no step
        number[which] = np.arange(len(which))
        step = number[self.step]
        mine = step >= 0
        return Pieces(
            self.row[mine],
            step[mine],
            self.seconds[mine],
            self.whole[mine],
            self.path,
            self.paths,
            number[self.step_of],
            self.crossed,
            None if self.times is None else (self.times[0][mine], self.times[1][mine]),
        )


def pieces_of(
    track: Track, steps: TrackSteps, excluded: ExcludedIntervals, timed: bool = False
) -> Pieces:
    """Which spans of ``track`` lie in which of ``steps``; ``timed``: and when."""
    first = places(track.start, steps.start)
    last = places(track.start, steps.end)
    owner = _owners(first, last, len(track))
    apart = track.flags(lambda site: site.region in STRUCTURE)
    if len(excluded):
        apart = apart | excluded.hold(track.start)
    apart = _without_itself(track, apart)
    part = (owner >= 0) & ~apart
    # Where the owner is -1 this looks at any step: part has decided already.
    inside = part & (track.until <= steps.end[owner]) if len(steps) else part
    row, step, start, end = np.arange(len(track)), owner, track.start, track.until
    step_of = owner
    if not inside.all():
        row, step_of = np.flatnonzero(inside), np.where(inside, owner, -1)
        step, start, end = owner[row], start[row], end[row]
    whole = np.ones(len(row), np.bool_)
    odd = np.flatnonzero(~(inside | apart))
    if len(odd) and len(steps):
        extra = _split(track, steps, owner, odd)
        row, step = np.concatenate((row, extra[0])), np.concatenate((step, extra[1]))
        start, end = np.concatenate((start, extra[2])), np.concatenate((end, extra[3]))
        whole = np.concatenate((whole, extra[4]))
        step_of[extra[0][extra[4]]] = extra[1][extra[4]]
    rest = track.rest
    if rest is not None:
        whole = whole & ~rest[row]
    length = end - start
    if len(excluded):
        length = length - excluded.within(start, end)
    part, batches = step_of >= 0, _batches(track, steps, owner)
    called = {
        number: ("io" if number in batches else region, place)
        for number, (region, place) in _names(track, part).items()
    }
    crossed = _crossed(track, part, called)
    path, paths = _paths(track, part, called, {later for later, _ in crossed})
    times = (start, end) if timed else None
    return Pieces(row, step, length / SECOND, whole, path, paths, step_of, crossed, times)


def _crossed(track: Track, part: Flags, called: dict[int, Name]) -> frozenset[tuple[Name, Name]]:
    """Of the parts of steps, those that begin in another and outlast it, each with that other."""
    if track.begun is None:
        return frozenset()
    rows = np.flatnonzero(part & (track.until < track.end))
    around = track.parent[rows]
    while (cut := track.until[around] < track.end[around]).any():  # by what lies around it as well
        around = np.where(cut, track.parent[around], around)
    rows, around = rows[part[around]], around[part[around]]
    pairs = np.unique(np.stack((track.site[rows], track.site[around])), axis=1).T.tolist()
    named = {(called[later], called[earlier]) for later, earlier in pairs}
    return frozenset(pair for pair in named if pair[0] != pair[1])


def _without_itself(track: Track, apart: Flags) -> Flags:
    """``apart``, and what lies directly in a span of the same region and line: it is that span's.

    A loader that a voirfile names waits for one that a shipped voirfile watches; a function calls itself.
    What is waited for within a region is that region's, too.
    """
    inner = np.flatnonzero(track.parent >= 0)
    if not len(inner):
        return apart
    names = numbers_of((site.region, site.place) for site in track.sites.values())
    name = lookup(track.sites, lambda site: names[site.region, site.place])
    named = lookup(track.sites, lambda site: site.region not in STRUCTURE) == 1
    blocked = lookup(track.sites, lambda site: site.region == WAIT) == 1
    within, around = track.site[inner], track.site[track.parent[inner]]
    same = inner[(name[within] == name[around]) | (blocked[within] & named[around])]
    if not len(same):
        return apart
    apart = apart.copy()
    apart[same] = True
    return apart


def _batches(track: Track, steps: TrackSteps, owner: Ints) -> frozenset[int]:
    """The sites of waits for the batch of a step: they give something before the model is called."""
    rows = track.where(lambda site: site.region == WAIT and gives(site.label))
    rows = rows[owner[rows] >= 0]
    if not len(rows):
        return frozenset()
    calls = track.where(lambda site: site.region in ("forward", "backward"))
    calls = calls[owner[calls] >= 0]
    begun = steps.end.copy()
    step, first = np.unique(owner[calls], return_index=True)
    begun[step] = track.start[calls[first]]
    number = 1 + max(track.sites)
    seconds = (track.end[rows] - track.start[rows]).astype(np.float64)
    early = seconds * (track.start[rows] < begun[owner[rows]])
    total, before = (np.bincount(track.site[rows], each, number) for each in (seconds, early))
    return frozenset(np.flatnonzero((total > 0) & (before >= _MOSTLY * total)).tolist())


def _owners(first: Ints, last: Ints, n: int) -> Ints:
    """For each of ``n`` rows the number of the pair that it lies between; -1 for none."""
    edges = np.empty(2 * len(first) + 2, np.int64)
    edges[0], edges[-1] = 0, n
    edges[1:-1:2], edges[2:-1:2] = first, last
    numbers = np.full(2 * len(first) + 1, -1, np.int64)
    numbers[1::2] = np.arange(len(first))
    return np.repeat(numbers, np.diff(edges))


def _split(
    track: Track, steps: TrackSteps, owner: Ints, odd: Ints
) -> tuple[Ints, Ints, Ints, Ints, Flags]:
    """The pieces of spans that lie in two neighbouring steps, or reach out of one.

    Not those around a whole step: an epoch, a ``fit``.
    """
    start, end = track.start[odd], track.until[odd]
    following = np.searchsorted(steps.start, start)
    some = following < len(steps)
    around = some & (steps.end[np.minimum(following, len(steps) - 1)] <= end)
    odd, start, end, following = (each[~around] for each in (odd, start, end, following))
    before = owner[odd]
    head = before >= 0
    after = np.where(following < len(steps), following, len(steps) - 1)
    tail = (steps.start[after] < end) & (steps.start[after] >= start)
    cut = np.where(head, np.minimum(end, steps.end[before]), start)
    first = (odd[head], before[head], start[head], cut[head])
    second = (odd[tail], after[tail], steps.start[after[tail]], end[tail])
    begun, rest = cut - start, np.where(tail, end - steps.start[after], 0)
    larger = begun >= rest
    return (
        np.concatenate((first[0], second[0])),
        np.concatenate((first[1], second[1])),
        np.concatenate((first[2], second[2])),
        np.concatenate((first[3], second[3])),
        np.concatenate((larger[head], ~larger[tail])),
    )


def _paths(
    track: Track, part: Flags, called: dict[int, Name], outlasting: set[Name]
) -> tuple[Ints, list[Path]]:
    """A number for the path of each row; rows that are no parts are passed through.

    ``called`` has the names of sites; those of ``outlasting`` begin in others, and are not their parts.
    """
    number_of = numbers_of(called.values())
    names = list(number_of)
    code = lookup(track.sites, lambda site: number_of[called[site.number]])
    # What lies in nothing, which is nearly all, takes one look at its site.
    outermost = np.flatnonzero(np.bincount(track.site, part & (track.depth == 0)))
    paths: list[Path] = [(names[each],) for each in sorted({*code[outermost].tolist()})]
    first = np.full(len(names), -1, np.int64)
    first[[number_of[path[0]] for path in paths]] = np.arange(len(paths))
    made_as = numbers_of(paths)
    above = first[code][track.site]  # the path that what lies in a row is inside of
    if not part.all():
        above[~part] = -1
    for level in range(1, int(track.depth.max(initial=0)) + 1):
        rows = np.flatnonzero(track.depth == level)
        parent = track.parent[rows]
        inside = np.where(parent >= 0, above[parent], -1)
        mine = part[rows]
        key = (inside[mine] + 1) * len(names) + code[track.site[rows[mine]]]
        known = np.flatnonzero(np.bincount(key)) if len(key) else key
        number = np.full(int(known[-1]) + 1 if len(known) else 0, -1, np.int64)
        for each in known.tolist():
            outer, name = divmod(each, len(names))
            within = paths[outer - 1] if outer else ()
            one = names[name]
            made = (*within, one) if one in outlasting else _path(within, one)
            number[each] = made_as.setdefault(made, len(paths))
            if number[each] == len(paths):
                paths.append(made)
        inside[mine] = number[key]
        above[rows] = inside
    return above if part.all() else np.where(part, above, -1), paths


def _path(outer: Path, name: Name) -> Path:
    """``name`` inside ``outer``. A module that a loader calls is none that learns."""
    region, place = name
    return (*outer, ("transform" if region == "forward" and _reads(outer) else region, place))


def _reads(path: Path) -> bool:
    """Whether a batch is being read in what lies inside ``path``."""
    return any(region in READING for region, _ in path)


def _names(track: Track, part: Flags) -> dict[int, Name]:
    """What the spans of each site are shown as: of a region at many lines, the longest apart."""
    sites = track.sites.values()
    lines = Counter(region for region, _ in {(site.region, site.place) for site in sites})
    if all(number <= LINES for number in lines.values()):
        return {site.number: (site.region, site.place) for site in sites}
    number = 1 + max(track.sites, default=0)
    length = np.where(part, track.until - track.start, 0)
    total = np.bincount(track.site, length, number)
    weights: dict[str, dict[SourceLine | None, float]] = {}
    for site in track.sites.values():
        mine = weights.setdefault(site.region, {})
        mine[site.place] = mine.get(site.place, 0.0) + float(total[site.number])
    kept = {
        region: sorted(mine, key=lambda place: -mine[place])[:LINES]
        for region, mine in weights.items()
    }  # fmt: skip
    return {
        n: (site.region, site.place if site.place in kept[site.region] else None)
        for n, site in track.sites.items()
    }


def table_of(
    track: Track, steps: TrackSteps, excluded: ExcludedIntervals, pieces: Pieces
) -> StepTable:
    """The columns of ``steps``."""
    n = len(steps)
    length = steps.end - steps.start
    if len(excluded):
        length = length - excluded.within(steps.start, steps.end)
    table = StepTable((length / SECOND).astype(np.float32), crossed=pieces.crossed)
    # A first step may hold what no other does: environments played until there is enough to learn of.
    first = warmup_of(table.seconds)
    counted = pieces.whole & (pieces.step >= first)
    # All paths in one go, each a row; the first row is of what has none.
    path, many = pieces.path[pieces.row] + 1, len(pieces.paths) + 1
    site = track.site[pieces.row]
    seconds = np.bincount(path * n + pieces.step, pieces.seconds, many * n)
    seconds = seconds.reshape(many, n)[1:].astype(np.float32)
    calls = np.bincount(path, counted, many)
    width = 1 + max(track.sites, default=0)
    sites: dict[int, list[CallSite]] = {}
    for both in np.flatnonzero(np.bincount(path * width + site)).tolist():
        sites.setdefault(both // width, []).append(track.sites[both % width])
    for number, made in sorted(enumerate(pieces.paths, 1), key=lambda each: len(each[1])):
        mine = sites.get(number)
        if mine is None:
            continue
        nbytes = None
        if any(site.payload == "bytes" for site in mine):
            rows = pieces.row[(path == number) & counted]
            nbytes = float(track.payload[rows].sum()) / (n - first)
        table.columns[made] = Column(
            seconds[number - 1],
            float(calls[number]) / (n - first),
            frozenset(site.label for site in mine if site.label),
            nbytes,
        )
    return table


def add_device(
    table: StepTable, track: Track, pieces: Pieces, device: Track, thread: int, steps: TrackSteps
) -> list[tuple[CallSite, Ints, Ints]]:
    """Put the spans of a device beside those of the host that caused them, in ``steps``.

    Returns the rows of the device by site, each beside the row of the host.
    """
    matched: list[tuple[CallSite, Ints, Ints]] = []
    hosts = {
        _cause(site): number for number, site in track.sites.items() if site.clock == "host"
    }  # fmt: skip
    n = len(table.seconds)
    for number in device.kinds:
        site = device.sites[number]
        host = hosts.get(_cause(site))
        if host is None or site.thread != thread:
            continue
        called, mine = (_spans(*each) for each in ((track, host), (device, number)))
        if not len(called):
            continue
        rows, mine = _of_same_calls(track, called, device, mine, site.payload == START)
        matched.append((site, rows, mine))
        step = pieces.step_of[rows]
        seconds = (device.end[mine] - device.start[mine]) / SECOND
        if site.region == "step":
            step = owners(steps.start, steps.end, track.start[rows])
            found = np.bincount(step[step >= 0], seconds[step >= 0], n).astype(np.float32)
            table.device = found if table.device is None else table.device + found
            continue
        all_steps = pieces.step_of[called]
        for each in distinct(pieces.path[called[all_steps >= 0]]).tolist():
            here = (pieces.path[rows] == each) & (step >= 0)
            column = table.columns.get(pieces.paths[each]) if each >= 0 else None
            if column is None:
                continue
            found = np.bincount(step[here], seconds[here], n).astype(np.float32)
            column.device = found if column.device is None else column.device + found
            if len(rows) < len(called):
                calls = all_steps[(pieces.path[called] == each) & (all_steps >= 0)]
                timed = np.bincount(calls, minlength=n) == np.bincount(step[here], minlength=n)
                column.timed = timed if column.timed is None else column.timed & timed
                table.timed = timed if table.timed is None else table.timed & timed
    return matched


def _of_same_calls(
    track: Track, rows: Ints, device: Track, mine: Ints, exact: bool
) -> tuple[Ints, Ints]:
    """The rows of the host and of the device for the same calls; ``exact``: the device's name them."""
    if exact:
        begins = track.start[rows]
        began = np.minimum(places(begins, device.payload[mine]), len(rows) - 1)
        same = begins[began] == device.payload[mine]
        return rows[began[same]], mine[same]
    if len(rows) != len(mine):  # some were lost: by time, as good as that tells
        rows = rows[np.maximum(places(track.start[rows], device.start[mine], "right") - 1, 0)]
    return rows, mine


def _spans(track: Track, site: int) -> Ints:
    """The rows with which the spans of a site begin."""
    return track.where(lambda each: each.number == site)


def _cause(site: CallSite) -> tuple[object, ...]:
    """What the sites of a call have in common on the host and on its device."""
    return site.region, site.place, site.object_id, site.phase, site.thread, site.selector
