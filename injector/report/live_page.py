"""The content of the page of a run or suite that goes on: its state, its plots, its report so far.

A browser fetches the state once a second (:meth:`LivePage.state`), and the report when its number has
changed. The report costs much more to make, so a :class:`Reporter` makes it in a thread, only while a browser
shows the page. Plots show the report's points up to where it was made, and from there on those of the
snapshots since (:class:`History`).
"""

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

from ..analysis.wording import device_name
from ..json_types import plain
from ..live.snapshot import Snapshot
from . import page as pages
from .panel import who

SCRIPTS = ("plots.js", "run.js", "suite.js", "live.js")
TABLES = ("benchmarks", "processes", "tasks", "ranks", "devices", "hosts")
KEPT = 1024
"""The most points of a line. When there are as many, every other one is dropped."""
RUNS = "runs/"
"""The beginning of the paths of the pages of a suite's runs, each named by the key of its process."""
LOOKED = 5.0
"""Seconds after the last request for the state for which a browser is taken to show the page."""

Point = tuple[float, float]
"""Seconds since the run began, and a value in the unit in which it was recorded."""
Lines = dict[str, list[Point]]
"""The points of each line of a plot."""
Parts = tuple[Mapping[str, str], Mapping[str, Any]]
"""The markup of the parts of a report, by their places in the page, and the data that is drawn in them."""


class LivePage:
    """The page of a run or of a suite that goes on."""

    def __init__(self, of: str = "run", within: str = "") -> None:
        """A page ``of`` a ``run`` or a ``suite``. ``within``: the name of the suite that a run belongs to.

        Raises UserError if jinja2 or uPlot is not installed.
        """
        tables = [(name, name.capitalize()) for name in TABLES]
        content = {"of": of, "title": of, "within": within, "live_tables": tables}
        drawn = {"colors": pages.region_colors(), "loops": [], "excerpts": [], "series": {}}
        self.markup = pages.whole("live.html", SCRIPTS, content, drawn, live=True).encode()
        self.latest: dict[str, Any] = {}
        """The latest snapshot."""
        self.history = History()
        self.past: Mapping[str, Lines] = {}
        """The plots up to when the latest report was made."""
        self.over = False
        """Whether the run or suite has ended."""
        self.trouble = ""
        """A sentence on why there is no report, if none can be made."""
        self._report: Parts | None = None
        self._number = 0
        """The number of reports so far, by which a browser sees that there is a new one."""
        self._looked = -inf
        """When a browser last requested the state, monotonic seconds."""

    def follow(self) -> bool:
        """Read what is new, and return whether the run or suite has ended. Subclasses override it."""
        return self.over

    def show(self, snapshot: Snapshot) -> None:
        """Show ``snapshot`` from now on."""
        self.history.add(snapshot)
        self.latest = plain(snapshot)

    def publish(self, report: Parts, series: Mapping[str, Lines], over: bool = False) -> None:
        """Show ``report``, with the plots ``series`` up to now. ``over``: whether it is the last one."""
        self._report, self.past, self.trouble = report, series, ""
        self._number += 1
        self.over = over

    @property
    def is_looked_at(self) -> bool:
        """Whether a browser probably shows the page."""
        return time.monotonic() - self._looked < LOOKED

    def state(self) -> bytes:
        """The state as JSON, for a browser that requests it once a second."""
        self._looked = time.monotonic()
        series = self.past if self.over else self.history.lines(self.past)
        content = {"now": self.latest, "series": series, "over": self.over}
        content |= {"report": self._number, "trouble": self.trouble}
        return json.dumps(plain(content), allow_nan=False).encode()

    def report(self) -> bytes | None:
        """The latest report as JSON; None before the first."""
        if self._report is None:
            return None
        markup, drawn = self._report
        return json.dumps({"parts": markup, "data": drawn}, allow_nan=False).encode()


class Reporter:
    """Makes a report again and again in a thread of its own, as often as that costs little.

    ``make()`` is called while ``wanted()`` is true. In between, the thread rests for so long that it takes at
    most :data:`SHARE` of a processor. If ``make`` raises, ``failed`` is called with a sentence.
    """

    SHARE = 0.03
    EVERY = 2.0
    """The fewest seconds between two reports."""
    IDLE = 0.25
    """Seconds between two calls of ``wanted`` while it is false."""

    def __init__(
        self, make: Callable[[], None], wanted: Callable[[], bool], failed: Callable[[str], None]
    ) -> None:
        self._make, self._wanted, self._failed = make, wanted, failed
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="injector-report")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. No report is being made any more when this returns."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        # On Linux the priority is that of this thread alone: the program's processes come first.
        with suppress(OSError, AttributeError):
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
    """The points of the plots of a run that goes on, at most :data:`KEPT`, evenly over the whole time."""

    def __init__(self) -> None:
        self._points: list[tuple[float, dict[str, dict[str, float]]]] = []
        """Seconds since the run began, and by plot and line the values."""
        self._every = 1
        """Each snapshot of so many is kept."""
        self._count = 0
        """The number of snapshots so far."""

    def add(self, snapshot: Snapshot) -> None:
        """Keep the values of ``snapshot``, if its turn has come."""
        self._count += 1
        if self._count % self._every:
            return
        self._points.append((snapshot.elapsed, _plotted(snapshot)))
        if len(self._points) >= KEPT:
            self._points = self._points[::2]
            self._every *= 2

    def lines(self, past: Mapping[str, Lines] = MappingProxyType({})) -> dict[str, Lines]:
        """By plot and line, the points in the order of time: those of ``past``, and our own after these."""
        plots = {
            key: {name: list(line) for name, line in lines.items()} for key, lines in past.items()
        }
        latest = max(
            (p[-1][0] for lines in plots.values() for p in lines.values() if p), default=-inf
        )
        for moment, values in self._points:
            if moment <= latest:
                continue
            for key, of_plot in values.items():
                for name, value in of_plot.items():
                    plots.setdefault(key, {}).setdefault(name, []).append((moment, value))
        return plots


def _plotted(snapshot: Snapshot) -> dict[str, dict[str, float]]:
    """By plot and line, the values of one moment."""
    hosts = {device.host for device in snapshot.devices}
    devices = [(device_name(d.host, d.number, hosts), d) for d in snapshot.devices]
    tasks = snapshot.tasks
    # A plot has one unit: that of the main task.
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


def _known(values: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """``values`` by name, without those that are None."""
    return {name: value for name, value in values if value is not None}
