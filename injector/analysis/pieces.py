"""Pieces: which step each span belongs to, and the path of regions and lines that it lies in.

A span that lies in two steps is a piece in each. A path has the region and line of the span last, and before
it those around it::

    (("forward", train.py:12), ("comm", ddp.py:7))

:mod:`.tables` sums the pieces up.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from ..store.call_sites import SourceLine
from ..store.spans import WAIT, gives
from ..value_class import state_class
from .arrays import ExcludedIntervals, places
from .columns import SECOND, Flags, Ints
from .steps import TrackSteps
from .tracks import STRUCTURE, Track, lookup, numbers_of
from .training_loop import READING

Seconds = npt.NDArray[np.float32]
"""One value per step. float32, as ten million steps with a dozen regions have to fit into memory."""
Name = tuple[str, SourceLine | None]
"""A region and its line."""
Path = tuple[Name, ...]
"""A region inside others, the outermost first."""
ORDERED = 1_000
"""So many spans from the second step on give regions their order."""
LINES = 6
"""Lines of one region that are kept apart; the rest share a column."""
_MOSTLY = 0.8
"""Fraction of a wait's time before the first forward from which on it is a wait for the batch."""


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


def pieces_of(track: Track, steps: TrackSteps, excluded: ExcludedIntervals, timed: bool) -> Pieces:
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
    second = int(places(track.start, steps.start[:2])[-1]) if len(steps) else 0
    path, paths = _paths(track, part, name_of, {later for later, _ in crossed}, second)
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

    Such a span may lie in two neighbouring steps. One around a step (an epoch, a ``fit``) has no pieces.
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
    track: Track, part: Flags, name_of: dict[int, Name], outlasting: set[Name], second: int
) -> tuple[Ints, list[Path]]:
    """The index of each row's path, and the paths; -1 for rows that are no ``part`` of a step.

    ``second`` is the first row of the second step, or of the only one. ``name_of`` has the name for each
    site. Regions in ``outlasting`` begin in others without being parts of them. Rows that are no part pass
    the path around them on to the rows inside.
    """
    number_of = numbers_of(name_of.values())
    names = list(number_of)
    code_of = lookup(track.sites, lambda site: number_of[name_of[site.number]])
    # Nearly all rows lie in no other: their path follows from their site alone.
    outermost = np.flatnonzero(np.bincount(track.site, part & (track.depth == 0)))
    # In the order of the second step and those after it: what is called there may have been called before in
    # another order, and in the first step not all that gives batches may be known.
    head = slice(second, second + ORDERED)
    in_order = code_of[track.site[head][part[head] & (track.depth[head] == 0)]].tolist()
    codes = dict.fromkeys([*in_order, *sorted(code_of[outermost].tolist())])
    paths: list[Path] = [(names[code],) for code in codes]
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
    return (*outer, ("transform" if region == "forward" and loads_batch(outer) else region, place))


def loads_batch(path: Path) -> bool:
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
