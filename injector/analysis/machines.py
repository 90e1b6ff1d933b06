"""The machines of a run: what its hosts, processes and devices did and used, by the monitor's samples.

The monitor writes one file for each host, with samples of the host, of the program's processes there and of
its devices, one after the other. :func:`machines` makes a :class:`HostUsage` of each: means, largest values
and totals, and some values over time for charts. Metrics of a whole host are computed in :mod:`.hosts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from ..store import monitor
from ..store.folder import Run
from ..store.monitor import Monitored
from ..value_class import replace, value_class
from . import hosts
from .statistics import mean_of_known

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

State = tuple[float, dict[str, "Any"]]
"""When a device was sampled, in unix seconds, and what the sample has."""
Memory = dict[int, tuple[Sequence[float], Sequence[float]]]
"""By process (index of ``processes`` in run.json): unix seconds, and resident bytes at each of them."""


@value_class
class ProcessUsage:
    """One process of the program. Units are bytes and seconds."""

    pid: int
    name: str
    cpu: float
    """Seconds of processor time that it used until its last sample."""
    cores: float
    """How many processors it kept busy on average: ``cpu`` divided by the time in which it used them."""
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
    """One device. Units are fractions, bytes, °C, watts and joules; None where it does not report a value."""

    number: str
    ordinal: int
    """Its index among all devices of its vendor."""
    name: str
    uuid: str
    load: float | None
    """Mean over the samples."""
    peak_load: float | None
    loads: tuple[tuple[float, float], ...]
    """Its load over time: unix seconds, and the load in the second before."""
    peak_memory: int | None
    total_memory: int | None
    peak_temperature: float | None
    power: float | None
    """Mean over the samples."""
    energy: float | None
    """Over the run: by the device's own counter if it has one, else the integral of its power."""
    throttled: dict[str, float]
    """For each reason of throttling, the fraction of the samples that have it."""
    pids: tuple[int, ...]
    """Processes that were seen on it."""
    driver: str = ""


@value_class
class HostUsage:
    """One host, as its monitor saw it."""

    host: str
    samples: int
    metrics: dict[str, float]
    """Those of lightgbm-benchmark by their names; see :mod:`.hosts`."""
    shortage: dict[str, float]
    """For each resource, the fraction of the time in which some process waited for it."""
    container: dict[str, float]
    """Largest memory and limits of the container, where there are any."""
    processes: tuple[ProcessUsage, ...]
    devices: tuple[DeviceUsage, ...]
    ranks: dict[str, tuple[int, ...]]
    """For each device, the ranks whose processes were seen on it."""
    problems: tuple[str, ...]
    load: tuple[tuple[float, float], ...] = ()
    """Unix seconds, and the fraction of all cores that was in use until then."""
    total_cores: int | None = None
    crowded: str = ""
    """A clause about cores that other programs used and this one could have; empty if there are none."""

    @property
    def energy(self) -> float | None:
        """Joules of all devices; None if no device reports any."""
        known = [device.energy for device in self.devices if device.energy is not None]
        return sum(known) if known else None

    @property
    def peak_rss(self) -> int:
        """The largest sum of the resident bytes of all processes at one moment."""
        total_at: dict[float, int] = {}
        for process in self.processes:
            for time, size in process.rss:
                total_at[time] = total_at.get(time, 0) + size
        return max(total_at.values(), default=0)

    @property
    def cores(self) -> float | None:
        """How many processors the program kept busy on average; None without two samples."""
        times = [time for process in self.processes for time, _ in process.rss]
        if len(times) < 2 or max(times) <= min(times):
            return None
        return sum(process.cpu for process in self.processes) / (max(times) - min(times))


def machines(run: Run) -> list[HostUsage]:
    """The usage of each watched host. Raises OSError; NotARunError for records of a later version."""
    return [_machine(monitored, run.info) for monitored in monitor.read(run.content)]


def _machine(monitored: Monitored, info: Mapping[str, Any]) -> HostUsage:
    host = monitored.host
    devices, utilization = tuple(devices_of(monitored)), hosts.utilization(monitored)
    usage = HostUsage(
        host=host,
        samples=len(monitored.hosts),
        metrics=hosts.metrics(monitored, utilization),
        shortage=hosts.shortage(monitored),
        container=hosts.container(monitored),
        processes=tuple(processes_of(monitored)),
        devices=devices,
        ranks={device.number: _ranks(device.pids, host, info) for device in devices},
        problems=tuple(monitored.problems),
        load=hosts.load(utilization),
        total_cores=hosts.cores(monitored),
    )
    crowded = hosts.crowding(host, utilization, usage.cores, usage.shortage.get("cpu", 0.0))
    if not crowded:
        return usage
    problem = f"other load: {crowded}; the program may be faster without it"
    return replace(usage, problems=(*usage.problems, problem), crowded=crowded)


def _ranks(pids: Sequence[int], host: str, info: Mapping[str, Any]) -> tuple[int, ...]:
    """The ranks of the processes ``pids`` on ``host``, in order."""
    ranks = {
        process["rank"]
        for process in info.get("processes") or ()
        if process.get("host") == host
        and process.get("pid") in pids
        and isinstance(process.get("rank"), int)
    }
    return tuple(sorted(ranks))


