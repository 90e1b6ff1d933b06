"""Showing a run while it goes on: on a terminal, or line by line."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

from ..live.snapshot import Snapshot
from . import live
from .screen import Screen

INTERVAL = 0.5
"""Seconds between two drawings of the panel."""
LINES = 10.0
"""Seconds between two lines, for output that is no terminal."""


class Watched(Protocol):
    """What is watched: a run, or several together."""

    def tick(self) -> Snapshot:
        """Take in what is new, and return the snapshot."""


class Watching:
    """Draws what ``state`` tells onto ``fd``, from the first step or device on.

    Nothing is shown of a program that trains nothing: its terminal is its own.
    """

    def __init__(self, state: Watched, fd: int, every: float = LINES, prefix: str = "") -> None:
        self._state = state
        self._fd = fd
        self._every = every
        self._prefix = prefix
        self._screen = Screen(fd) if Screen.fits(fd) else None

    def until(self, over: Callable[[float], bool]) -> None:
        """Show it until ``over(seconds)``, which waits that long, says that it has ended."""
        interval = self._every if self._screen is None else INTERVAL
        try:
            while not over(interval):
                self.show()
        finally:
            self.close()

    def show(self) -> None:
        """Draw the state as it is now."""
        snapshot = self._state.tick()
        if not self.has_begun(snapshot):
            return
        if self._screen is not None:
            self._screen.draw(self.lines(snapshot, self._screen.width))
        else:
            self._print(self.one_line(snapshot))

    def has_begun(self, snapshot: Any) -> bool:
        """Whether there is anything to show."""
        return bool(snapshot.ranks)

    def lines(self, snapshot: Any, width: int) -> list[str]:
        """What a terminal shows."""
        return live.lines(snapshot, width)

    def one_line(self, snapshot: Any) -> str:
        """What a pipe is told."""
        return live.one_line(snapshot)

    def close(self) -> None:
        """Give the terminal back."""
        if self._screen is not None:
            self._screen.close()

    def _print(self, text: str) -> None:
        try:
            os.write(self._fd, f"{self._prefix}{text}\n".encode())
        except OSError:
            pass  # whoever read it is gone


class InBackground:
    """A :class:`Watching` in a thread of its own, with a way to end it."""

    def __init__(self, watching: Watching, failed: Callable[[str], None]) -> None:
        self._watching = watching
        self._failed = failed
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="injector-live")

    def start(self) -> None:
        """Begin to show."""
        self._thread.start()

    def stop(self) -> None:
        """Show nothing any more; the terminal is whole when this returns."""
        self._over.set()
        self._thread.join(5.0)
        self._watching.close()

    def _run(self) -> None:
        try:
            self._watching.until(self._over.wait)
        except Exception as error:
            self._failed(f"the live view ended: {type(error).__name__}: {error}")
