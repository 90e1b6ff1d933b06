"""What a run's processes and devices used in parts of its time: processor seconds, memory, energy.

Processor time and energy are counters, which the monitor samples about once a second. What was used from one
moment to another is the difference of the counter at both, interpolated between samples. Where several
workers are busy at once, each gets an equal share: in a second in which two workers train and one loads,
training gets two thirds of the processor time and loading one third.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from ..store.monitor import Monitored
from ..value_class import field, state_class
from .arrays import distinct
from .columns import SECOND, Floats, Ints
from .machines import joules


@state_class
class _Counter:
    """A counter's value at each of some moments, in unix seconds."""

    times: Floats
    total: Floats

    def at(self, moments: Floats) -> Floats:
        """The interpolated value at each of ``moments``."""
        values: Floats = np.interp(moments, self.times, self.total)
        return values


@state_class
class Usage:
    """What all hosts of a run used over time."""

    cpu: list[_Counter] = field(default_factory=list)
    """Processor seconds of the program's processes, for each host."""
    energy: list[_Counter] = field(default_factory=list)
    """Joules of each device."""
    resident: list[tuple[Floats, Floats]] = field(default_factory=list)
    """For each host, unix seconds, and the bytes that the program's processes held then."""
    interval: float = 0.0
    """The usual time between two samples in seconds, of whatever was sampled least often."""


@state_class
class Used:
    """What was used in some parts of the time: processor seconds, bytes, joules; None where not known."""

    cpu: float | None
    peak_rss: int | None
    energy: float | None


def sampled_usage(monitored: Iterable[Monitored]) -> Usage:
    """What the monitor of each host sampled."""
    usage = Usage()
    for host in monitored:
        _add_processes(usage, host)
        _add_devices(usage, host)
    return usage


def _add_processes(usage: Usage, host: Monitored) -> None:
    # A process that has ended keeps its last value, so that the sum never falls.
    cpu_of: dict[tuple[int, float], float] = {}
    times, total, resident = [], [], []
    for sample in host.trees:
        processes = sample.data.get("processes") or ()
        for process in processes:
            key = int(process["pid"]), float(process.get("started") or 0.0)
            cpu_of[key] = float(process["cpu"])
        times.append(sample.time)
        total.append(sum(cpu_of.values()))
        resident.append(float(sum(process["rss"] for process in processes)))
    if len(times) > 1:
        usage.cpu.append(_Counter(np.array(times), np.array(total)))
        usage.resident.append((np.array(times), np.array(resident)))
        usage.interval = max(usage.interval, float(np.median(np.diff(times))))


def _add_devices(usage: Usage, host: Monitored) -> None:
    for number in host.described:
        if not (over_time := joules(host.states(number))):
            continue
        times, total = np.array(over_time).T
        # A counter that falls has been reset; nothing is known of that time, and it must not be negative.
        usage.energy.append(_Counter(times, np.maximum.accumulate(total)))
        usage.interval = max(usage.interval, float(np.median(np.diff(times))))


def usage_of(usage: Usage, intervals: Mapping[str, tuple[Ints, Ints]]) -> dict[str, Used]:
    """What was used in the intervals of each name; each has starts and ends in unix nanoseconds.

    Where intervals overlap, each gets an equal share of what was used meanwhile. A name is left out if all of
    its intervals take less time than lies between two samples: nothing would be known of them.
    """
    moments = distinct(np.concatenate([m for pair in intervals.values() for m in pair]))
    if len(moments) < 2:
        return {}
    # Between two neighbouring moments nothing begins or ends: shares are constant there.
    active = {name: _active(pair, moments) for name, pair in intervals.items()}
    all_active = np.maximum(np.sum(list(active.values()), axis=0), 1)
    seconds = moments / SECOND
    cpu, energy = _growth(usage.cpu, seconds), _growth(usage.energy, seconds)
    used = {}
    for name, (start, end) in intervals.items():
        if (end - start).sum() / SECOND < usage.interval or not usage.interval:
            continue
        share = active[name] / all_active
        used[name] = Used(
            None if cpu is None else float((cpu * share).sum()),
            _peak(usage.resident, seconds, active[name] > 0),
            None if energy is None else float((energy * share).sum()),
        )
    return used


def _active(intervals: tuple[Ints, Ints], moments: Ints) -> npt.NDArray[np.int64]:
    """How many of ``intervals`` cover the time from each of ``moments`` to the next one."""
    changes = np.zeros(len(moments), np.int64)
    np.add.at(changes, np.searchsorted(moments, intervals[0]), 1)
    np.add.at(changes, np.searchsorted(moments, intervals[1]), -1)
    counts: npt.NDArray[np.int64] = np.cumsum(changes)[:-1]
    return counts


def _growth(counters: list[_Counter], seconds: Floats) -> Floats | None:
    """By how much all ``counters`` grew from each moment to the next; None if there are none."""
    if not counters:
        return None
    growth: Floats = np.sum([np.diff(counter.at(seconds)) for counter in counters], axis=0)
    return growth


def _peak(
    resident: list[tuple[Floats, Floats]], seconds: Floats, busy: npt.NDArray[np.bool_]
) -> int | None:
    """The most bytes in samples during ``busy`` time, which is by the moments in ``seconds``."""
    largest = 0.0
    for times, sizes in resident:
        at = np.searchsorted(seconds, times, side="right") - 1
        inside = (at >= 0) & (at < len(busy))
        inside[inside] = busy[at[inside]]
        # Hosts sample at different moments: this is the peak of one host, not of their sum.
        largest = max(largest, float(sizes[inside].max(initial=0.0)))
    return int(largest) or None
