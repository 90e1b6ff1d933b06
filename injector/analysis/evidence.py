"""What a verdict rests on.

:class:`Evidence` holds what is known of a loop: its tree of regions, shares over windows of the run, the work
of its devices, its hosts, memory that grows. :mod:`.bottlenecks` puts it into words, :mod:`.verdict` draws
the conclusion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..value_class import field, value_class
from .arrays import exceptional, median_over_rows
from .gaps import LargestGap
from .machines import HostUsage
from .pieces import Seconds
from .profile import TimeSegment, UpperBound
from .traces import LoopTrace, is_queued_to
from .training_loop import READING, Node, TrainingLoop

WINDOWS, IN_WINDOW = 16, 8
"""The most windows that a loop is cut into, and the fewest steps of each."""
FULL = 0.9
"""Fraction of the cores in use from which on none are left for more workers."""
GROWTH = 1 << 30
"""Bytes by which the memory of a process has to grow to be mentioned."""
LAG = 1.0
"""Seconds over which a driver averages the load of a device: that at a moment is of the time before."""
SAMPLES = 3
"""Fewer samples do not tell the load of a device."""
LEAST_STEPS = 150
"""Fewer steps do not show growth: memory has to rise over three bands of 50 each."""

Memory = Mapping[int, tuple[Sequence[float], Sequence[float]]]
"""By index of the process in run.json: moments in unix seconds, and its resident memory in bytes at each."""
Shares = Mapping[str, float]
"""The fraction of a step that each region takes without the regions inside it, 0…1."""


class Host(NamedTuple):
    """The hosts of a loop, as their monitors saw them while it ran."""

    cores: int | None = None
    """Cores of the smallest host."""
    full: bool = False
    """Whether all cores of some host, or all that its container may use, were in use."""
    crowded: str = ""
    """Which cores other programs used, in words; empty if this one did not need them."""


class DeviceWork(NamedTuple):
    """What the devices of a loop had to do in its steps."""

    idle: Shares
    """The fraction of each region's time on the host in which the device had nothing queued."""
    copying: float
    """The fraction of the steps' time in which devices copied batches that had been queued."""
    load: float | None
    """The fraction of the time in which devices computed, by their driver; None if it has too few samples."""

    def queued(self, shares: Shares) -> float:
        """The fraction of a step with these ``shares`` in which the device certainly had work."""
        return sum(share * (1 - self.idle.get(name, 1.0)) for name, share in shares.items())


@value_class
class Evidence:
    """What a verdict rests on."""

    loop: TrainingLoop
    windows: list[Shares]
    """Shares over consecutive parts of the measured steps."""
    device: DeviceWork | None = None
    """None without a device clock."""
    between: LargestGap | None = None
    """Where most of ``other`` lies."""
    growth: tuple[int, float] | None = None
    """The index of the process whose memory grew, and by how many bytes."""
    segments: Sequence[TimeSegment] = ()
    others: Sequence[Node] = ()
    """Regions outside of steps."""
    wall: float = 0.0
    """Seconds of the run; 0 while it goes on."""
    command: Sequence[str] = ()
    """The command that started the program."""
    host: Host = field(default_factory=Host)
    bounds: Sequence[UpperBound] = ()
    profiled: int = 0
    """How many steps of each rank ``--torch-profile`` recorded, at most."""
    shares_batches: bool = False
    """Whether the ranks work on the same batches, each with a part of the model."""


