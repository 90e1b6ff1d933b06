"""What the page of a run or suite that goes on is given: its state, its plots, its report so far."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import inf
from types import MappingProxyType
from typing import Any

from ..live.snapshot import Snapshot
from . import page as pages
from .panel import finite, who

SCRIPTS = ("plots.js", "run.js", "suite.js", "live.js")
TABLES = ("benchmarks", "processes", "tasks", "ranks", "devices", "hosts")
KEPT = 1024
"""Points of a line; when there are more, every other one is dropped."""
RUNS = "runs/"
"""Below it lie the pages of the runs of a suite, each by the key of its process."""
LOOKED = 5.0
"""Seconds after a browser has last called in which one is taken to show the page."""

Point = tuple[float, float]
"""Seconds since the run began, and a value in the unit in which it was recorded."""
Lines = dict[str, list[Point]]
Parts = tuple[Mapping[str, str], Mapping[str, Any]]
"""The parts of a report as markup, by their place in the page, and what is drawn in them."""


class LivePage:
    """The page of a run, or ``of`` a suite; ``within``: the name of the suite, of a run in one.

    Raises UserError where what a page needs is not installed.
    """

    def __init__(self, of: str = "run", within: str = "") -> None:
        tables = [(name, name.capitalize()) for name in TABLES]
        content = {"of": of, "title": of, "within": within, "live_tables": tables}
        drawn = {"colors": pages.region_colors(), "loops": [], "excerpts": [], "series": {}}
        self.markup = pages.whole("live.html", SCRIPTS, content, drawn, live=True).encode()
        self.latest: dict[str, Any] = {}
        self.history = History()
        self.past: Mapping[str, Lines] = {}
        """What is plotted up to the latest report."""
        self.over = False
        self.trouble = ""
        """Why there is no report, if none can be made."""
        self._report: Parts | None = None
        self._number = 0
        self._looked = -inf

    def follow(self) -> bool:
        """Take in what is new; whether what the page is of is over."""
        return self.over

    def show(self, snapshot: Snapshot) -> None:
        """Show ``snapshot`` from now on."""
        self.history.add(snapshot)
        self.latest = snapshot.as_dict()

    def publish(self, report: Parts, series: Mapping[str, Lines], over: bool = False) -> None:
        """Show this report, and what is plotted up to now; ``over``: nothing will come after it."""
        self._report, self.past, self.trouble = report, series, ""
        self._number += 1
        self.over = over

    @property
    def is_looked_at(self) -> bool:
        """Whether a browser shows it, as far as that is known."""
        return time.monotonic() - self._looked < LOOKED

    def state(self) -> bytes:
        """What a browser calls for once a second."""
        self._looked = time.monotonic()
        series = self.past if self.over else self.history.lines(self.past)
        content = {"now": self.latest, "series": series, "over": self.over}
        content |= {"report": self._number, "trouble": self.trouble}
        return json.dumps(finite(content), allow_nan=False).encode()

    def report(self) -> bytes | None:
        """The latest report, as a browser takes it in; None before the first."""
        if self._report is None:
            return None
        markup, drawn = self._report
        return json.dumps({"parts": markup, "data": drawn}, allow_nan=False).encode()


class Reporter:
    """Makes a report again and again in a thread of its own, as often as that costs little.

    ``make()`` is called while ``wanted()``, and after it the thread rests so long that it takes at most
    :data:`SHARE` of a processor, behind other processes. ``failed`` gets a sentence where
    ``make`` raises.
    """

    SHARE = 0.03
    EVERY = 2.0
    """Seconds between two reports, at least."""
    IDLE = 0.25

    def __init__(
        self, make: Callable[[], None], wanted: Callable[[], bool], failed: Callable[[str], None]
    ) -> None:
        self._make, self._wanted, self._failed = make, wanted, failed
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="injector-report")

    def start(self) -> None:
        """Begin to make them."""
        self._thread.start()

    def stop(self) -> None:
        """Make no more; none is being made when this returns."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(OSError, AttributeError):  # Linux has a priority of each thread
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        pause = 0.0
        while not self._over.wait(pause):
            pause = self.IDLE
            if not self._wanted():
                continue
            began = time.process_time()
            try:
                self._make()
            except Exception as error:
                self._failed(f"no report so far: {type(error).__name__}: {error}")
            pause = max(self.EVERY, (time.process_time() - began) / self.SHARE)


class History:
    """What the plots of a run that is running show, thinned out evenly over the whole time."""

    def __init__(self) -> None:
        self._points: list[tuple[float, dict[str, dict[str, float]]]] = []
        self._every = 1
        self._count = 0

    def add(self, snapshot: Snapshot) -> None:
        """Take a snapshot, if its turn has come."""
        self._count += 1
        if self._count % self._every:
            return
        self._points.append((snapshot.elapsed, _plotted(snapshot)))
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
        for moment, values in self._points:
            if moment <= latest:
                continue
            for key, each in values.items():
                for name, value in each.items():
                    found.setdefault(key, {}).setdefault(name, []).append((moment, value))
        return found


def _plotted(snapshot: Snapshot) -> dict[str, dict[str, float]]:
    """By plot and line, the values of one moment."""
    devices = [(_device(d.host, d.number, snapshot), d) for d in snapshot.devices]
    tasks = snapshot.tasks
    unit = tasks[0].unit if tasks else ""
    return {
        "rate": _known((row.task, row.rate) for row in tasks if row.active and row.unit == unit),
        "step": _known((who(row), row.step) for row in snapshot.ranks),
        "loss": {name: v for name, v in snapshot.values.items() if "loss" in name.lower()},
        "load": _known((name, device.load) for name, device in devices),
        "memory": _known((name, device.memory) for name, device in devices),
        "power": _known((name, device.power) for name, device in devices),
        "cpu": _known((host.host, host.cpu) for host in snapshot.hosts),
        "rss": _known((host.host, host.rss) for host in snapshot.hosts),
    }


def _device(host: str, number: str, snapshot: Snapshot) -> str:
    several = len({device.host for device in snapshot.devices}) > 1
    return f"{host} {number}" if several else number


def _known(values: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    return {name: value for name, value in values if value is not None}
