"""How a host was used during a run: the metrics of lightgbm-benchmark, and the limits of a container.

The names and definitions of the 18 metrics are those of lightgbm-benchmark's ``PerformanceMetrics``;
totals are what was moved during the run, not since the host's boot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..named_tuple import NamedTuple
from ..store.monitor import Monitored, core_loads

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

LEVELS = (20, 40, 80, 100)
FULL = 0.9
"""Fraction of all cores' time in use from which nothing is left for more."""
CROWDED = 0.25
"""Fraction of the cores that others use, and of the time in which processes wait for one, to be reported."""


class Utilization(NamedTuple):
    """How busy each core was from one sample until the next."""

    time: float
    """Of the latter; unix seconds."""
    cores: list[float]
    """Percent."""
    mean: float


def utilization(seen: Monitored) -> list[Utilization]:
    """Of the host, as far as it was watched."""
    found: list[Utilization] = []
    before: Sequence[Sequence[float]] | None = None
    for sample in seen.hosts:
        cores = sample.data.get("cores")
        loads = core_loads(before, cores)
        if loads is not None:
            percent = [100 * load for load in loads]
            found.append(Utilization(sample.time, percent, _mean(percent)))
        before = cores
    return found


def metrics(seen: Monitored, used: Sequence[Utilization]) -> dict[str, float]:
    """The 18 metrics of one host that was ``used`` so; percent, hours, bytes.

    Those without two samples are left out.
    """
    found: dict[str, float] = {}
    if used:
        found.update(_processor(used, seen))
    memory = [sample.data["memory"]["fraction"] for sample in seen.hosts if "memory" in sample.data]
    if memory:
        found["node_max_memory_utilization_pct"] = 100 * max(memory)
    disk = [s.data["filesystem"]["fraction"] for s in seen.hosts if "filesystem" in s.data]
    if disk:
        found["node_max_disk_utilization_pct"] = 100 * max(disk)
    found.update(_moved(seen))
    return found


def _processor(used: Sequence[Utilization], seen: Monitored) -> dict[str, float]:
    means = [each.mean for each in used]
    average = _mean(means)
    elapsed = seen.hosts[-1].time - seen.hosts[0].time
    hours = elapsed * len(used[0].cores) / 3600
    found = {"cpu_avg_utilization_pct": average}
    for level in LEVELS:
        share = _mean([100.0 * (mean >= level - 1e-6) for mean in means])
        found[f"cpu_avg_utilization_over{level}_pct"] = share
    found["max_t_cpu_pct_per_cpu_avg"] = max(means)
    found["max_t_cpu_pct_per_cpu_min"] = max(min(each.cores) for each in used)
    found["max_t_cpu_pct_per_cpu_max"] = max(max(each.cores) for each in used)
    found["node_cpu_hours"] = hours
    found["node_unused_cpu_hours"] = hours * (100 - average) / 100
    return found


def load(used: Sequence[Utilization]) -> tuple[tuple[float, float], ...]:
    """Unix seconds, and the fraction of all cores' time that was in use until then."""
    return tuple((each.time, each.mean / 100) for each in used)


def cores(seen: Monitored) -> int | None:
    """How many there are."""
    return next((len(s.data["cores"]) for s in seen.hosts if s.data.get("cores")), None)


def _moved(seen: Monitored) -> dict[str, float]:
    found: dict[str, float] = {}
    read, written = _total(seen, "disks")
    if read is not None and written is not None:
        found["total_disk_io_read"], found["total_disk_io_write"] = read, written
    for name, loopback in (("net_lo", True), ("net_ext", False)):
        sent, received = _total(seen, "nets", loopback)
        if sent is not None and received is not None:
            found[f"total_{name}_sent"], found[f"total_{name}_receive"] = sent, received
    return found


def _total(
    seen: Monitored, key: str, loopback: bool | None = None
) -> tuple[float | None, float | None]:
    """The growth of both counters of all entries; None without two readings."""
    readings = [sample.data[key] for sample in seen.hosts if isinstance(sample.data.get(key), dict)]
    if len(readings) < 2:
        return None, None
    names = [
        name
        for name in readings[0]
        if name in readings[-1] and (loopback is None or (name == "lo") == loopback)
    ]
    first, last = readings[0], readings[-1]
    return (
        float(sum(max(last[name][0] - first[name][0], 0) for name in names)),
        float(sum(max(last[name][1] - first[name][1], 0) for name in names)),
    )


def shortage(seen: Monitored) -> dict[str, float]:
    """Fraction of the time in which something waited for ``cpu``, ``memory`` or ``io`` (PSI, some)."""
    readings = [sample for sample in seen.hosts if isinstance(sample.data.get("pressure"), dict)]
    if len(readings) < 2 or readings[-1].time <= readings[0].time:
        return {}
    elapsed = readings[-1].time - readings[0].time
    first, last = readings[0].data["pressure"], readings[-1].data["pressure"]
    # The kernel adds up what it has not counted yet: over a short time that can be more than has passed.
    stalled = {
        name: last[name].get("some", 0.0) - first[name].get("some", 0.0)
        for name in last
        if name in first
    }
    return {name: min(max(seconds / elapsed, 0.0), 1.0) for name, seconds in stalled.items()}


def crowding(
    host: str, used: Sequence[Utilization], cores: float | None, waits: float
) -> str | None:
    """What to know of other programs, where they took what this one could have used.

    ``cores`` are the processors that this one kept busy, ``waits`` is the fraction of the time in which
    something waited for one.
    """
    if not used or cores is None or waits < CROWDED:
        return None
    total, busy = len(used[0].cores), _mean(each.mean for each in used) / 100
    others = busy * total - cores
    if busy < FULL or others < CROWDED * total:
        return None
    return f"other programs kept {others:.2g} of {total} cores of {host} busy, this one {cores:.2g}"


def container(seen: Monitored) -> dict[str, float]:
    """The container's largest ``memory`` and its limits, as far as there are any: bytes, cpus."""
    groups: list[dict[str, Any]] = [
        sample.data["cgroup"]
        for sample in seen.hosts
        if isinstance(sample.data.get("cgroup"), dict)
    ]
    if not groups:
        return {}
    found: dict[str, float] = {
        key: float(groups[-1][key]) for key in ("memory_limit", "cpus") if key in groups[-1]
    }
    used = [group["memory"] for group in groups if "memory" in group]
    if used:
        found["memory"] = float(max(used))
    if "throttled" in groups[0] and "throttled" in groups[-1]:
        found["throttled"] = float(groups[-1]["throttled"] - groups[0]["throttled"])
    return found


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
