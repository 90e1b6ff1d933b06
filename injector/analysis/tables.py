"""What each step of a track spent in each region: a column per region and line, with a value per step.

:func:`pieces_of` decides which step each span belongs to, and gives it a path: the regions and lines that it
lies in. :func:`table_of` sums the seconds of all pieces by path and step::

    step 0:  io 20 ms | forward 30 ms, in it comm 5 ms | backward 40 ms

    (("io", train.py:10),)                           20 ms
    (("forward", train.py:12),)                      30 ms     25 ms of its own
    (("forward", train.py:12), ("comm", ddp.py:7))    5 ms
    (("backward", train.py:13),)                     40 ms

A span that lies in two steps is a piece in each. :func:`add_device` puts the device's time beside the host's.
"""

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
"""One value per step. float32, as ten million steps with a dozen regions have to fit into memory."""
Name = tuple[str, SourceLine | None]
"""A region and its line."""
Path = tuple[Name, ...]
"""A region inside others, the outermost first."""
LINES = 6
"""Lines of one region that are kept apart; the rest share a column."""
_MOSTLY = 0.8
"""Fraction of a wait's time before the first forward from which on it is a wait for the batch."""


@state_class
class Column:
    """One region at one line, inside the regions of its path, in each step."""

    seconds: Seconds
    calls: float
    """Per step, on average over all steps after the warm-up, as is ``nbytes``."""
    what: frozenset[str] = frozenset()
    """Labels of its call sites."""
    nbytes: float | None = None
    device: Seconds | None = None
    """Seconds that the device worked on what the region started; None if that was not timed."""
    timed: Flags | None = None
    """The steps in which ``device`` is known; None for all."""
    idle: Seconds | None = None
    """The part of ``seconds`` in which the device had nothing queued; None if no device has a clock."""

    def device_filled(self) -> Seconds:
        """``device``, with the mean of the known steps where it is not known."""
        device, timed = _not_none(self.device), self.timed
        if timed is None or not timed.any():
            return device
        filled: Seconds = np.where(timed, device, device[timed].mean(dtype=np.float64))
        return filled.astype(np.float32)


@state_class
class StepTable:
    """All regions of all steps of one loop on one track."""

    seconds: Seconds
    """Of each step, without the evaluations that are cut out of it."""
    columns: dict[Path, Column] = field(default_factory=dict)
    """Parents before children."""
    device: Seconds | None = None
    """Seconds of the device for the step as a whole, if a voirfile had that timed."""
    idle: Seconds | None = None
    """Seconds of each step in which the device had nothing queued; None if no device has a clock."""
    timed: Flags | None = None
    """The steps in which the device's time of all regions, and ``idle``, are known; None for all."""
    copying: Seconds | None = None
    """Seconds of each step in which the device copied batches that had been queued for it."""
    crossed: frozenset[tuple[Name, Name]] = frozenset()
    """Pairs of regions that overlap without nesting: the one that begins later first."""

    def own(self, path: Path) -> Seconds:
        """Seconds of ``path`` without the regions inside it.

        They are computed each time, as all ranks' would be much memory.
        """
        whole = self.columns[path].seconds if path else self.seconds
        return _minus(whole, [each.seconds for each in self._inside(path)])

    def _own_idle(self, path: Path) -> Seconds:
        whole = self.columns[path].idle if path else self.idle
        inside = [each.idle for each in self._inside(path)]
        return _minus(_not_none(whole), [_not_none(each) for each in inside])

    def _inside(self, path: Path) -> list[Column]:
        return [
            column
            for other, column in self.columns.items()
            if len(other) == len(path) + 1 and other[:-1] == path
        ]

    def regions(self) -> dict[str, Seconds]:
        """Seconds of each step by region. They add up to the step, since ``other`` is what no region covers.

        Whatever is done while a batch is waited for counts as that wait.
        """
        return self._divided(self.own)

    def region(self, name: str) -> Seconds | None:
        """The seconds of one of :meth:`regions`; None if there is none of that name."""
        columns = [self.own(path) for path in self.columns if _region_name(path) == name]
        return reduce(operator.add, columns) if columns else None

    def idle_regions(self) -> dict[str, Seconds]:
        """The seconds of :meth:`regions` in which the device had nothing queued. Needs :attr:`idle`."""
        return self._divided(self._own_idle)

    def _divided(self, own: Callable[[Path], Seconds]) -> dict[str, Seconds]:
        """``own`` of all paths, summed by the name of the region."""
        regions: dict[str, Seconds] = {"other": own(())}
        for path in self.columns:
            name = _region_name(path)
            regions[name] = regions[name] + own(path) if name in regions else own(path)
        return regions

    def busy(self, without: str = "") -> Seconds | None:
        """Seconds that the device worked in each step; None without a device clock.

        What it did for the region ``without`` is left out. A step in which they are not known has the mean of
        those in which they are.
        """
        timed = {path for path, column in self.columns.items() if column.device is not None}
        total = None
        for path in timed:
            # The device's time of a region includes that of the regions inside it.
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


