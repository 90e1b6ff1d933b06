"""What a run's processes and devices used in pieces of its time: processor seconds, memory, energy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from ..store.monitor import Monitored
from ..value_class import field, state_class
from .arrays import distinct
from .columns import SECOND, Floats, Ints


@state_class
class _Counter:
    """What had been used until each moment; unix seconds."""

    times: Floats
    total: Floats

    def at(self, moments: Floats) -> Floats:
        found: Floats = np.interp(moments, self.times, self.total)
        return found


@state_class
class Usage:
    """Of all hosts of a run, sampled; between two samples, at an even pace."""

    cpu: list[_Counter] = field(default_factory=list)
    energy: list[_Counter] = field(default_factory=list)
    resident: list[tuple[Floats, Floats]] = field(default_factory=list)
    """Of each host, unix seconds, and bytes that the program's processes held."""
    interval: float = 0.0
    """The longest time between two samples of a kind, in seconds."""


@state_class
class Used:
    """What was used in some pieces of time. Processor seconds, bytes, joules; None where not known."""

    cpu: float | None
    peak_rss: int | None
    energy: float | None


def sampled_usage(seen: Iterable[Monitored]) -> Usage:
    """What the monitors of a run say."""
    found = Usage()
    for each in seen:
        _add_processes(found, each)
        _add_devices(found, each)
    return found


def _add_processes(found: Usage, seen: Monitored) -> None:
    known: dict[tuple[int, float], float] = {}
    times, total, resident = [], [], []
    for sample in seen.trees:
        processes = sample.data.get("processes") or ()
        for one in processes:
            known[int(one["pid"]), float(one.get("started") or 0.0)] = float(one["cpu"])
        times.append(sample.time)
        total.append(sum(known.values()))
        resident.append(float(sum(one["rss"] for one in processes)))
    if len(times) > 1:
        found.cpu.append(_Counter(np.array(times), np.array(total)))
        found.resident.append((np.array(times), np.array(resident)))
        found.interval = max(found.interval, float(np.median(np.diff(times))))


def _add_devices(found: Usage, seen: Monitored) -> None:
    for number in seen.described:
        states = [
            (sample.time, sample.data[number]) for sample in seen.devices if number in sample.data
        ]
        counted = [(time, float(state["energy"])) for time, state in states if "energy" in state]
        power = [(time, float(state["power"])) for time, state in states if "power" in state]
        if len(counted) > 1:
            times, total = np.array(counted).T
        elif len(power) > 1:
            times, watts = np.array(power).T
            spent = np.diff(times) * (watts[1:] + watts[:-1]) / 2
            total = np.concatenate(([0.0], np.cumsum(spent)))
        else:
            continue
        found.energy.append(_Counter(times, np.maximum.accumulate(total)))
        found.interval = max(found.interval, float(np.median(np.diff(times))))


def usage_of(found: Usage, pieces: Mapping[str, tuple[Ints, Ints]]) -> dict[str, Used]:
    """What was used in the pieces (unix nanoseconds, from, to) of each name.

    Where pieces overlap, as those of several workers do, what was used meanwhile is divided among them
    evenly. Pieces are left out that together take less time than lies between two samples.
    """
    moments = distinct(np.concatenate([m for pair in pieces.values() for m in pair]))
    if len(moments) < 2:
        return {}
    active = {name: _active(pair, moments) for name, pair in pieces.items()}
    every = np.maximum(np.sum(list(active.values()), axis=0), 1)
    seconds = moments / SECOND
    cpu, energy = _between(found.cpu, seconds), _between(found.energy, seconds)
    made = {}
    for name, (start, end) in pieces.items():
        if (end - start).sum() / SECOND < found.interval or not found.interval:
            continue
        share = active[name] / every
        busy = active[name] > 0
        made[name] = Used(
            None if cpu is None else float((cpu * share).sum()),
            _peak(found.resident, seconds, busy),
            None if energy is None else float((energy * share).sum()),
        )
    return made


def _active(pair: tuple[Ints, Ints], moments: Ints) -> npt.NDArray[np.int64]:
    """How many of the pieces hold each gap between two moments."""
    changes = np.zeros(len(moments), np.int64)
    np.add.at(changes, np.searchsorted(moments, pair[0]), 1)
    np.add.at(changes, np.searchsorted(moments, pair[1]), -1)
    found: npt.NDArray[np.int64] = np.cumsum(changes)[:-1]
    return found


def _between(counters: list[_Counter], seconds: Floats) -> Floats | None:
    if not counters:
        return None
    found: Floats = np.sum([np.diff(each.at(seconds)) for each in counters], axis=0)
    return found


def _peak(
    resident: list[tuple[Floats, Floats]], seconds: Floats, busy: npt.NDArray[np.bool_]
) -> int | None:
    largest = 0.0
    for times, sizes in resident:
        at = np.searchsorted(seconds, times, side="right") - 1
        inside = (at >= 0) & (at < len(busy))
        inside[inside] = busy[at[inside]]
        largest = max(largest, float(sizes[inside].max(initial=0.0)))
    return int(largest) or None
