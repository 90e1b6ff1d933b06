"""A page about a run while it is running: on this machine only, behind a token in its address."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from types import MappingProxyType
from typing import Any

from ..live.snapshot import Snapshot
from . import page as pages
from .panel import finite, who

POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'"
)
"""What the page may load: itself, and its own state."""
INTERVAL = 0.5
SCRIPTS = ("plots.js", "run.js", "suite.js", "live.js")
TABLES = ("benchmarks", "processes", "tasks", "ranks", "devices", "hosts")
AFTER = 3600.0
"""Seconds that the page of a run that is over is still served."""


Parts = tuple[Mapping[str, str], Mapping[str, Any]]
"""The parts of a report as markup, by their place in the page, and what is drawn in them."""


class PageServer(ThreadingHTTPServer):
    """Serves one run, or ``of`` a suite, on the loopback interface.

    Raises OSError when the port is taken, UserError where what a page needs is not installed.
    """

    daemon_threads = True

    def __init__(self, port: int = 0, of: str = "run") -> None:
        tables = [(name, name.capitalize()) for name in TABLES]
        content = {"of": of, "title": of, "live_tables": tables}
        drawn = {"colors": pages.region_colors(), "loops": [], "excerpts": [], "series": {}}
        self.markup = pages.whole("live.html", SCRIPTS, content, drawn, live=True).encode()
        self.report: Callable[[], Parts] | None = None
        """What the page of a run that is over is, besides: the parts of its report."""
        self.token = secrets.token_urlsafe(24)
        self.latest: dict[str, Any] = {}
        self.history = History()
        self.past: Mapping[str, Lines] | None = None
        """What is plotted of the time before the page was opened; None until it was read."""
        self.whole: Mapping[str, Lines] | None = None
        """What is plotted of a run that is over."""
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self.server_address[1]}/{self.token}/"

    def show(self, snapshot: Snapshot) -> None:
        """Show ``snapshot`` from now on."""
        self.history.add(snapshot)
        self.latest = snapshot.as_dict()

    def state(self) -> bytes:
        """What the page asks for."""
        found = self.history.lines(self.past or {}) if self.whole is None else self.whole
        content = {"now": self.latest, "series": found, "over": self.whole is not None}
        return json.dumps(finite(content), allow_nan=False).encode()

    def report_of(self, parts: Parts) -> bytes:
        """The report, as the page takes it in."""
        markup, drawn = parts
        return json.dumps({"parts": markup, "data": drawn}, allow_nan=False).encode()


class _Handler(BaseHTTPRequestHandler):
    server: PageServer

    def do_GET(self) -> None:
        token, _, rest = self.path.lstrip("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self.send_error(HTTPStatus.NOT_FOUND)
        elif rest == "state":
            self._answer("application/json", self.server.state())
        elif rest == "report" and self.server.report is not None:
            self._answer("application/json", self.server.report_of(self.server.report()))
        elif rest == "":
            self._answer("text/html; charset=utf-8", self.server.markup)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _answer(self, kind: str, content: bytes) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing: the terminal is for the run."""


def serve(page: PageServer, follow: Callable[[], bool]) -> int:
    """Serve the page until Ctrl-C, or for an hour after the run's end.

    ``follow()`` shows the page what is new; whether the run is over.
    """
    thread = threading.Thread(target=page.serve_forever, daemon=True)
    thread.start()
    print(page.address, flush=True)
    left = AFTER
    over = False
    try:
        while left > 0:
            over = over or follow()
            left -= INTERVAL if over else 0.0
            time.sleep(INTERVAL)
    finally:
        page.shutdown()
        page.server_close()
    return 0


KEPT = 1024
"""Points of a line; when there are more, every other one is dropped."""

Point = tuple[float, float]
"""Seconds since the run began, and a value in the unit in which it was recorded."""
Lines = dict[str, list[Point]]


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