def _region_name(path: Path) -> str:
    """The region that the own time of ``path`` is shown as."""
    return "io" if _loads_batch(path[:-1]) else path[-1][0]


def _minus(whole: Seconds, inside: list[Seconds]) -> Seconds:
    """``whole`` without what is ``inside``, never below 0: float32 may round the parts up."""
    if not inside:
        return whole
    left = whole - inside[0]
    for seconds in inside[1:]:
        left -= seconds
    np.maximum(left, 0, out=left)
    return left


def _not_none(seconds: Seconds | None) -> Seconds:
    assert seconds is not None
    return seconds


@state_class
class Pieces:
    """The spans that are parts of steps.

    ``row``, ``step``, ``seconds``, ``whole`` and ``times`` have one entry per piece, ``path`` and ``step_of``
    one per row of the track. A row has two pieces if its span lies in two steps.
    """

    row: Ints
    step: Ints
    seconds: npt.NDArray[np.float64]
    whole: Flags
    """Whether the piece counts as a call: if a span lies in two steps, only its larger piece does."""
    path: Ints
    """The index of each row's path; -1 for a row that is no part of a step."""
    paths: list[Path]
    step_of: Ints
    """The step that each row counts in; -1 for none."""
    crossed: frozenset[tuple[Name, Name]] = frozenset()
    """As in a :class:`StepTable`."""
    times: tuple[Ints, Ints] | None = None
    """When each piece begins and ends; None if no device is compared with them: it is much memory."""

    def of_steps(self, which: Ints, n: int) -> Pieces:
        """The pieces of the steps ``which``, out of ``n``, whose numbers then are those in ``which``."""
        new_number = np.full(n + 1, -1, np.int64)  # -1, which stands for no step, is the last index
        new_number[which] = np.arange(len(which))
        step = new_number[self.step]
        chosen = step >= 0
        return Pieces(
            self.row[chosen],
            step[chosen],
            self.seconds[chosen],
            self.whole[chosen],
            self.path,
            self.paths,
            new_number[self.step_of],
            self.crossed,
            None if self.times is None else (self.times[0][chosen], self.times[1][chosen]),
        )


def pieces_of(
    track: Track, steps: TrackSteps, excluded: ExcludedIntervals, timed: bool = False
) -> Pieces:
    """The pieces of the spans of ``track`` that lie in ``steps``, with their ``times`` if ``timed``."""
    first = places(track.start, steps.start)
    last = places(track.start, steps.end)
    owner = _steps_of_rows(first, last, len(track))
    no_part = track.flags(lambda site: site.region in STRUCTURE)
    if len(excluded):
        no_part = no_part | excluded.hold(track.start)
    no_part = _with_repeated_names(track, no_part)
    part = (owner >= 0) & ~no_part
    # Index -1, of rows in no step, reads the last step: harmless, since they are no part anyway.
    inside = part & (track.until <= steps.end[owner]) if len(steps) else part
    # Usually every row is one piece, and the columns of the track serve as they are: a copy of each would
    # double the memory of the largest processes.
    row, step, start, end = np.arange(len(track)), owner, track.start, track.until
    step_of = owner
    if not inside.all():
        row, step_of = np.flatnonzero(inside), np.where(inside, owner, -1)
        step, start, end = owner[row], start[row], end[row]
    whole = np.ones(len(row), np.bool_)
    not_inside = np.flatnonzero(~(inside | no_part))
    if len(not_inside) and len(steps):
        cut = _cut_at_steps(track, steps, owner, not_inside)
        row, step = np.concatenate((row, cut[0])), np.concatenate((step, cut[1]))
        start, end = np.concatenate((start, cut[2])), np.concatenate((end, cut[3]))
        whole = np.concatenate((whole, cut[4]))
        step_of[cut[0][cut[4]]] = cut[1][cut[4]]
    # A span divided within its track is still one call.
    rest = track.rest
    if rest is not None:
        whole = whole & ~rest[row]
    nanoseconds = end - start
    if len(excluded):
        nanoseconds = nanoseconds - excluded.within(start, end)
    path, paths, crossed = _named_paths(track, steps, owner, step_of >= 0)
    times = (start, end) if timed else None
    return Pieces(row, step, nanoseconds / SECOND, whole, path, paths, step_of, crossed, times)


