"""A page about a run that goes on: on this machine only, behind a token in its address."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from ..live.snapshot import Snapshot
from ..live.state import State

INTERVAL = 0.5
KEPT = 1024
"""Points of the plots; when there are more, every other one is dropped."""
AFTER = 3600.0
"""Seconds that the page of a run that is over is still served."""


class History:
    """What the plots show, thinned out evenly over the whole time."""

    def __init__(self) -> None:
        self._points: list[dict[str, Any]] = []
        self._every = 1
        self._count = 0

    def add(self, snapshot: Snapshot) -> None:
        """Take a snapshot, if its turn has come."""
        self._count += 1
        if self._count % self._every:
            return
        self._points.append(_point(snapshot))
        if len(self._points) >= KEPT:
            self._points = self._points[::2]
            self._every *= 2

    def points(self) -> list[dict[str, Any]]:
        """The points in the order of time."""
        return list(self._points)


def _point(snapshot: Snapshot) -> dict[str, Any]:
    loads = [device.load for device in snapshot.devices if device.load is not None]
    loss = next((value for name, value in snapshot.values.items() if "loss" in name.lower()), None)
    return {
        "time": snapshot.elapsed,
        "rate": snapshot.rate,
        "step": snapshot.step,
        "loss": loss,
        "load": sum(loads) / len(loads) if loads else None,
        "cpu": snapshot.hosts[0].cpu if snapshot.hosts else None,
        "rss": snapshot.hosts[0].rss if snapshot.hosts else None,
    }


class Page(ThreadingHTTPServer):
    """Serves one run on the loopback interface. Raises OSError when the port is taken."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self.latest: dict[str, Any] = {}
        self.history = History()
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
        content = {"now": self.latest, "history": self.history.points()}
        return json.dumps(_finite(content), allow_nan=False).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Page

    def do_GET(self) -> None:
        token, _, rest = self.path.lstrip("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self.send_error(HTTPStatus.NOT_FOUND)
        elif rest == "state":
            self._answer("application/json", self.server.state())
        elif rest == "":
            self._answer(
                "text/html; charset=utf-8", files(__package__).joinpath("live.html").read_bytes()
            )
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _answer(self, kind: str, content: bytes) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header(
            "Content-Security-Policy",
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'",
        )
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing: the terminal is for the run."""


def _finite(value: Any) -> Any:
    """NaN and infinities as text: JSON has none."""
    if isinstance(value, float) and value - value != 0.0:
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return value


def serve(state: State, port: int, over: Callable[[], bool]) -> int:
    """Serve the page until Ctrl-C, or for an hour after the run's end. Raises OSError."""
    page = Page(port)
    thread = threading.Thread(target=page.serve_forever, daemon=True)
    thread.start()
    print(page.address, flush=True)
    left = AFTER
    try:
        while left > 0:
            if not state.ended:
                state.ended = over()
                page.show(state.tick())
            else:
                left -= INTERVAL
            time.sleep(INTERVAL)
    finally:
        page.shutdown()
        page.server_close()
    return 0
