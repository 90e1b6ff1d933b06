"""Samples of the host: processors, memory, disks, networks, shortage (PSI) and limits of the container
(cgroups).

Units are bytes, seconds and fractions 0…1. Counters are totals since boot, of which readers take differences.
"""

from __future__ import annotations

import os
from typing import Any

import psutil

PRESSURE = "/proc/pressure"
CGROUPS = "/sys/fs/cgroup"


def fast() -> dict[str, Any]:
    """The part of every sample: the seconds that each core was busy and idle since boot, and memory."""
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
    """Busy and idle seconds of a core. While a process waits for a disk, the core is idle."""
    idle = times.idle + getattr(times, "iowait", 0.0)
    # The kernel counts the time of virtual machines in user time as well, so it would count twice.
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return [round(sum(times) - idle - guests, 3), round(idle, 3)]


def slow() -> dict[str, Any]:
    """The part that is sampled at most once a second: load averages, swap, disks, networks."""
    return {
        "load": list(os.getloadavg()),
        "swap": _swap(),
        "filesystem": _filesystem(),
        "disks": _disks(),
        "nets": _nets(),
    }


def _swap() -> dict[str, int]:
    """Bytes of swap."""
    swap = psutil.swap_memory()
    return {"total": swap.total, "used": swap.used}


def _filesystem() -> dict[str, Any]:
    """The use of the file system of the current folder, in which the program was started."""
    usage = psutil.disk_usage(os.getcwd())
    return {"total": usage.total, "used": usage.used, "fraction": usage.percent / 100}


def _disks() -> dict[str, list[int]]:
    """Bytes read and written since boot, by disk."""
    counters = psutil.disk_io_counters(perdisk=True) or {}
    return {
        name: [disk.read_bytes, disk.write_bytes]
        for name, disk in counters.items()
        if _is_disk(name)
    }


def _is_disk(name: str) -> bool:
    """Whether a block device is a whole disk: what partitions and mapped devices get, disks get as well."""
    if name.startswith(("loop", "ram", "dm-", "md")):
        return False
    return os.path.exists(f"/sys/block/{name.replace('/', '!')}") or not os.path.isdir("/sys/block")


def _nets() -> dict[str, list[int]]:
    """Bytes sent and received since boot, by interface."""
    counters = psutil.net_io_counters(pernic=True) or {}
    return {name: [nic.bytes_sent, nic.bytes_recv] for name, nic in counters.items()}


# --- shortage, and the limits of a container -------------------------------------------------------


def limits(
    pressure: str = PRESSURE, cgroups: str = CGROUPS, own: str = "/proc/self/cgroup"
) -> dict[str, Any]:
    """Shortage and limits, as far as the kernel has them.

    ``pressure``: seconds stalled since boot, by resource. ``cgroup``: use and limits of our control group, of
    cgroup version 2 or 1. The parameters are paths of the kernel's files.
    """
    state: dict[str, Any] = {}
    stalls = _pressure(pressure)
    if stalls:
        state["pressure"] = stalls
    group = _group(cgroups, own)
    if group:
        state["cgroup"] = group
    return state


def _pressure(folder: str) -> dict[str, dict[str, float]]:
    """``{"cpu": {"some": s, "full": s}, "memory": …, "io": …}``: seconds that some or all tasks stalled."""
    stalled: dict[str, dict[str, float]] = {}
    for resource in ("cpu", "memory", "io"):
        for line in _text(os.path.join(folder, resource)).splitlines():
            kind, _, rest = line.partition(" ")
            total = rest.rpartition("total=")[2]
            if kind in ("some", "full") and total.isdecimal():
                stalled.setdefault(resource, {})[kind] = int(total) / 1e6
    return stalled


def _group(root: str, own: str) -> dict[str, Any]:
    """Memory (bytes) and processor time (seconds) of our control group, with their limits."""
    version2 = _version2(_folder(root, own, ""))
    return version2 or _version1(root, own)


def _version2(folder: str) -> dict[str, Any]:
    """The state of the control group of version 2 in ``folder``; empty if it is none."""
    state: dict[str, Any] = {
        "memory": _number(os.path.join(folder, "memory.current")),
        "memory_limit": _number(os.path.join(folder, "memory.max")),
    }
    words = _text(os.path.join(folder, "cpu.max")).split()
    if len(words) == 2 and words[0].isdecimal() and words[1].isdecimal():  # not "max 100000"
        state["cpus"] = int(words[0]) / int(words[1])
    stat = dict(line.split()[:2] for line in _text(os.path.join(folder, "cpu.stat")).splitlines())
    if "usage_usec" in stat:
        state["cpu"] = int(stat["usage_usec"]) / 1e6
    if "throttled_usec" in stat:
        state["throttled"] = int(stat["throttled_usec"]) / 1e6
    return {key: value for key, value in state.items() if value is not None}


def _version1(root: str, own: str) -> dict[str, Any]:
    """The state of our control groups of version 1, one for each controller; empty if there are none."""
    memory, cpu = _folder(root, own, "memory"), _folder(root, own, "cpu")
    state: dict[str, Any] = {
        "memory": _number(os.path.join(memory, "memory.usage_in_bytes")),
        "memory_limit": _number(os.path.join(memory, "memory.limit_in_bytes")),
    }
    if (state["memory_limit"] or 0) >= 1 << 60:  # in version 1, no limit is a very large one
        state["memory_limit"] = None
    quota = _number(os.path.join(cpu, "cpu.cfs_quota_us"))
    period = _number(os.path.join(cpu, "cpu.cfs_period_us"))
    if quota and quota > 0 and period:  # -1 is no limit
        state["cpus"] = quota / period
    return {key: value for key, value in state.items() if value is not None}


def _folder(root: str, own: str, controller: str) -> str:
    """The folder of our control group for ``controller`` (empty for version 2).

    ``own`` names our group as the host has it. A container that shows its own group alone has it at the root.
    """
    for line in _text(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            base = os.path.join(root, controller) if controller else root
            inside = os.path.join(base, path.lstrip("/"))
            return inside if os.path.isdir(inside) else base
    return os.path.join(root, controller) if controller else root


def _number(path: str) -> int | None:
    """The number in a file; None if it has none, or cannot be read."""
    text = _text(path).strip()
    return int(text) if text.lstrip("-").isdecimal() else None


def _text(path: str) -> str:
    """The content of a file; empty if it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