def _named_paths(
    track: Track, steps: TrackSteps, owner: Ints, part: Flags
) -> tuple[Ints, list[Path], frozenset[tuple[Name, Name]]]:
    """The index of each row's path, the paths, and the pairs of regions that overlap without nesting."""
    batch_sites = _batch_waits(track, steps, owner)
    name_of = {
        number: ("io" if number in batch_sites else region, place)
        for number, (region, place) in _site_names(track, part).items()
    }
    crossed = _overlapping_regions(track, part, name_of)
    path, paths = _paths(track, part, name_of, {later for later, _ in crossed})
    return path, paths, crossed


def _overlapping_regions(
    track: Track, part: Flags, name_of: dict[int, Name]
) -> frozenset[tuple[Name, Name]]:
    """The pairs of regions of which one begins in the other and outlasts it: the later one first."""
    if track.begun is None:
        return frozenset()
    divided = np.flatnonzero(part & (track.until < track.end))
    parent = track.parent[divided]
    # A parent that was itself cut at that moment did not cut this span: what cut both lies around it.
    while (also_cut := track.until[parent] < track.end[parent]).any():
        parent = np.where(also_cut, track.parent[parent], parent)
    divided, parent = divided[part[parent]], parent[part[parent]]
    pairs = np.unique(np.stack((track.site[divided], track.site[parent])), axis=1).T.tolist()
    names = {(name_of[later], name_of[earlier]) for later, earlier in pairs}
    return frozenset(pair for pair in names if pair[0] != pair[1])


def _with_repeated_names(track: Track, no_part: Flags) -> Flags:
    """``no_part``, and the rows that lie directly in a span of the same region and line.

    Their time is that span's already: a loader that a voirfile names waits for one that a shipped voirfile
    watches; a function calls itself. A wait inside any other region is a part of that region too.
    """
    inner = np.flatnonzero(track.parent >= 0)
    if not len(inner):
        return no_part
    names = numbers_of((site.region, site.place) for site in track.sites.values())
    name_of = lookup(track.sites, lambda site: names[site.region, site.place])
    is_region = lookup(track.sites, lambda site: site.region not in STRUCTURE) == 1
    is_wait = lookup(track.sites, lambda site: site.region == WAIT) == 1
    within, around = track.site[inner], track.site[track.parent[inner]]
    repeated = inner[(name_of[within] == name_of[around]) | (is_wait[within] & is_region[around])]
    if not len(repeated):
        return no_part
    no_part = no_part.copy()
    no_part[repeated] = True
    return no_part


def _batch_waits(track: Track, steps: TrackSteps, owner: Ints) -> frozenset[int]:
    """The sites of waits whose result is the batch of a step, as of a queue that a thread fills.

    They return something, and mostly wait before the first forward or backward of the step.
    """
    rows = track.where(lambda site: site.region == WAIT and gives(site.label))
    rows = rows[owner[rows] >= 0]
    if not len(rows):
        return frozenset()
    calls = track.where(lambda site: site.region in ("forward", "backward"))
    calls = calls[owner[calls] >= 0]
    # In a step without such a call, every wait counts as before it.
    work_begins = steps.end.copy()
    step, first = np.unique(owner[calls], return_index=True)
    work_begins[step] = track.start[calls[first]]
    count = 1 + max(track.sites)
    seconds = (track.end[rows] - track.start[rows]).astype(np.float64)
    seconds_before = seconds * (track.start[rows] < work_begins[owner[rows]])
    total, total_before = (
        np.bincount(track.site[rows], each, count) for each in (seconds, seconds_before)
    )
    return frozenset(np.flatnonzero((total > 0) & (total_before >= _MOSTLY * total)).tolist())


