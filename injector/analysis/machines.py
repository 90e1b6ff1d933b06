"""The machines of a run: hosts, the program's processes on them, devices, energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import fsum

from ..store import monitor
from ..store.folder import Run
from ..store.monitor import Monitored
from ..value_class import replace, value_class
from . import hosts

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

State = tuple[float, dict[str, "Any"]]
"""Unix seconds, and what a device was like then."""
Memory = dict[int, tuple[Sequence[float], Sequence[float]]]


@value_class
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


@value_class
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
    loads: tuple[tuple[float, float], ...]
    """Its load over time: unix seconds, and the fraction of a second before them."""
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


@value_class
class HostUsage:
    """One host as its monitor saw it."""

    host: str
    samples: int
    metrics: dict[str, float]
    """lightgbm-benchmark's, see :mod:`.hosts`."""
    shortage: dict[str, float]
    """Fraction of the time in which something waited, by resource."""
    container: dict[str, float]
    """Largest memory and limits of the container, where there are any."""
    processes: tuple[ProcessUsage, ...]
    devices: tuple[DeviceUsage, ...]
    ranks: dict[str, tuple[int, ...]]
    """By device, the ranks whose processes were seen on it."""
    problems: tuple[str, ...]
    load: tuple[tuple[float, float], ...] = ()
    """Unix seconds, and the part of all cores that was in use until then."""
    total_cores: int | None = None
    crowded: str = ""
    """Which cores other programs had that this one could have used, in words."""

    @property
    def energy(self) -> float | None:
        """Joules of all devices; None where none tells."""
        known = [device.energy for device in self.devices if device.energy is not None]
        return sum(known) if known else None

    @property
    def peak_rss(self) -> int:
        """Bytes of all processes together at the moment when that was most."""
        moments: dict[float, int] = {}
        for process in self.processes:
            for time, size in process.rss:
                moments[time] = moments.get(time, 0) + size
        return max(moments.values(), default=0)

    @property
    def cores(self) -> float | None:
        """Processors that the program kept busy on average."""
        times = [time for process in self.processes for time, _ in process.rss]
        if len(times) < 2 or max(times) <= min(times):
            return None
        return sum(process.cpu for process in self.processes) / (max(times) - min(times))


def machines(run: Run) -> list[HostUsage]:
    """Each host that was watched. Raises OSError; NotARunError for records of a later version."""
    return [_machine(seen, run.info) for seen in monitor.read(run.content)]


def _machine(seen: Monitored, info: Mapping[str, Any]) -> HostUsage:
    devices, used = tuple(devices_of(seen)), hosts.utilization(seen)
    found = HostUsage(
        seen.host,
        len(seen.hosts),
        hosts.metrics(seen, used),
        hosts.shortage(seen),
        hosts.container(seen),
        tuple(processes_of(seen)),
        devices,
        {device.number: _ranks(device.pids, seen.host, info) for device in devices},
        tuple(seen.problems),
    )
    found = replace(found, load=hosts.load(used), total_cores=hosts.cores(seen))
    crowded = hosts.crowding(seen.host, used, found.cores, found.shortage.get("cpu", 0.0))
    if not crowded:
        return found
    known = f"other load: {crowded}; the program may be faster without it"
    return replace(found, problems=(*found.problems, known), crowded=crowded)


def _ranks(pids: Sequence[int], host: str, info: Mapping[str, Any]) -> tuple[int, ...]:
    found = {
        process["rank"]
        for process in info.get("processes") or ()
        if process.get("host") == host
        and process.get("pid") in pids
        and isinstance(process.get("rank"), int)
    }
    return tuple(sorted(found))


def memory_of(found: Sequence[HostUsage], info: Mapping[str, Any]) -> Memory:
    """Unix seconds and resident bytes of each process of run.json that was watched, by its index."""
    memory: Memory = {}
    for index, process in enumerate(info.get("processes") or ()):
        for machine in found:
            if machine.host != process.get("host"):
                continue
            for seen in machine.processes:
                if seen.pid == process.get("pid"):
                    memory[index] = [t for t, _ in seen.rss], [float(b) for _, b in seen.rss]
    return memory


def processes_of(seen: Monitored) -> list[ProcessUsage]:
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


def devices_of(seen: Monitored) -> list[DeviceUsage]:
    """Each visible device."""
    return [_device(number, facts, seen) for number, facts in seen.described.items()]


def _device(number: str, facts: dict[str, Any], seen: Monitored) -> DeviceUsage:
    states = [
        (sample.time, sample.data[number]) for sample in seen.devices if number in sample.data
    ]
    load, power = _values(states, "load"), _values(states, "power")
    pids = {int(pid) for _, state in states for pid in state.get("processes") or ()}
    return DeviceUsage(
        number,
        int(facts.get("index", 0)),
        str(facts.get("name", "")),
        str(facts.get("uuid", "")),
        _mean(load),
        max(load, default=None),
        tuple((time, float(state["load"])) for time, state in states if "load" in state),
        _whole(_values(states, "memory_used")),
        _whole(_values(states, "memory_total")),
        max(_values(states, "temperature"), default=None),
        _mean(power),
        energy(states),
        _throttled(states),
        tuple(sorted(pids)),
        str(facts.get("driver") or ""),
    )


def energy(states: list[State]) -> float | None:
    """Joules between the first and the last state: the counter's growth, else the integral of power."""
    counted = _values(states, "energy")
    if len(counted) > 1 and counted[-1] >= counted[0]:
        return counted[-1] - counted[0]
    powers = [(time, float(state["power"])) for time, state in states if "power" in state]
    if len(powers) < 2:
        return None
    pairs = pairwise(powers)
    return fsum((t1 - t0) * (p0 + p1) / 2 for (t0, p0), (t1, p1) in pairs)


def _throttled(states: list[State]) -> dict[str, float]:
    samples = [state["throttle"] for _, state in states if "throttle" in state]
    reasons = sorted({str(reason) for each in samples for reason in each})
    return {reason: sum(reason in each for each in samples) / len(samples) for reason in reasons}


def _values(states: list[State], key: str) -> list[float]:
    return [float(state[key]) for _, state in states if key in state]


def _mean(values: list[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _whole(values: list[float]) -> int | None:
    return int(max(values)) if values else None