def memory_of(machines: Sequence[HostUsage], info: Mapping[str, Any]) -> Memory:
    """The resident memory over time of each process of run.json that a monitor watched."""
    memory: Memory = {}
    for index, process in enumerate(info.get("processes") or ()):
        for machine in machines:
            if machine.host != process.get("host"):
                continue
            for usage in machine.processes:
                if usage.pid == process.get("pid"):
                    memory[index] = [t for t, _ in usage.rss], [float(b) for _, b in usage.rss]
    return memory


def processes_of(monitored: Monitored) -> list[ProcessUsage]:
    """The usage of each process of the program, in the order in which they were first seen."""
    # The kernel uses process numbers again; the start time distinguishes processes with the same one.
    entries_of: dict[tuple[int, float], list[tuple[float, dict[str, Any]]]] = {}
    for sample in monitored.trees:
        for entry in sample.data.get("processes") or ():
            key = int(entry["pid"]), float(entry.get("started") or 0.0)
            entries_of.setdefault(key, []).append((sample.time, entry))
    return [_process(pid, entries) for (pid, _), entries in entries_of.items()]


def _process(pid: int, entries: list[tuple[float, dict[str, Any]]]) -> ProcessUsage:
    (first_time, first), (last_time, last) = entries[0], entries[-1]
    # All of the processor time in the last sample was used within the run: a process of the program
    # begins during it. So the time goes by its own start, which is before its first sample.
    cpu = float(last["cpu"])
    alive = max(last_time - min(first_time, float(first.get("started") or first_time)), 1e-9)
    uss = [entry["uss"] for _, entry in entries if "uss" in entry]
    fds = [entry["fds"] for _, entry in entries if "fds" in entry]
    return ProcessUsage(
        pid=pid,
        name=str(last.get("name", "")),
        cpu=cpu,
        cores=cpu / alive,
        peak_rss=max(entry["rss"] for _, entry in entries),
        peak_uss=max(uss, default=None),
        threads=max(entry["threads"] for _, entry in entries),
        fds=max(fds, default=None),
        read=int(last.get("read", 0)),
        written=int(last.get("written", 0)),
        rss=tuple((time, int(entry["rss"])) for time, entry in entries),
    )


def devices_of(monitored: Monitored) -> list[DeviceUsage]:
    """The usage of each device that the program could see."""
    return [_device(number, facts, monitored) for number, facts in monitored.described.items()]


def _device(number: str, facts: dict[str, Any], monitored: Monitored) -> DeviceUsage:
    states = monitored.states(number)
    load, power = _values(states, "load"), _values(states, "power")
    pids = {int(pid) for _, state in states for pid in state.get("processes") or ()}
    return DeviceUsage(
        number=number,
        ordinal=int(facts.get("index", 0)),
        name=str(facts.get("name", "")),
        uuid=str(facts.get("uuid", "")),
        load=mean_of_known(load),
        peak_load=max(load, default=None),
        loads=tuple((time, float(state["load"])) for time, state in states if "load" in state),
        peak_memory=_largest_int(_values(states, "memory_used")),
        total_memory=_largest_int(_values(states, "memory_total")),
        peak_temperature=max(_values(states, "temperature"), default=None),
        power=mean_of_known(power),
        energy=energy(states),
        throttled=_throttled(states),
        pids=tuple(sorted(pids)),
        driver=str(facts.get("driver") or ""),
    )


def joules(states: list[State]) -> list[tuple[float, float]]:
    """Joules over time, of which differences count: by the device's counter, else the integral of its power.

    Empty where a device reports neither at least twice.
    """
    counter = [(time, float(state["energy"])) for time, state in states if "energy" in state]
    # A counter that went down was reset when the driver was loaded anew: it is of no use then.
    if len(counter) > 1 and counter[-1][1] >= counter[0][1]:
        return counter
    powers = [(time, float(state["power"])) for time, state in states if "power" in state]
    if len(powers) < 2:
        return []
    parts = ((t1 - t0) * (p0 + p1) / 2 for (t0, p0), (t1, p1) in pairwise(powers))
    sums = accumulate(parts, initial=0.0)
    return [(time, total) for (time, _), total in zip(powers, sums, strict=True)]


def energy(states: list[State]) -> float | None:
    """The :func:`joules` from the first state to the last; None if they are not known."""
    over_time = joules(states)
    return over_time[-1][1] - over_time[0][1] if over_time else None


def _throttled(states: list[State]) -> dict[str, float]:
    samples = [state["throttle"] for _, state in states if "throttle" in state]
    reasons = sorted({str(reason) for sample in samples for reason in sample})
    return {
        reason: sum(reason in sample for sample in samples) / len(samples) for reason in reasons
    }


def _values(states: list[State], key: str) -> list[float]:
    return [float(state[key]) for _, state in states if key in state]


def _largest_int(values: list[float]) -> int | None:
    return int(max(values)) if values else None