def _steps_of_rows(first: Ints, last: Ints, n: int) -> Ints:
    """The step that each of ``n`` rows begins in, or -1.

    Step ``i`` holds the rows ``first[i]`` to before ``last[i]``.

    As :func:`.arrays.owners`, but nothing is searched for the rows.
    """
    edges = np.empty(2 * len(first) + 2, np.int64)
    edges[0], edges[-1] = 0, n
    edges[1:-1:2], edges[2:-1:2] = first, last
    numbers = np.full(2 * len(first) + 1, -1, np.int64)
    numbers[1::2] = np.arange(len(first))
    return np.repeat(numbers, np.diff(edges))


def _cut_at_steps(
    track: Track, steps: TrackSteps, owner: Ints, odd: Ints
) -> tuple[Ints, Ints, Ints, Ints, Flags]:
    """The pieces of the rows ``odd``, which reach out of a step or into one: row, step, start, end, whole.

    Such a span may lie in two neighbouring steps. One around a whole step (an epoch, a ``fit``) has no
    pieces.
    """
    start, end = track.start[odd], track.until[odd]
    following = np.searchsorted(steps.start, start)
    is_there = following < len(steps)
    encloses_step = is_there & (steps.end[np.minimum(following, len(steps) - 1)] <= end)
    odd, start, end, following = (each[~encloses_step] for each in (odd, start, end, following))
    before = owner[odd]
    has_head = before >= 0
    after = np.where(following < len(steps), following, len(steps) - 1)
    has_tail = (steps.start[after] < end) & (steps.start[after] >= start)
    # Its head lies in the step it begins in, its tail in the next; what lies between them is in no step.
    cut = np.where(has_head, np.minimum(end, steps.end[before]), start)
    heads = (odd[has_head], before[has_head], start[has_head], cut[has_head])
    tails = (odd[has_tail], after[has_tail], steps.start[after[has_tail]], end[has_tail])
    head_length, tail_length = cut - start, np.where(has_tail, end - steps.start[after], 0)
    head_is_larger = head_length >= tail_length
    return (
        np.concatenate((heads[0], tails[0])),
        np.concatenate((heads[1], tails[1])),
        np.concatenate((heads[2], tails[2])),
        np.concatenate((heads[3], tails[3])),
        np.concatenate((head_is_larger[has_head], ~head_is_larger[has_tail])),
    )


def _paths(
    track: Track, part: Flags, name_of: dict[int, Name], outlasting: set[Name]
) -> tuple[Ints, list[Path]]:
    """The index of each row's path, and the paths; -1 for rows that are no ``part`` of a step.

    ``name_of`` has the name for each site. Regions in ``outlasting`` begin in others without being parts of
    them. Rows that are no part pass the path around them on to the rows inside.
    """
    number_of = numbers_of(name_of.values())
    names = list(number_of)
    code_of = lookup(track.sites, lambda site: number_of[name_of[site.number]])
    # Nearly all rows lie in no other: their path follows from their site alone.
    outermost = np.flatnonzero(np.bincount(track.site, part & (track.depth == 0)))
    paths: list[Path] = [(names[code],) for code in sorted({*code_of[outermost].tolist()})]
    path_of_code = np.full(len(names), -1, np.int64)
    path_of_code[[number_of[path[0]] for path in paths]] = np.arange(len(paths))
    index_of = numbers_of(paths)
    # For each row the path of what lies in it: its own, or that around it if it is no part.
    path_at = path_of_code[code_of][track.site]
    if not part.all():
        path_at[~part] = -1
    # Level by level, so that the path around a row is known before its own.
    for level in range(1, int(track.depth.max(initial=0)) + 1):
        rows = np.flatnonzero(track.depth == level)
        parent = track.parent[rows]
        around = np.where(parent >= 0, path_at[parent], -1)
        is_part = part[rows]
        # The path around a row and its name, as one number: only distinct pairs are looked at one by one.
        keys = (around[is_part] + 1) * len(names) + code_of[track.site[rows[is_part]]]
        distinct_keys = np.flatnonzero(np.bincount(keys)) if len(keys) else keys
        path_of_key = np.full(int(distinct_keys[-1]) + 1 if len(distinct_keys) else 0, -1, np.int64)
        for key in distinct_keys.tolist():
            outer_number, name_code = divmod(key, len(names))
            outer = paths[outer_number - 1] if outer_number else ()
            name = names[name_code]
            path = (*outer, name) if name in outlasting else _inner_path(outer, name)
            path_of_key[key] = index_of.setdefault(path, len(paths))
            if path_of_key[key] == len(paths):
                paths.append(path)
        around[is_part] = path_of_key[keys]
        path_at[rows] = around
    return path_at if part.all() else np.where(part, path_at, -1), paths


