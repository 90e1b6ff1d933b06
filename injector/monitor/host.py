"""The host's processors, memory, disks and networks. Bytes, seconds, fractions 0…1; totals since boot."""

from __future__ import annotations

import os
from typing import Any

import psutil


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
