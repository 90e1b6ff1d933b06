"""What a verdict is made of: the shares of a loop, over all of it and over parts of it, and its hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from .advice import Host
from .between import Between
from .machines import Machine
from .profile import READING, Loop, Node, Stretch
from .samples import exceptional, median_of
from .tree import measured_from
from .units import Unit

WINDOWS, IN_WINDOW = 16, 8
"""Into how many parts a loop is cut at most, and of how many steps each is at least."""
FULL = 0.9
"""Of the cores, from which nothing is left for more."""
GROWTH = 1 << 30
"""Bytes."""
LEAST_STEPS = 150
"""Of three bands of 50 each, in which memory has to grow."""

Memory = Mapping[int, tuple[Sequence[float], Sequence[float]]]
"""By process (its index in run.json): unix seconds, and bytes of resident memory at each."""
Shares = Mapping[str, float]
"""The part of a step that each region takes without those inside it, 0…1."""


@dataclass(frozen=True)
class Evidence:
    """What a verdict is made of."""

    loop: Loop
    windows: list[Shares]
    """Of the parts of the run, in order."""
    busy: float | None = None
    """The typical part of a step in which the device works; None without a device clock."""
    between: Between | None = None
    growth: tuple[int, float] | None = None
    """Which process grew, and by how many bytes."""
    stretches: Sequence[Stretch] = ()
    others: Sequence[Node] = ()
    """Regions outside of steps."""
    wall: float = 0.0
    host: Host = field(default_factory=Host)


def windows_of(units: list[Unit], warmup: int) -> list[Shares]:
    """The same over parts of the measured steps, all ranks together."""
    count = min(len(unit.start) - measured_from(unit, warmup) for unit in units)
    count = max(1, min(WINDOWS, count // IN_WINDOW))
    sums: list[dict[str, float]] = [{} for _ in range(count)]
    for unit in units:
        first = measured_from(unit, warmup)
        kept = ~exceptional(unit.table.seconds[first:])
        edges = np.linspace(0, len(kept), count + 1).astype(int)[:-1]
        for name, seconds in unit.table.regions().items():
            parts = np.add.reduceat(seconds[first:] * kept, edges, dtype=np.float64)
            name = "io" if name in READING else name
            for window, part in zip(sums, parts.tolist(), strict=True):
                window[name] = window.get(name, 0.0) + part
    totals = [sum(window.values()) for window in sums]
    return [
        {name: part / total for name, part in window.items()}
        for window, total in zip(sums, totals, strict=True)
        if total > 0
    ]


def busy_of(units: list[Unit], warmup: int) -> float | None:
    """The part of the median step in which devices work."""
    found = []
    for unit in units:
        busy = unit.table.busy()
        if busy is not None:
            first = measured_from(unit, warmup)
            whole = unit.table.seconds[first:]
            found.append(median_of(busy[first:][whole > 0] / whole[whole > 0]))
    return float(np.mean(found)) if found else None


def growth_of(memory: Memory, units: list[Unit]) -> tuple[int, float] | None:
    """The process whose memory grew most through three bands of the loop, beyond doubt."""
    worst: tuple[int, float] | None = None
    for unit in units:
        if len(unit.start) < LEAST_STEPS or unit.source.index not in memory:
            continue
        times, values = (np.asarray(each, np.float64) for each in memory[unit.source.index])
        edges = [float(unit.start[i * (len(unit.start) - 1) // 3]) / 1e9 for i in range(3)]
        edges.append(float(unit.end[-1]) / 1e9)
        bands = [values[(times >= a) & (times <= b)] for a, b in pairwise(edges)]
        if any(not len(band) for band in bands):
            continue
        low, middle, high = (float(np.median(band)) for band in bands)
        if low < middle < high and high - low >= GROWTH and (not worst or high - low > worst[1]):
            worst = unit.source.index, high - low
    return worst


def host_of(watched: Sequence[Machine], units: list[Unit]) -> Host:
    """What the monitors saw of the hosts of a loop while it ran."""
    names = {unit.source.host for unit in units}
    begin = min(int(unit.start[0]) for unit in units) / 1e9
    end = max(int(unit.end[-1]) for unit in units) / 1e9
    mine = [machine for machine in watched if machine.host in names]
    return Host(
        cores=min((machine.total_cores for machine in mine if machine.total_cores), default=None),
        full=any(_is_full(machine, begin, end) for machine in mine),
        crowded=next((machine.crowded for machine in mine if machine.crowded), ""),
    )


def _is_full(machine: Machine, begin: float, end: float) -> bool:
    during = [load for time, load in machine.load if begin <= time <= end + 1]
    if during and sum(during) / len(during) >= FULL:
        return True
    limit, used = machine.container.get("cpus"), machine.cores
    return bool(limit and used and used >= FULL * limit)
