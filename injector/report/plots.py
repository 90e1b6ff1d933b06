"""What the page plots: a few figures over the time of a run, each with its unit and one line a thing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple

from ..live.snapshot import Snapshot

KEPT = 1024
"""Points of a line; when there are more, every other one is dropped."""
LINES = 8
"""Lines of one plot: of more, the first."""

Point = tuple[float, float]
"""Seconds since the run began, and a value in the unit in which it was recorded."""
Lines = dict[str, list[Point]]


class Kind(NamedTuple):
    """One plot. What is recorded is multiplied by ``scale`` to be in ``unit``."""

    title: str
    unit: str
    scale: float
    zero: bool
    """Whether its axis begins at 0."""


KINDS = {
    "rate": Kind("throughput", "", 1.0, True),
    "step": Kind("time of a step", "ms", 1e3, True),
    "loss": Kind("loss", "", 1.0, False),
    "load": Kind("load of devices", "%", 100.0, True),
    "memory": Kind("memory of devices", "GB", 1e-9, True),
    "power": Kind("power of devices", "W", 1.0, True),
    "cpu": Kind("processors of hosts", "%", 100.0, True),
    "rss": Kind("memory of the program", "GB", 1e-9, True),
}
"""In the order in which they are shown."""


def plots(found: Mapping[str, Lines], unit: str) -> list[dict[str, Any]]:
    """``title unit zero lines`` of every plot that has a line; ``unit`` is that of throughput."""
    made = []
    for key, kind in KINDS.items():
        lines = [
            {"name": name, "points": [[t, value * kind.scale] for t, value in points]}
            for name, points in list(found.get(key, {}).items())[:LINES]
            if points
        ]
        if lines:
            said = unit if key == "rate" else kind.unit
            made.append({"title": kind.title, "unit": said, "zero": kind.zero, "lines": lines})
    return made


class History:
    """What the plots of a run that goes on show, thinned out evenly over the whole time."""

    def __init__(self) -> None:
        self._points: list[tuple[float, dict[str, dict[str, float]]]] = []
        self._every = 1
        self._count = 0

    def add(self, snapshot: Snapshot) -> None:
        """Take a snapshot, if its turn has come."""
        self._count += 1
        if self._count % self._every:
            return
        self._points.append((snapshot.elapsed, _values(snapshot)))
        if len(self._points) >= KEPT:
            self._points = self._points[::2]
            self._every *= 2

    def lines(self, past: Mapping[str, Lines] = MappingProxyType({})) -> dict[str, Lines]:
        """By plot and line, the points in the order of time: those of the ``past``, then those after."""
        found = {
            key: {name: list(line) for name, line in each.items()} for key, each in past.items()
        }
        latest = max(
            (p[-1][0] for each in found.values() for p in each.values() if p), default=-inf
        )
        for time, values in self._points:
            if time <= latest:
                continue
            for key, each in values.items():
                for name, value in each.items():
                    found.setdefault(key, {}).setdefault(name, []).append((time, value))
        return found


def _values(snapshot: Snapshot) -> dict[str, dict[str, float]]:
    """By plot and line, the values of one moment."""
    devices = [(_device(d.host, d.number, snapshot), d) for d in snapshot.devices]
    tasks = snapshot.tasks
    unit = tasks[0].unit if tasks else ""
    return {
        "rate": _known((row.task, row.rate) for row in tasks if row.active and row.unit == unit),
        "step": _known((_who(row), row.step) for row in snapshot.ranks),
        "loss": {name: v for name, v in snapshot.values.items() if "loss" in name.lower()},
        "load": _known((name, device.load) for name, device in devices),
        "memory": _known((name, device.memory) for name, device in devices),
        "power": _known((name, device.power) for name, device in devices),
        "cpu": _known((host.host, host.cpu) for host in snapshot.hosts),
        "rss": _known((host.host, host.rss) for host in snapshot.hosts),
    }


def _who(row: Any) -> str:
    return f"process {row.pid}" if row.rank is None else f"rank {row.rank}"


def _device(host: str, number: str, snapshot: Snapshot) -> str:
    several = len({device.host for device in snapshot.devices}) > 1
    return f"{host} {number}" if several else number


def _known(values: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    return {name: value for name, value in values if value is not None}