def _inner_path(outer: Path, name: Name) -> Path:
    """``outer`` with ``name`` inside. A module that is called while a batch is loaded transforms data."""
    region, place = name
    return (*outer, ("transform" if region == "forward" and _loads_batch(outer) else region, place))


def _loads_batch(path: Path) -> bool:
    """Whether a batch is being loaded in one of the regions of ``path``."""
    return any(region in READING for region, _ in path)


def _site_names(track: Track, part: Flags) -> dict[int, Name]:
    """The region and line that the spans of each site are shown as.

    If a region is called at more than :data:`LINES` lines, the longest keep theirs and the others have None.
    """
    sites = track.sites.values()
    lines = Counter(region for region, _ in {(site.region, site.place) for site in sites})
    if all(count <= LINES for count in lines.values()):
        return {site.number: (site.region, site.place) for site in sites}
    count = 1 + max(track.sites, default=0)
    # By the time in steps, so that lines outside of steps do not take the places.
    nanoseconds = np.where(part, track.until - track.start, 0)
    total = np.bincount(track.site, nanoseconds, count)
    weights: dict[str, dict[SourceLine | None, float]] = {}
    for site in track.sites.values():
        time_at = weights.setdefault(site.region, {})
        time_at[site.place] = time_at.get(site.place, 0.0) + float(total[site.number])
    kept = {
        region: sorted(time_at, key=lambda place: -time_at[place])[:LINES]
        for region, time_at in weights.items()
    }  # fmt: skip
    return {
        n: (site.region, site.place if site.place in kept[site.region] else None)
        for n, site in track.sites.items()
    }


