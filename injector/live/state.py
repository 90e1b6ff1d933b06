"""The state of a run that goes on: fed by a follower, asked for snapshots."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from ..bus import series
from .follow import Follower, Record, Spans
from .process import Process
from .snapshot import DeviceRow, HostRow, RankRow, Snapshot

SILENT = 60.0
"""Seconds without a span after which a process that has not ended is called silent."""


class State:
    """The run in ``folder``; ``goal`` is the number of steps after which it is stopped."""

    def __init__(self, folder: str, goal: int | None = None) -> None:
        self.folder = folder
        self.goal = goal
        self._follower = Follower(folder)
        self._processes: dict[str, Process] = {}
        self._monitors: dict[str, dict[str, Any]] = {}
        self._subscribers: list[Callable[[Snapshot], None]] = []
        self.ended = False
        """Set by whoever knows that the program is over."""

    def subscribe(self, subscriber: Callable[[Snapshot], None]) -> None:
        """Have ``subscriber`` called with each snapshot that :meth:`tick` makes."""
        self._subscribers.append(subscriber)

    def tick(self, now: float | None = None) -> Snapshot:
        """Take in what is new, tell the subscribers, and return the snapshot. ``now`` is unix seconds."""
        for found in self._follower.poll():
            if isinstance(found, Spans):
                self._process(found.process).spans(found.rows)
            elif found.monitor:
                self._monitored(found)
            else:
                self._process(found.process).record(found.event, found.data)
        for process in self._processes.values():
            process.mark()
        self._last_values()
        snapshot = self.snapshot(time.time() if now is None else now)
        for subscriber in self._subscribers:
            subscriber(snapshot)
        return snapshot

    def _process(self, name: str) -> Process:
        if name not in self._processes:
            self._processes[name] = Process(name)
        return self._processes[name]

    def _monitored(self, record: Record) -> None:
        monitor = self._monitors.setdefault(record.process, {})
        if record.event == "host":
            monitor["before"] = monitor.get("host")
        if isinstance(record.data, dict):
            monitor[record.event] = record.data

    def _last_values(self) -> None:
        """The last number of each series."""
        raw = os.path.join(self.folder, "raw")
        for process in self._processes.values():
            if process.steps and not process.ended:
                process.losses.update(last_values(raw, process.name))

    def snapshot(self, now: float) -> Snapshot:
        """The state at ``now``, unix seconds."""
        training = [p for p in self._processes.values() if p.steps or p.first]
        rows = [self._row(process, now) for process in training]
        rows.sort(key=lambda row: (row.rank is None, row.rank or 0, row.pid or 0))
        counted = all(process.items for process in training) and bool(training)
        active = [row for row in rows if row.state != "ended"] or rows
        steps = min((row.steps for row in active), default=0)
        step = max((row.step for row in active if row.step), default=None)
        left = None
        if self.goal is not None and step is not None:
            left = max(self.goal - steps, 0) * step
        return Snapshot(
            name=os.path.basename(self.folder).rsplit(".", 2)[0],
            elapsed=max(now - self._began(now), 0.0),
            state=self._said(rows),
            steps=steps,
            goal=self.goal,
            left=left,
            unit="items/s" if counted else "steps/s",
            rate=_total(row.rate for row in active),
            overall=_total(_overall(process, counted) for process in training),
            step=step,
            regions=_mean_shares([row.regions for row in active]),
            values=dict(training[0].losses) if training else {},
            ranks=tuple(rows),
            devices=tuple(self._devices()),
            hosts=tuple(self._hosts()),
        )

    def _began(self, now: float) -> float:
        times = [p.facts.get("time") for p in self._processes.values()]
        return min((t for t in times if isinstance(t, (int, float))), default=now)

    def _said(self, rows: list[RankRow]) -> str:
        if self.ended or (rows and all(row.state == "ended" for row in rows)):
            return "ended"
        if any(process.stopping for process in self._processes.values()):
            return "stopping"
        if not rows:
            return "starting"
        return "evaluating" if all(row.state == "evaluating" for row in rows) else "training"

    def _row(self, process: Process, now: float) -> RankRow:
        rate = step = None
        regions: dict[str, float] = {}
        window = process.window()
        if window is not None:
            first, last = window
            seconds, steps = last.seconds - first.seconds, last.steps - first.steps
            regions = {
                name: (spent - first.regions.get(name, 0.0)) / seconds
                for name, spent in last.regions.items()
                if spent > first.regions.get(name, 0.0)
            }
            if steps:
                step = seconds / steps
                rate = ((last.items - first.items) if process.items else steps) / seconds
        return RankRow(
            process.rank,
            process.facts.get("pid"),
            str(process.facts.get("host") or ""),
            process.device,
            process.steps,
            rate,
            step,
            _loss(process.losses),
            self._state_of(process, now),
            regions,
        )

    def _state_of(self, process: Process, now: float) -> str:
        if process.ended or self.ended:
            return "ended"
        tie = process.facts.get("time"), process.facts.get("monotonic_ns")
        if isinstance(tie[0], float) and isinstance(tie[1], int):
            latest = tie[0] + (process.latest - tie[1]) / 1e9
            if now - latest > SILENT:
                return "silent"
        return "evaluating" if process.evaluating else "training"

    def _devices(self) -> list[DeviceRow]:
        found = []
        for name, monitor in self._monitors.items():
            described = monitor.get("device_list") or {}
            for number, state in (monitor.get("devices") or {}).items():
                numbers = [state.get(key) for key in _DEVICE]
                facts = described.get(number) or {}
                found.append(
                    DeviceRow(number, str(facts.get("name", "")), _host_of(name), *numbers)
                )
        return found

    def _hosts(self) -> list[HostRow]:
        found = []
        for name, monitor in self._monitors.items():
            cpu = _busy(monitor.get("before"), monitor.get("host"))
            memory = ((monitor.get("host") or {}).get("memory") or {}).get("fraction")
            processes = (monitor.get("tree") or {}).get("processes") or []
            rss = sum(float(each.get("rss") or 0) for each in processes)
            found.append(HostRow(_host_of(name), cpu, memory, rss or None))
        return found


_DEVICE = ("load", "memory_used", "memory_total", "temperature", "power")


def _host_of(name: str) -> str:
    return name.rpartition(".")[0]


def _busy(before: Any, after: Any) -> float | None:
    if not before or not after:
        return None
    busy = sum(b[0] - a[0] for a, b in zip(before["cores"], after["cores"], strict=False))
    idle = sum(b[1] - a[1] for a, b in zip(before["cores"], after["cores"], strict=False))
    return busy / (busy + idle) if busy + idle > 0 else None


def _loss(values: dict[str, float]) -> float | None:
    return next((value for name, value in values.items() if "loss" in name.lower()), None)


def _overall(process: Process, counted: bool) -> float | None:
    seconds = (process.latest - process.first) / 1e9
    done = process.items if counted else process.steps
    return done / seconds if seconds > 0 and process.first else None


def _total(rates: Any) -> float | None:
    found = [rate for rate in rates if rate is not None]
    return sum(found) if found else None


def _mean_shares(each: list[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for shares in each for name in shares)
    return {name: sum(shares.get(name, 0.0) for shares in each) / len(each) for name in names}


def last_values(raw: str, process: str) -> dict[str, float]:
    """The last number of each series of the process whose files are ``raw/PROCESS.N.values``."""
    found: dict[str, float] = {}
    number = 0
    while True:
        try:
            name, value = series.last(os.path.join(raw, f"{process}.{number}{series.SUFFIX}"))
        except OSError:
            return found
        if value is not None:
            found[name] = value
        number += 1