def windows_of(traces: list[LoopTrace], warmup: int) -> list[Shares]:
    """The shares of regions over parts of the measured steps, all ranks together."""
    count = min(len(trace) - trace.measured_from(warmup) for trace in traces)
    count = max(1, min(WINDOWS, count // IN_WINDOW))
    sums: list[dict[str, float]] = [{} for _ in range(count)]
    for trace in traces:
        first = trace.measured_from(warmup)
        is_usual = ~exceptional(trace.table.seconds[first:])
        all_usual = bool(is_usual.all())
        edges = np.linspace(0, len(is_usual), count + 1).astype(int)[:-1]
        for name, seconds in trace.table.regions().items():
            # Exceptional steps would decide a window by themselves; they are counted as nothing.
            counted = seconds[first:] if all_usual else seconds[first:] * is_usual
            parts = np.add.reduceat(counted, edges, dtype=np.float64)
            name = "io" if name in READING else name
            for window, part in zip(sums, parts.tolist(), strict=True):
                window[name] = window.get(name, 0.0) + part
    totals = [sum(window.values()) for window in sums]
    return [
        {name: part / total for name, part in window.items()}
        for window, total in zip(sums, totals, strict=True)
        if total > 0
    ]


def device_work(
    traces: list[LoopTrace], warmup: int, watched: Sequence[HostUsage]
) -> DeviceWork | None:
    """What the devices of a loop had to do in its measured, usual steps; None if unknown."""
    idle: dict[str, float] = {}
    spent: dict[str, float] = {}
    copying = total = 0.0
    for trace in traces:
        table = trace.table
        if table.idle is None or table.copying is None or not is_queued_to(trace.device):
            continue
        first = trace.measured_from(warmup)
        counted = ~exceptional(table.seconds[first:])
        if table.timed is not None:
            counted &= table.timed[first:]
        # Both sums over the same steps, so that their quotient is a fraction.
        for sums, columns in ((spent, table.regions()), (idle, table.idle_regions())):
            for name, seconds in columns.items():
                name = "io" if name in READING else name
                sums[name] = sums.get(name, 0.0) + _sum(seconds[first:][counted])
        copying += _sum(table.copying[first:][counted])
        total += _sum(table.seconds[first:][counted])
    if total <= 0:
        return None
    idle_shares = {
        name: min(idle[name] / seconds, 1.0) for name, seconds in spent.items() if seconds > 0
    }
    # The batches queued last may be copied after the last step.
    copying = min(copying, max(total - sum(idle.values()), 0.0))
    return DeviceWork(idle_shares, copying / total, _mean_load(traces, watched))


def _sum(seconds: Seconds) -> float:
    return float(seconds.sum(dtype=np.float64))


def _mean_load(traces: list[LoopTrace], watched: Sequence[HostUsage]) -> float | None:
    """The mean load of the devices of a loop, 0…1; None if one has too few samples or is not known."""
    means = []
    for trace in traces:
        begin, end = trace.thirds[0] / 1e9 + LAG, trace.thirds[-1] / 1e9
        devices = [device for m in watched if m.host == trace.source.host for device in m.devices]
        # A driver may know a container's processes by other numbers. A single device is theirs all the same.
        used = [device for device in devices if trace.source.pid in device.pids] or devices
        loads = [load for time, load in used[0].loads if begin <= time <= end] if used else []
        if len(used) != 1 or len(loads) < SAMPLES:
            return None
        means.append(sum(loads) / len(loads))
    return sum(means) / len(means) if means else None


def growth_of(memory: Memory, traces: list[LoopTrace]) -> tuple[int, float] | None:
    """The process whose memory grew most, and by how many bytes; None if none grew by much.

    The median has to rise from each third of the loop's steps to the next: a cache that fills does not count.
    """
    worst: tuple[int, float] | None = None
    for trace in traces:
        if len(trace) < LEAST_STEPS or trace.source.index not in memory:
            continue
        times, values = (np.asarray(column, np.float64) for column in memory[trace.source.index])
        # The loop's own thirds, not the run's: before it, a program loads its data.
        edges = [moment / 1e9 for moment in trace.thirds]
        bands = [values[(times >= a) & (times <= b)] for a, b in pairwise(edges)]
        if any(not len(band) for band in bands):
            continue
        low, middle, high = (float(median_over_rows(band)) for band in bands)
        if low < middle < high and high - low >= GROWTH and (not worst or high - low > worst[1]):
            worst = trace.source.index, high - low
    return worst


def host_of(watched: Sequence[HostUsage], traces: list[LoopTrace]) -> Host:
    """What the monitors saw of the hosts of a loop while it ran."""
    names = {trace.source.host for trace in traces}
    begin = min(trace.thirds[0] for trace in traces) / 1e9
    end = max(trace.thirds[-1] for trace in traces) / 1e9
    hosts = [machine for machine in watched if machine.host in names]
    return Host(
        cores=min((machine.total_cores for machine in hosts if machine.total_cores), default=None),
        full=any(_is_full(machine, begin, end) for machine in hosts),
        crowded=next((machine.crowded for machine in hosts if machine.crowded), ""),
    )


def _is_full(machine: HostUsage, begin: float, end: float) -> bool:
    during = [load for time, load in machine.load if begin <= time <= end + 1]
    if during and sum(during) / len(during) >= FULL:
        return True
    # A container may be allowed fewer cores than its host has.
    limit, used = machine.container.get("cpus"), machine.cores
    return bool(limit and used and used >= FULL * limit)
