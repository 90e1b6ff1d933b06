"""The host's processors, memory, disks, networks, shortage (PSI) and the limits of the container (cgroups).

Bytes, seconds, fractions 0…1; totals since boot.
"""

from __future__ import annotations

import os
from typing import Any

import psutil

PRESSURE = "/proc/pressure"
CGROUPS = "/sys/fs/cgroup"


def fast() -> dict[str, Any]:
    """What every sample has: the seconds that each core was busy and idle since boot, and memory."""
    cores = [_core(times) for times in psutil.cpu_times(percpu=True)]
    memory = psutil.virtual_memory()
    return {
        "cores": cores,
        "memory": {
            "total": memory.total,
            "used": memory.total - memory.available,
            "fraction": memory.percent / 100,
        },
    }


def _core(times: Any) -> list[float]:
    """Busy and idle seconds. Guests' time is part of user time; waiting for a disk is idle time."""
    idle = times.idle + getattr(times, "iowait", 0.0)
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return [round(sum(times) - idle - guests, 3), round(idle, 3)]


def slow() -> dict[str, Any]:
    """What is read at most once a second: load, swap, disks, networks."""
    return {
        "load": list(os.getloadavg()),
        "swap": _swap(),
        "filesystem": _filesystem(),
        "disks": _disks(),
        "nets": _nets(),
    }


def _swap() -> dict[str, int]:
    swap = psutil.swap_memory()
    return {"total": swap.total, "used": swap.used}


def _filesystem() -> dict[str, Any]:
    """The file system of the current folder, which is the program's."""
    usage = psutil.disk_usage(os.getcwd())
    return {"total": usage.total, "used": usage.used, "fraction": usage.percent / 100}


def _disks() -> dict[str, list[int]]:
    """Bytes read and written since boot, by whole disk: partitions would count twice."""
    counters = psutil.disk_io_counters(perdisk=True) or {}
    return {
        name: [found.read_bytes, found.write_bytes]
        for name, found in counters.items()
        if _whole(name)
    }


def _whole(name: str) -> bool:
    if name.startswith(("loop", "ram", "dm-", "md")):
        return False  # they stand for others
    return os.path.exists(f"/sys/block/{name.replace('/', '!')}") or not os.path.isdir("/sys/block")


def _nets() -> dict[str, list[int]]:
    """Bytes sent and received since boot, by interface."""
    counters = psutil.net_io_counters(pernic=True) or {}
    return {name: [found.bytes_sent, found.bytes_recv] for name, found in counters.items()}


# --- shortage, and the limits of a container -------------------------------------------------------


def limits(
    pressure: str = PRESSURE, cgroups: str = CGROUPS, own: str = "/proc/self/cgroup"
) -> dict[str, Any]:
    """What the kernel tells of shortage and limits, as far as it does.

    ``pressure``: seconds stalled since boot by resource; ``cgroup``: use and limits. cgroup v2 or v1.
    """
    found: dict[str, Any] = {}
    stalls = _pressure(pressure)
    if stalls:
        found["pressure"] = stalls
    group = _group(cgroups, own)
    if group:
        found["cgroup"] = group
    return found


def _pressure(folder: str) -> dict[str, dict[str, float]]:
    """``{"cpu": {"some": seconds, "full": seconds}, "memory": …, "io": …}``."""
    found: dict[str, dict[str, float]] = {}
    for resource in ("cpu", "memory", "io"):
        for line in _text(os.path.join(folder, resource)).splitlines():
            kind, _, rest = line.partition(" ")
            total = rest.rpartition("total=")[2]
            if kind in ("some", "full") and total.isdecimal():
                found.setdefault(resource, {})[kind] = int(total) / 1e6
    return found


def _group(root: str, own: str) -> dict[str, Any]:
    """Memory (bytes) and processor time (seconds) of our control group, with their limits."""
    second = _second(_folder(root, own, ""))
    return second or _first(root, own)


def _second(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "memory": _number(os.path.join(folder, "memory.current")),
        "memory_limit": _number(os.path.join(folder, "memory.max")),
    }
    words = _text(os.path.join(folder, "cpu.max")).split()
    if len(words) == 2 and words[0].isdecimal() and words[1].isdecimal():
        found["cpus"] = int(words[0]) / int(words[1])
    stat = dict(line.split()[:2] for line in _text(os.path.join(folder, "cpu.stat")).splitlines())
    if "usage_usec" in stat:
        found["cpu"] = int(stat["usage_usec"]) / 1e6
    if "throttled_usec" in stat:
        found["throttled"] = int(stat["throttled_usec"]) / 1e6
    return {key: value for key, value in found.items() if value is not None}


def _first(root: str, own: str) -> dict[str, Any]:
    memory, cpu = _folder(root, own, "memory"), _folder(root, own, "cpu")
    found: dict[str, Any] = {
        "memory": _number(os.path.join(memory, "memory.usage_in_bytes")),
        "memory_limit": _number(os.path.join(memory, "memory.limit_in_bytes")),
    }
    if (found["memory_limit"] or 0) >= 1 << 60:  # the way in which version 1 says "none"
        found["memory_limit"] = None
    quota = _number(os.path.join(cpu, "cpu.cfs_quota_us"))
    period = _number(os.path.join(cpu, "cpu.cfs_period_us"))
    if quota and quota > 0 and period:
        found["cpus"] = quota / period
    return {key: value for key, value in found.items() if value is not None}


def _folder(root: str, own: str, controller: str) -> str:
    """Our group's folder; where the container shows only its own, that is the root."""
    for line in _text(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            base = os.path.join(root, controller) if controller else root
            inside = os.path.join(base, path.lstrip("/"))
            return inside if os.path.isdir(inside) else base
    return os.path.join(root, controller) if controller else root


def _number(path: str) -> int | None:
    text = _text(path).strip()
    return int(text) if text.lstrip("-").isdecimal() else None


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
