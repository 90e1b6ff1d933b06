"""One loop on one lane: what is later put together over ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .columns import SECOND, Ints, Rows, Source
from .evaluating import Passes, passes_of
from .intervals import NOTHING, Holes, among, owners
from .items import items_of
from .lanes import Lane, split
from .marks import Marks
from .samples import warmup_of
from .steps import Pace, Steps, joined, no_steps, pace_of
from .tables import Pieces, Seconds, Table, add_device, pieces_of, table_of
from .turns import Turns
from .updates import bounded, paced_by_updates

SAME_LINE = 3
"""Loops at one line that differ by what they work on stay apart up to so many: beyond, it is one loop
(a data set, or an optimizer, made anew for each fold or epoch)."""
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
    explicit = any(len(each.steps) for each in marks.values())
    found = [
        _thread(source, key, marks[key], explicit, list(devices.values())) for key in lanes
    ]  # fmt: skip
    _add_waits(found)
    return found


def _thread(
    source: Source, number: int, marks: Marks, explicit: bool, devices: list[Lane]
) -> Thread:
    lane = marks.lane
    steps, passes = _explicit(marks) if explicit else _found(marks)
    holes = passes.holes()
    pieces = pieces_of(lane, steps, holes)
    thread = Thread(source, number, lane, marks, steps, passes, pieces, [])
    if len(steps):
        name = next(iter(sorted({s.device for s in source.sites.values() if s.device})), None)
        thread.units = _units(thread, devices, holes, name)
    return thread


def _explicit(marks: Marks) -> tuple[Steps, Passes]:
    lane, rows = marks.lane, marks.steps
    sites, which = np.unique(lane.site[rows], return_inverse=True)
    paces = [pace_of(lane.sites[site], "step") for site in sites.tolist()]
    start, end = lane.start[rows], lane.end[rows]
    count = [_inside(lane.start[each], start, end) for each in (marks.fetches, marks.updates)]
    steps = joined([Steps(start, end.copy(), which, count[0], count[1], paces)])
    turns = Turns(marks)
    if not len(turns.steps):
        turns.pacing = marks.fetches[owners(steps.start, steps.end, lane.start[marks.fetches]) >= 0]
    return steps, passes_of(marks, turns, steps)


def _inside(moments: Ints, start: Ints, end: Ints) -> Ints:
    found: Ints = np.searchsorted(moments, end) - np.searchsorted(moments, start)
    return found


def _found(marks: Marks) -> tuple[Steps, Passes]:
    turns = Turns(marks)
    loose = paced_by_updates(marks, turns.free)
    rough = bounded(marks, loose, turns.steps, NOTHING) if len(loose) else no_steps()
    passes = passes_of(marks, turns, joined([turns.steps, rough]))
    holes = passes.holes()
    if len(loose) and len(holes):
        rough = bounded(marks, loose, turns.steps, holes)
    return joined([turns.steps, rough]), passes


def _units(thread: Thread, devices: list[Lane], holes: Holes, device: str | None) -> list[Unit]:
    steps = thread.steps
    found = items_of(thread.marks, steps, holes)
    keys = _keys(steps, _optimizers(thread.marks, steps))
    units = []
    for key in dict.fromkeys(keys):
        mine = np.flatnonzero(among(steps.pace, [i for i, k in enumerate(keys) if k == key]))
        if not len(mine):
            continue
        table = _table(thread, mine, devices, holes)
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
                items=None if found.items is None else found.items[mine].astype(np.float32),
                tokens=None if found.tokens is None else found.tokens[mine].astype(np.float32),
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
        steps = steps.take(mine)
    table = table_of(thread.lane, steps, holes, pieces)
    for device in devices:
        add_device(table, thread.lane, pieces, device, thread.number)
    return table


def _keys(steps: Steps, optimizers: list[frozenset[int]]) -> list[Key]:
    """The loop that each pace belongs to, named alike on every rank.

    At one line, what is paced by different objects is one loop where the same optimizers are stepped:
    a loader made anew for each epoch is no new loop, a second stage of training is.
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
        same = (n for n, (ofs, used) in enumerate(known) if of in ofs or used & optimizers[i])
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
