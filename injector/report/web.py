"""A page about a run that goes on: on this machine only, behind a token in its address."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from ..live.snapshot import Snapshot
from .live import finite
from .plots import History, Lines, plots

POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'"
)
"""What the page may load: itself, and its own state."""
INTERVAL = 0.5
AFTER = 3600.0
"""Seconds that the page of a run that is over is still served."""


class Page(ThreadingHTTPServer):
    """Serves one run on the loopback interface. Raises OSError when the port is taken."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self.latest: dict[str, Any] = {}
        self.history = History()
        self.past: Mapping[str, Lines] | None = None
        """What is plotted of the time before the page was opened; None until it was read."""
        self.course: Mapping[str, Lines] | None = None
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
        found = self.history.lines(self.past or {}) if self.course is None else self.course
        unit = str(self.latest.get("unit", ""))
        content = {"now": self.latest, "plots": plots(found, unit), "over": self.course is not None}
        return json.dumps(finite(content), allow_nan=False).encode()


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
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing: the terminal is for the run."""


def serve(page: Page, follow: Callable[[], bool]) -> int:
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
