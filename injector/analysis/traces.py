"""One loop on one lane: what is later put together over ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..store.folder import Run
from .arrays import NOTHING, Holes, among, counts, owners, warmup_of
from .columns import SECOND, Ints, Rows, Source, read_rows, sources
from .evaluation import Passes, passes_of
from .items import items_of
from .iterations import Turns
from .steps import Pace, Steps, bounded, joined, no_steps, pace_of, paced_by_updates
from .tables import Pieces, Seconds, Table, add_device, pieces_of, table_of
from .tracks import Lane, Marks, split

SAME_LINE = 3
"""Loops at one line that differ by what they work on stay apart up to so many: beyond, it is one loop
(a data set, or an optimizer, made anew for each fold or epoch)."""
SHARED = 0.5
"""A loop is a stage beside explicit steps where these lie in no more of its steps than this part."""
Key = tuple[str, str, str | None, int, int]
"""Task, what paces it, file and line, and which of several there."""


@dataclass
class Unit:
    """One loop on one lane."""

    key: Key
    pace: Pace
    source: Source
    device: str | None
    start: Ints
    end: Ints
    table: Table
    waits: Seconds
    """Of each step, for other ranks."""
    items: npt.NDArray[np.float32] | None
    tokens: npt.NDArray[np.float32] | None
    why: str | None
    fetches: float
    updates: float
    warmup: int

    @property
    def total(self) -> float:
        """Seconds of all its steps."""
        return float(self.table.seconds.sum(dtype=np.float64))

    def measured_from(self, warmup: int) -> int:
        """The first step that counts, where the loop's warm-up is ``warmup`` steps."""
        return min(warmup, len(self.start) // 2)


@dataclass
class Thread:
    """A lane of the host, with what was found in it."""

    source: Source
    number: int
    lane: Lane
    marks: Marks
    steps: Steps
    passes: Passes
    pieces: Pieces
    units: list[Unit]


def threads_of(source: Source, rows: Rows) -> list[Thread]:
    """The lanes of one process."""
    lanes = {int(key): lane for key, lane in split(rows, source.sites, "host").items()}
    devices = split(rows, source.sites, "device")
    marks = {key: Marks(lane) for key, lane in lanes.items()}
    if not any(each.optimizes for each in marks.values()):
        for each in marks.values():
            each.without_optimizers()
    said = {key: _said(each) for key, each in marks.items()}
    everywhere = _everywhere(list(said.values()))
    found = [
        _thread(source, key, marks[key], said[key], everywhere, list(devices.values()))
        for key in lanes
    ]
    _add_waits(found)
    return found


def _thread(
    source: Source,
    number: int,
    marks: Marks,
    said: Steps,
    everywhere: Holes,
    devices: list[Lane],
) -> Thread:
    """``said`` are the explicit steps of this lane, ``everywhere`` those of the whole process."""
    lane = marks.lane
    steps, passes = _stages(marks, said, everywhere) if len(everywhere) else _found(marks)
    holes = passes.holes()
    pieces = pieces_of(lane, steps, holes)
    thread = Thread(source, number, lane, marks, steps, passes, pieces, [])
    if len(steps):
        name = next(iter(sorted({s.device for s in source.sites.values() if s.device})), None)
        thread.units = _units(thread, devices, holes, name)
    return thread


def _everywhere(said: list[Steps]) -> Holes:
    filled = [steps for steps in said if len(steps)]
    if not filled:
        return NOTHING
    return Holes(
        np.concatenate([steps.start for steps in filled]),
        np.concatenate([steps.end for steps in filled]),
    )


def _said(marks: Marks) -> Steps:
    """The explicit steps of a lane."""
    lane, rows = marks.lane, marks.steps
    if not len(rows):
        return no_steps()
    sites, which = np.unique(lane.site[rows], return_inverse=True)
    paces = [pace_of(lane.sites[site], "step") for site in sites.tolist()]
    start, end = lane.start[rows], lane.end[rows]
    count = [_inside(lane.start[each], start, end) for each in (marks.fetches, marks.updates)]
    return joined([Steps(start, end.copy(), which, count[0], count[1], paces)])


def _stages(marks: Marks, said: Steps, everywhere: Holes) -> tuple[Steps, Passes]:
    """Explicit steps, and those of loops beside them, of which nobody says what a step is."""
    turns = Turns(marks)
    steps = said
    if everywhere.hold(marks.lane.start[marks.updates]).all():
        others = no_steps()
    else:
        others = _apart(marks, _of_turns(marks, turns, said)[0], everywhere)
    if len(others):
        steps = joined([said, others])
    elif not len(turns.steps):
        fetches = marks.lane.start[marks.fetches]
        turns.pacing = marks.fetches[owners(steps.start, steps.end, fetches) >= 0]
    return steps, passes_of(marks, turns, steps)


def _apart(marks: Marks, steps: Steps, said: Holes) -> Steps:
    """Of ``steps``, those of loops that are stages of their own.

    Where explicit steps lie in the steps of a loop, they say what a step of it is; but what comes
    after the last update of a step is none of it.
    """
    shared = said.within(steps.start, steps.end) > 0
    kept = [
        pace
        for pace in range(len(steps.paces))
        if (mine := steps.pace == pace).any() and shared[mine].mean() <= SHARED
    ]
    steps = steps.take(np.flatnonzero(among(steps.pace, kept))) if kept else no_steps()
    following = np.searchsorted(said.start, steps.start)
    limit = np.concatenate((said.start, steps.end[-1:]))[following]
    steps.end = np.minimum(steps.end, limit)
    lane = marks.lane
    whole = counts(lane.start[marks.updates], steps.start, steps.end) > 0
    return steps.take(np.flatnonzero(whole & (said.within(steps.start, steps.end) == 0)))


def _inside(moments: Ints, start: Ints, end: Ints) -> Ints:
    found: Ints = np.searchsorted(moments, end) - np.searchsorted(moments, start)
    return found


def _found(marks: Marks) -> tuple[Steps, Passes]:
    return _of_turns(marks, Turns(marks), no_steps())


def _of_turns(marks: Marks, turns: Turns, said: Steps) -> tuple[Steps, Passes]:
    """Steps that loaders pace, and those that updates pace, between the ones that are ``said``."""
    loose = paced_by_updates(marks, turns.free)
    paced = joined([said, turns.steps])
    rough = bounded(marks, loose, paced, NOTHING) if len(loose) else no_steps()
    passes = passes_of(marks, turns, joined([turns.steps, rough]))
    holes = passes.holes()
    if len(loose) and len(holes):
        rough = bounded(marks, loose, paced, holes)
    return joined([turns.steps, rough]), passes


def _units(thread: Thread, devices: list[Lane], holes: Holes, device: str | None) -> list[Unit]:
    steps = thread.steps
    keys = _keys(steps, _optimizers(thread.marks, steps))
    units = []
    for key in dict.fromkeys(keys):
        mine = np.flatnonzero(among(steps.pace, [i for i, k in enumerate(keys) if k == key]))
        if not len(mine):
            continue
        table = _table(thread, mine, devices, holes)
        # Each loop by itself: what one says of its items is nothing that another's model was called with.
        found = items_of(thread.marks, _of(steps, mine), holes)
        units.append(
            Unit(
                key=key,
                pace=steps.paces[int(steps.pace[mine[0]])],
                source=thread.source,
                device=device,
                start=steps.start[mine],
                end=steps.end[mine],
                table=table,
                waits=np.zeros(len(mine), np.float32),
                items=None if found.items is None else found.items.astype(np.float32),
                tokens=None if found.tokens is None else found.tokens.astype(np.float32),
                why=found.why,
                fetches=float(steps.fetches[mine].mean()),
                updates=float(steps.updates[mine].mean()),
                warmup=warmup_of(table.seconds),
            )
        )
    return units


def _table(thread: Thread, mine: Ints, devices: list[Lane], holes: Holes) -> Table:
    """The columns of the steps ``mine``."""
    steps, pieces = thread.steps, thread.pieces
    if len(mine) < len(steps):
        pieces = pieces.of_steps(mine, len(steps))
    table = table_of(thread.lane, _of(steps, mine), holes, pieces)
    for device in devices:
        add_device(table, thread.lane, pieces, device, thread.number)
    return table


def _of(steps: Steps, mine: Ints) -> Steps:
    return steps.take(mine) if len(mine) < len(steps) else steps


def _keys(steps: Steps, optimizers: list[frozenset[int]]) -> list[Key]:
    """The loop that each pace belongs to, named alike on every rank.

    At one line, what is paced by different objects is one loop where the same optimizers are stepped:
    a loader made anew for each epoch is no new loop, a second stage of training is. What a voirfile
    marks at one line is one loop, whatever it iterates over.
    """
    line: list[tuple[str, str, str | None, int]] = [
        (p.task, p.paced_by, p.place.file if p.place else None, p.place.line if p.place else 0)
        for p in steps.paces
    ]
    first = {i: int(at.argmax()) for i in range(len(line)) if (at := steps.pace == i).any()}
    loops: dict[object, list[tuple[set[int | None], set[int]]]] = {}
    ordinal = {}
    for i in sorted(first, key=lambda i: first[i]):
        known = loops.setdefault(line[i], [])
        of = steps.paces[i].of
        marked = steps.paces[i].paced_by == "step"
        same = (
            n for n, (ofs, used) in enumerate(known) if marked or of in ofs or used & optimizers[i]
        )
        ordinal[i] = next(same, len(known))
        if ordinal[i] == len(known):
            known.append((set(), set()))
        known[ordinal[i]][0].add(of)
        known[ordinal[i]][1].update(optimizers[i])
    return [
        (*at, ordinal.get(i, 0) if len(loops.get(at, ())) <= SAME_LINE else 0)
        for i, at in enumerate(line)
    ]


def _optimizers(marks: Marks, steps: Steps) -> list[frozenset[int]]:
    """For each pace which optimizers are stepped in its steps."""
    lane, rows = marks.lane, marks.updates
    step = owners(steps.start, steps.end, lane.start[rows])
    rows, pace = rows[step >= 0], steps.pace[step[step >= 0]]
    width = 1 + max(lane.sites, default=0)
    found: list[set[int]] = [set() for _ in steps.paces]
    for both in np.flatnonzero(np.bincount(pace * width + lane.site[rows])).tolist():
        of = lane.sites[both % width].of
        if of is not None:
            found[both // width].add(of)
    return [frozenset(each) for each in found]


def _add_waits(threads: list[Thread]) -> None:
    """What each step waits for other ranks, as far as collectives tell, in whatever thread."""
    for thread in threads:
        for unit in thread.units:
            names = unit.table.regions()
            if "comm" in names:
                unit.waits = unit.waits + names["comm"]
            for other in threads:
                if other is not thread:
                    unit.waits = unit.waits + _beside(unit, other)


def _beside(unit: Unit, other: Thread) -> Seconds:
    rows = other.marks.lane.region("comm")
    lane = other.lane
    step = owners(unit.start, unit.end, lane.start[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    seconds = (lane.end[rows] - lane.start[rows]) / SECOND
    return np.bincount(step, seconds, len(unit.start)).astype(np.float32)


def traces_of(run: Run) -> list[Unit]:
    """The loops of all processes of ``run``. Raises OSError, NotARunError."""
    return [
        unit
        for source in sources(run)
        if source.has_spans()
        for thread in threads_of(source, read_rows(source))
        for unit in thread.units
    ]
