"""What processes and devices used during a run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from typing import Any

from .monitored import Monitored, Sample


@dataclass(frozen=True)
class ProcessUsage:
    """One process of the program. Bytes and seconds."""

    pid: int
    name: str
    cpu: float
    """Seconds of processor time while it was watched."""
    cores: float
    """Processors busy on average: ``cpu`` by the time it was watched."""
    peak_rss: int
    peak_uss: int | None
    threads: int
    fds: int | None
    read: int
    written: int
    rss: tuple[tuple[float, int], ...]
    """Its resident memory over time: unix seconds, bytes."""


@dataclass(frozen=True)
class DeviceUsage:
    """One device. Fractions, bytes, °C, watts, joules."""

    number: str
    ordinal: int
    """Its index among all devices of its vendor."""
    name: str
    uuid: str
    load: float | None
    """Mean over the samples."""
    peak_load: float | None
    peak_memory: int | None
    total_memory: int | None
    peak_temperature: float | None
    power: float | None
    """Mean over the samples."""
    energy: float | None
    """Of the run: the device's own counter where it has one, else power over time."""
    throttled: dict[str, float]
    """Reason → fraction of the samples."""
    pids: tuple[int, ...]
    """Processes seen on it."""
    driver: str = ""


def processes(seen: Monitored) -> list[ProcessUsage]:
    """Each process of the tree, in the order in which they were first seen."""
    found: dict[tuple[int, float], list[tuple[float, dict[str, Any]]]] = {}
    for sample in seen.trees:
        for entry in sample.data.get("processes") or ():
            key = int(entry["pid"]), float(entry.get("started") or 0.0)
            found.setdefault(key, []).append((sample.time, entry))
    return [_process(pid, entries) for (pid, _), entries in found.items()]


def _process(pid: int, entries: list[tuple[float, dict[str, Any]]]) -> ProcessUsage:
    (began, first), (ended, last) = entries[0], entries[-1]
    # Who began during the run has used all of its time in it; the main process began with it.
    cpu = float(last["cpu"])
    alive = max(ended - min(began, float(first.get("started") or began)), 1e-9)
    uss = [entry["uss"] for _, entry in entries if "uss" in entry]
    fds = [entry["fds"] for _, entry in entries if "fds" in entry]
    return ProcessUsage(
        pid,
        str(last.get("name", "")),
        cpu,
        cpu / alive,
        max(entry["rss"] for _, entry in entries),
        max(uss, default=None),
        max(entry["threads"] for _, entry in entries),
        max(fds, default=None),
        int(last.get("read", 0)),
        int(last.get("written", 0)),
        tuple((time, int(entry["rss"])) for time, entry in entries),
    )


def devices(seen: Monitored) -> list[DeviceUsage]:
    """Each visible device."""
    return [_device(number, facts, seen) for number, facts in seen.described.items()]


def _device(number: str, facts: dict[str, Any], seen: Monitored) -> DeviceUsage:
    states = [
        Sample(sample.time, sample.data[number]) for sample in seen.devices if number in sample.data
    ]
    load, power = _values(states, "load"), _values(states, "power")
    pids = {int(pid) for state in states for pid in state.data.get("processes") or ()}
    return DeviceUsage(
        number,
        int(facts.get("index", 0)),
        str(facts.get("name", "")),
        str(facts.get("uuid", "")),
        _mean(load),
        max(load, default=None),
        _whole(_values(states, "memory_used")),
        _whole(_values(states, "memory_total")),
        max(_values(states, "temperature"), default=None),
        _mean(power),
        energy(states),
        _throttled(states),
        tuple(sorted(pids)),
        str(facts.get("driver") or ""),
    )


def energy(states: list[Sample]) -> float | None:
    """Joules between the first and the last state: the counter's growth, else the integral of power."""
    counted = _values(states, "energy")
    if len(counted) > 1 and counted[-1] >= counted[0]:
        return counted[-1] - counted[0]
    powers = [(state.time, float(state.data["power"])) for state in states if "power" in state.data]
    if len(powers) < 2:
        return None
    pairs = pairwise(powers)
    return fsum((t1 - t0) * (p0 + p1) / 2 for (t0, p0), (t1, p1) in pairs)


def _throttled(states: list[Sample]) -> dict[str, float]:
    told = [state.data["throttle"] for state in states if "throttle" in state.data]
    reasons = sorted({str(reason) for each in told for reason in each})
    return {reason: sum(reason in each for each in told) / len(told) for reason in reasons}


def _values(states: list[Sample], key: str) -> list[float]:
    return [float(state.data[key]) for state in states if key in state.data]


def _mean(values: list[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _whole(values: list[float]) -> int | None:
    return int(max(values)) if values else None
