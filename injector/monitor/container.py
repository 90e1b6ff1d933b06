"""What the kernel says of shortage (PSI) and of the limits of the container (cgroup, v2 or v1)."""

from __future__ import annotations

import os
from typing import Any

PRESSURE = "/proc/pressure"
CGROUPS = "/sys/fs/cgroup"


def read(
    pressure: str = PRESSURE, cgroups: str = CGROUPS, own: str = "/proc/self/cgroup"
) -> dict[str, Any]:
    """``pressure``: seconds stalled since boot by resource; ``cgroup``: use and limits. Either may lack."""
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
