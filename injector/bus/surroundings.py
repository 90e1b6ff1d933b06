"""What a run ran on: machine and packages. Read after its end, without a subprocess."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any


def machine() -> dict[str, Any]:
    """This host, in the words of milabench's ``meta`` event."""
    system = os.uname()
    return {
        "cpu": {"count": os.cpu_count(), "usable": _usable_cpus(), "brand": _cpu_brand()},
        "os": {
            "sysname": system.sysname,
            "nodename": system.nodename,
            "release": system.release,
            "version": system.version,
            "machine": system.machine,
        },
        "accelerators": {"arch": None, "gpus": {}},
    }


def _usable_cpus() -> int | None:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count()


def _cpu_brand() -> str | None:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return None


def packages(path: Iterable[str] | None = None) -> dict[str, str]:
    """Name → version of the distributions on ``path`` (a ``sys.path``; ours if None).

    Read from the names of their metadata folders: a large environment takes a few milliseconds
    so, and most of a second when every metadata file is parsed.
    """
    found: dict[str, str] = {}
    for folder in sys.path if path is None else path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:
            continue
        for name in names:
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            package, dash, version = name[: name.rindex(".")].partition("-")
            if dash:
                # The first on the path is the one that is imported.
                found.setdefault(package.replace("_", "-").lower(), version.partition("-")[0])
    return dict(sorted(found.items()))
