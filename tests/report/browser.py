"""A real browser without a window, that is steered over a pipe: Chromium's own protocol, and nothing else.

https://chromedevtools.github.io/devtools-protocol/: messages are JSON, with a NUL after each.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
MISSING = (
    "no browser: the local page is tested in a real one. `make browser` installs Chromium where it may "
    "(as root, with apt); elsewhere install it by hand (Debian, Ubuntu: apt-get install "
    f"--no-install-recommends chromium), as one of {', '.join(NAMES)} on the PATH"
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--remote-debugging-pipe",
    "--window-size=1200,1600",
)
PATIENCE = 120
"""Seconds after which what has to happen never will."""


class Browser:
    """One Chromium with one page. Raises LookupError, saying what to do, where there is none."""

    def __init__(self) -> None:
        path = next((found for name in NAMES if (found := shutil.which(name))), None)
        if path is None:
            raise LookupError(MISSING)
        self._folder = tempfile.mkdtemp(prefix="browser-")
        self.events: list[dict[str, Any]] = []
        self._number = 0
        self._waiting = b""
        theirs_in, self._out = _pipe()
        self._in, theirs_out = _pipe()
        quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        mine = [(os.POSIX_SPAWN_DUP2, theirs_in, 3), (os.POSIX_SPAWN_DUP2, theirs_out, 4)]
        words = [path, *FLAGS, f"--user-data-dir={self._folder}", "about:blank"]
        self._pid = os.posix_spawn(
            path, words, {**os.environ}, file_actions=[*quiet, *mine], setpgroup=0
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session: str | None = None
        targets = self.until(lambda: self._pages())
        attached = self.send("Target.attachToTarget", targetId=targets[0], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def _pages(self) -> list[str]:
        found = self.send("Target.getTargets")["targetInfos"]
        return [target["targetId"] for target in found if target["type"] == "page"]

    def send(self, method: str, **parameters: Any) -> Any:
        """The answer to a command. Raises RuntimeError where it is an error."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        due = time.monotonic() + PATIENCE
        while True:
            answer = self._receive(due)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self, due: float) -> dict[str, Any]:
        while b"\0" not in self._waiting:
            ready, _, _ = select.select([self._in], [], [], max(due - time.monotonic(), 0))
            content = os.read(self._in, 1 << 16) if ready else b""
            if not content:
                raise TimeoutError("the browser does not answer, or has ended")
            self._waiting += content
        message, _, self._waiting = self._waiting.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def open(self, address: str) -> None:
        """Load a page."""
        self.send("Page.navigate", url=address)
        self.until(lambda: self.ask("document.readyState") == "complete")

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        found = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def until(self, condition: Any) -> Any:
        """Wait for ``condition()``; what it returned."""
        due = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < due, "this never happened"
            time.sleep(0.05)
        return found

    def events_of(self, method: str) -> list[dict[str, Any]]:
        """What events of this name said so far."""
        self.send("Runtime.evaluate", expression="0")  # what came before it has been read now
        return [event["params"] for event in self.events if event.get("method") == method]

    def opened(self, path: Path) -> None:
        """Load the page in a file, and wait until all of it is drawn."""
        self.open("about:blank")  # a page that is fed goes on to fetch
        self.events_of("")
        self.events.clear()
        self.open(path.as_uri())
        self.until(lambda: self.ask("'drawn' in document.documentElement.dataset"))

    def errors(self) -> list[Any]:
        """What went wrong in the page, by its console."""
        thrown = [each["exceptionDetails"] for each in self.events_of("Runtime.exceptionThrown")]
        return [*thrown, *(each["entry"]["text"] for each in self.events_of("Log.entryAdded"))]

    def violations(self, axe: str, least: str = "serious") -> list[Any]:
        """What axe-core, whose script is ``axe``, finds that is ``least`` or worse: rule and places."""
        self.send("Runtime.evaluate", expression=axe)
        levels = ("minor", "moderate", "serious", "critical")
        worse = json.dumps(levels[levels.index(least) :])
        return self.ask(  # type: ignore[no-any-return]
            "axe.run({resultTypes: ['violations']}).then(found => {"
            " if (found.passes.length < 10) throw new Error('axe saw nothing');"
            f" return found.violations.filter(each => {worse}.includes(each.impact))"
            ".map(each => [each.id, each.nodes.map(node => node.html)]) })"
        )

    def press(self, key: str, text: str | None = None) -> None:
        """Press a key, which writes ``text``, and let it go."""
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=key, **more)

    def look(self, scheme: str = "light", width: int = 1200, height: int = 800) -> None:
        """Show pages in this scheme of colours, in a window of this size."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.send("Emulation.setEmulatedMedia", features=[feature])
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip

    def close(self) -> None:
        """End it, with all that it has started."""
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(self._pid, 0)
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._folder, ignore_errors=True)


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are none of the numbers that the browser is given."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in ends)
    for fd in ends:
        os.close(fd)
    return moved[0], moved[1]
