"""How a host was used during a run: the metrics of lightgbm-benchmark, shortages, limits of a container.

The names and definitions of the 18 metrics are those of lightgbm-benchmark's ``PerformanceMetrics``, but for
totals of what disks and networks moved, which are of the run here, and not since the host was booted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..named_tuple import NamedTuple
from ..store.monitor import Monitored, core_loads

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

LEVELS = (20, 40, 80, 100)
"""Percents of load, for each of which a metric has the time with at least as much."""
FULL = 0.9
"""Fraction of all cores' time in use from which on nothing is left for more."""
CROWDED = 0.25
"""Other load is reported from this fraction of all cores on, and if some process waits for a core in this
fraction of the time."""


class Utilization(NamedTuple):
    """How busy each core was between two samples."""

    time: float
    """When the later one was taken, in unix seconds."""
    cores: list[float]
    """Percent of each core."""
    mean: float
    """Percent, over all cores."""


def utilization(monitored: Monitored) -> list[Utilization]:
    """How busy the cores of the host were between each two samples."""
    intervals: list[Utilization] = []
    before: Sequence[Sequence[float]] | None = None
    for sample in monitored.hosts:
        cores = sample.data.get("cores")
        loads = core_loads(before, cores)
        if loads is not None:
            percents = [100 * load for load in loads]
            intervals.append(Utilization(sample.time, percents, _mean(percents)))
        before = cores
    return intervals


def metrics(monitored: Monitored, intervals: Sequence[Utilization]) -> dict[str, float]:
    """The 18 metrics of one host, in percent, hours and bytes; ``intervals`` are of :func:`utilization`.

    A metric is left out if the samples that it needs are missing.
    """
    values: dict[str, float] = {}
    if intervals:
        values.update(_processor(intervals, monitored))
    memory = [s.data["memory"]["fraction"] for s in monitored.hosts if "memory" in s.data]
    if memory:
        values["node_max_memory_utilization_pct"] = 100 * max(memory)
    disk = [s.data["filesystem"]["fraction"] for s in monitored.hosts if "filesystem" in s.data]
    if disk:
        values["node_max_disk_utilization_pct"] = 100 * max(disk)
    values.update(_moved(monitored))
    return values


def _processor(intervals: Sequence[Utilization], monitored: Monitored) -> dict[str, float]:
    means = [interval.mean for interval in intervals]
    average = _mean(means)
    elapsed = monitored.hosts[-1].time - monitored.hosts[0].time
    hours = elapsed * len(intervals[0].cores) / 3600
    values = {"cpu_avg_utilization_pct": average}
    for level in LEVELS:
        # A little less, as rounding makes 99.99999 of a core that was busy all the time.
        share = _mean([100.0 * (mean >= level - 1e-6) for mean in means])
        values[f"cpu_avg_utilization_over{level}_pct"] = share
    values["max_t_cpu_pct_per_cpu_avg"] = max(means)
    values["max_t_cpu_pct_per_cpu_min"] = max(min(interval.cores) for interval in intervals)
    values["max_t_cpu_pct_per_cpu_max"] = max(max(interval.cores) for interval in intervals)
    values["node_cpu_hours"] = hours
    values["node_unused_cpu_hours"] = hours * (100 - average) / 100
    return values


def load(intervals: Sequence[Utilization]) -> tuple[tuple[float, float], ...]:
    """Unix seconds, and the fraction of all cores' time that was in use until then."""
    return tuple((interval.time, interval.mean / 100) for interval in intervals)


def cores(monitored: Monitored) -> int | None:
    """The number of cores of the host; None if no sample has them."""
    return next((len(s.data["cores"]) for s in monitored.hosts if s.data.get("cores")), None)


def _moved(monitored: Monitored) -> dict[str, float]:
    """Bytes that disks and networks moved."""
    values: dict[str, float] = {}
    read, written = _growth(monitored, "disks")
    if read is not None and written is not None:
        values["total_disk_io_read"], values["total_disk_io_write"] = read, written
    for name, loopback in (("net_lo", True), ("net_ext", False)):
        sent, received = _growth(monitored, "nets", loopback)
        if sent is not None and received is not None:
            values[f"total_{name}_sent"], values[f"total_{name}_receive"] = sent, received
    return values


def _growth(
    monitored: Monitored, key: str, loopback: bool | None = None
) -> tuple[float | None, float | None]:
    """How much the two counters of all disks or networks grew; None without two samples of them.

    ``loopback`` selects the loopback interface only, or all but that.
    """
    samples = [s.data[key] for s in monitored.hosts if isinstance(s.data.get(key), dict)]
    if len(samples) < 2:
        return None, None
    first, last = samples[0], samples[-1]
    names = [
        name for name in first if name in last and (loopback is None or (name == "lo") == loopback)
    ]
    # A counter that went down belongs to a disk or an interface that was removed and added again.
    return (
        float(sum(max(last[name][0] - first[name][0], 0) for name in names)),
        float(sum(max(last[name][1] - first[name][1], 0) for name in names)),
    )


def shortage(monitored: Monitored) -> dict[str, float]:
    """The fraction of the time in which some process waited for ``cpu``, ``memory`` or ``io``.

    This is "some" of the kernel's pressure stall information; empty where the kernel has none.
    """
    samples = [s for s in monitored.hosts if isinstance(s.data.get("pressure"), dict)]
    if len(samples) < 2 or samples[-1].time <= samples[0].time:
        return {}
    elapsed = samples[-1].time - samples[0].time
    first, last = samples[0].data["pressure"], samples[-1].data["pressure"]
    # The kernel adds up late: over a short time the counters may grow by more than has passed.
    stalled = {
        name: last[name].get("some", 0.0) - first[name].get("some", 0.0)
        for name in last
        if name in first
    }
    return {name: min(max(seconds / elapsed, 0.0), 1.0) for name, seconds in stalled.items()}


def crowding(
    host: str, intervals: Sequence[Utilization], cores: float | None, waits: float
) -> str | None:
    """A clause about other programs, if they used cores of ``host`` that this program could have used.

    ``cores`` is how many this program kept busy, ``waits`` the fraction of the time in which some process
    waited for one.
    """
    if not intervals or cores is None or waits < CROWDED:
        return None
    total = len(intervals[0].cores)
    busy = _mean(interval.mean for interval in intervals) / 100
    others = busy * total - cores
    if busy < FULL or others < CROWDED * total:
        return None
    return f"other programs kept {others:.2g} of {total} cores of {host} busy, this one {cores:.2g}"


def container(monitored: Monitored) -> dict[str, float]:
    """What the container of the program used and may use, as far as it is known.

    ``memory`` is the most that it held and ``memory_limit`` its limit, both in bytes; ``cpus`` is how many it
    may use, and ``throttled`` for how many seconds it was kept from using more.
    """
    samples: list[dict[str, Any]] = [
        sample.data["cgroup"]
        for sample in monitored.hosts
        if isinstance(sample.data.get("cgroup"), dict)
    ]
    if not samples:
        return {}
    first, last = samples[0], samples[-1]
    values: dict[str, float] = {
        key: float(last[key]) for key in ("memory_limit", "cpus") if key in last
    }
    memory = [sample["memory"] for sample in samples if "memory" in sample]
    if memory:
        values["memory"] = float(max(memory))
    if "throttled" in first and "throttled" in last:
        values["throttled"] = float(last["throttled"] - first["throttled"])
    return values


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)