def table_of(
    track: Track, steps: TrackSteps, excluded: ExcludedIntervals, pieces: Pieces
) -> StepTable:
    """The columns of ``steps``, out of their ``pieces``; ``excluded`` are the evaluations cut out of them."""
    n = len(steps)
    nanoseconds = steps.end - steps.start
    if len(excluded):
        nanoseconds = nanoseconds - excluded.within(steps.start, steps.end)
    table = StepTable((nanoseconds / SECOND).astype(np.float32), crossed=pieces.crossed)
    # Calls are averaged without the first steps, which may hold what no other does: an environment is
    # played until there is enough to learn from.
    warmup = warmup_of(table.seconds)
    counted = pieces.whole & (pieces.step >= warmup)
    # One bincount for all paths: row 0 of the matrix is for pieces without a path.
    path, path_count = pieces.path[pieces.row] + 1, len(pieces.paths) + 1
    site = track.site[pieces.row]
    seconds = np.bincount(path * n + pieces.step, pieces.seconds, path_count * n)
    seconds = seconds.reshape(path_count, n)[1:].astype(np.float32)
    calls = np.bincount(path, counted, path_count)
    site_count = 1 + max(track.sites, default=0)
    sites: dict[int, list[CallSite]] = {}
    for code in np.flatnonzero(np.bincount(path * site_count + site)).tolist():
        sites.setdefault(code // site_count, []).append(track.sites[code % site_count])
    for number, region_path in sorted(enumerate(pieces.paths, 1), key=lambda each: len(each[1])):
        path_sites = sites.get(number)
        if path_sites is None:
            continue
        nbytes = None
        if any(site.payload == "bytes" for site in path_sites):
            rows = pieces.row[(path == number) & counted]
            nbytes = float(track.payload[rows].sum()) / (n - warmup)
        table.columns[region_path] = Column(
            seconds[number - 1],
            float(calls[number]) / (n - warmup),
            frozenset(site.label for site in path_sites if site.label),
            nbytes,
        )
    return table


def add_device(
    table: StepTable, track: Track, pieces: Pieces, device: Track, thread: int, steps: TrackSteps
) -> list[tuple[CallSite, Ints, Ints]]:
    """Add the time of ``device`` for the calls of ``steps`` to the columns of ``table``.

    ``thread`` is the number of the host's track. Returns for each site of the device its rows, each beside
    the row of the host that made the call: (site, rows of the host, rows of the device).
    """
    matched: list[tuple[CallSite, Ints, Ints]] = []
    # A site of a device has the same attributes as the host's site that caused it, but another number.
    host_sites = {
        _call_identity(site): number for number, site in track.sites.items() if site.clock == "host"
    }  # fmt: skip
    n = len(table.seconds)
    for number in device.kinds:
        site = device.sites[number]
        host = host_sites.get(_call_identity(site))
        if host is None or site.thread != thread:
            continue
        host_rows, device_rows = (_spans(*pair) for pair in ((track, host), (device, number)))
        if not len(host_rows):
            continue
        rows, device_rows = _matched_rows(
            track, host_rows, device, device_rows, site.payload == START
        )
        matched.append((site, rows, device_rows))
        step = pieces.step_of[rows]
        seconds = (device.end[device_rows] - device.start[device_rows]) / SECOND
        # A step that a voirfile marks is timed as a whole, and is no column.
        if site.region == "step":
            step = owners(steps.start, steps.end, track.start[rows])
            step_seconds = np.bincount(step[step >= 0], seconds[step >= 0], n).astype(np.float32)
            table.device = step_seconds if table.device is None else table.device + step_seconds
            continue
        step_of_call = pieces.step_of[host_rows]
        for path in distinct(pieces.path[host_rows[step_of_call >= 0]]).tolist():
            in_path = (pieces.path[rows] == path) & (step >= 0)
            column = table.columns.get(pieces.paths[path]) if path >= 0 else None
            if column is None:
                continue
            step_seconds = np.bincount(step[in_path], seconds[in_path], n).astype(np.float32)
            column.device = step_seconds if column.device is None else column.device + step_seconds
            # Some calls were not timed (too many were in flight): a step that lacks one has no device time.
            if len(rows) < len(host_rows):
                calls_in_path = step_of_call[(pieces.path[host_rows] == path) & (step_of_call >= 0)]
                timed = np.bincount(calls_in_path, minlength=n) == np.bincount(
                    step[in_path], minlength=n
                )
                column.timed = timed if column.timed is None else column.timed & timed
                table.timed = timed if table.timed is None else table.timed & timed
    return matched


def _matched_rows(
    track: Track, host_rows: Ints, device: Track, device_rows: Ints, exact: bool
) -> tuple[Ints, Ints]:
    """The rows of the host and of the device that belong to the same calls, in two arrays of one length.

    With ``exact``, the payload of each device row is the start of its host row. Else they are matched by
    time.
    """
    if exact:
        begins = track.start[host_rows]
        nearest = np.minimum(places(begins, device.payload[device_rows]), len(host_rows) - 1)
        matches = begins[nearest] == device.payload[device_rows]
        return host_rows[nearest[matches]], device_rows[matches]
    if len(host_rows) != len(device_rows):  # some were lost: the latest call before each
        host_rows = host_rows[
            np.maximum(places(track.start[host_rows], device.start[device_rows], "right") - 1, 0)
        ]
    return host_rows, device_rows


def _spans(track: Track, site: int) -> Ints:
    """The first rows of the spans of a site."""
    return track.where(lambda other: other.number == site)


def _call_identity(site: CallSite) -> tuple[object, ...]:
    """What the call sites of one call have in common on the host and on its device."""
    return site.region, site.place, site.object_id, site.phase, site.thread, site.selector
