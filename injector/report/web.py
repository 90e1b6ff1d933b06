"""The server of live pages, for browsers on this machine only.

Other users and other web pages can reach the loopback interface as well. So the address has a random token in
its path, which only the user who started the server knows, and pages may load nothing but themselves
(:data:`POLICY`).
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from ..errors import UserError
from .live_page import RUNS, LivePage

POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'"
)
"""The content security policy: a page may load itself and its own state."""
INTERVAL = 0.5
"""Seconds between two reads of what is new."""
AFTER = 3600.0
"""Seconds for which a page is still served after its run has ended."""


class PageServer(ThreadingHTTPServer):
    """Serves ``page`` on the loopback interface, and those of runs that ``run_page`` returns by their keys.

    Raises OSError if the port is taken.
    """

    daemon_threads = True

    def __init__(
        self,
        page: LivePage,
        port: int = 0,
        run_page: Callable[[str], LivePage | None] = lambda key: None,
    ) -> None:
        self.page = page
        self.run_page = run_page
        self.token = secrets.token_urlsafe(24)
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def address(self) -> str:
        """The address of ``page`` for a browser, with the token."""
        return f"http://127.0.0.1:{self.server_address[1]}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    """Answers ``/TOKEN/``, ``/TOKEN/state``, ``/TOKEN/report``, and the same below ``/TOKEN/runs/KEY/``."""

    server: PageServer

    def do_GET(self) -> None:
        """Answer a request; without the token, nothing is found."""
        token, _, rest = self.path.lstrip("/").partition("/")
        page: LivePage | None = None
        # In constant time, so that the token cannot be guessed byte by byte.
        if secrets.compare_digest(token.encode(), self.server.token.encode()):
            page = self.server.page
            if rest.startswith(RUNS):
                key, _, rest = rest[len(RUNS) :].partition("/")
                page = self.server.run_page(unquote(key))
        content = self._content(page, rest) if page is not None else None
        if content is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self._answer(*content)

    def _content(self, page: LivePage, what: str) -> tuple[str, bytes] | None:
        """Type and content of the page (``what`` is empty), its state or its report; None for others."""
        if what == "":
            return "text/html; charset=utf-8", page.markup
        if what == "state":
            try:
                page.follow()
            except (UserError, OSError) as error:
                page.trouble = str(error)
            return "application/json", page.state()
        report = page.report() if what == "report" else None
        return None if report is None else ("application/json", report)

    def _answer(self, kind: str, content: bytes) -> None:
        """Send ``content`` of the content type ``kind``."""
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")  # a link must not carry the token away
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing, as the terminal is for the run."""


def serve(server: PageServer) -> int:
    """Serve until Ctrl-C, or for an hour after the run or suite has ended. Returns the exit code."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    print(server.address, flush=True)
    left = AFTER
    over = False
    try:
        while left > 0:
            over = over or server.page.follow()
            left -= INTERVAL if over else 0.0
            time.sleep(INTERVAL)
    finally:
        server.shutdown()
        server.server_close()
    return 0
