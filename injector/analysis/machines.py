"""The machines of a run: hosts, the program's processes on them, devices, energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..store.folder import Run
from . import hosts, monitored, usage

Memory = dict[int, tuple[Sequence[float], Sequence[float]]]


@dataclass(frozen=True)
class Machine:
    """One host as its monitor saw it."""

    host: str
    samples: int
    metrics: dict[str, float]
    """lightgbm-benchmark's, see :mod:`.hosts`."""
    shortage: dict[str, float]
    """Fraction of the time in which something waited, by resource."""
    container: dict[str, float]
    """Largest memory and limits of the container, where there are any."""
    processes: tuple[usage.ProcessUsage, ...]
    devices: tuple[usage.DeviceUsage, ...]
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


def machines(run: Run) -> list[Machine]:
    """Each host that was watched. Raises OSError; NotARunError for records of a later version."""
    return [_machine(seen, run.info) for seen in monitored.read(run.content)]


def _machine(seen: monitored.Monitored, info: Mapping[str, Any]) -> Machine:
    devices = tuple(usage.devices(seen))
    found = Machine(
        seen.host,
        len(seen.hosts),
        hosts.metrics(seen),
        hosts.shortage(seen),
        hosts.container(seen),
        tuple(usage.processes(seen)),
        devices,
        {device.number: _ranks(device.pids, seen.host, info) for device in devices},
        tuple(seen.problems),
    )
    found = replace(found, load=hosts.load(seen), total_cores=hosts.cores(seen))
    crowded = hosts.crowding(seen, found.cores, found.shortage.get("cpu", 0.0))
    if not crowded:
        return found
    known = f"this program alone: {crowded}, and it may be faster without them"
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


def memory_of(found: Sequence[Machine], info: Mapping[str, Any]) -> Memory:
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
