"""Showing a run while it goes on: on a terminal, or line by line."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from ..live.snapshot import Snapshot
from . import panel

INTERVAL = 0.5
"""Seconds between two drawings of the panel."""
LINES = 10.0
"""Seconds between two lines, for output that is no terminal."""
REST = 1
"""How many times as long as a look takes the next one is away at least: one at thousands of ranks takes
seconds, and looking is to take no more than half a core."""


def rest_after(began: float, least: float) -> float:
    """Seconds until the next look after one that began at ``began``, of :func:`time.thread_time`."""
    return max(least, REST * (time.thread_time() - began))


class Watched(Protocol):
    """What is watched: a run, or several together."""

    def tick(self) -> Snapshot:
        """Take in what is new, and return the snapshot."""


class View(Protocol):
    """How a snapshot is shown: :mod:`.panel` is that of a run."""

    def has_begun(self, snapshot: Any) -> bool:
        """Whether there is anything to show."""

    def lines(self, snapshot: Any, width: int) -> list[str]:
        """For a terminal."""

    def one_line(self, snapshot: Any) -> str:
        """For a pipe."""


class Watching:
    """Draws the snapshots of ``state`` onto ``fd``, as soon as there is anything to show."""

    def __init__(
        self,
        state: Watched,
        fd: int,
        every: float = LINES,
        prefix: str = "",
        view: View = panel,
    ) -> None:
        self._state = state
        self._view = view
        self._fd = fd
        self._every = every
        self._prefix = prefix
        self._screen = Screen(fd) if Screen.fits(fd) else None

    def until(self, over: Callable[[float], bool]) -> None:
        """Show it until ``over(seconds)``, which waits that long, returns that it has ended."""
        least = rest = self._every if self._screen is None else INTERVAL
        try:
            while not over(rest):
                began = time.thread_time()
                self.show()
                rest = rest_after(began, least)
        finally:
            self.close()

    def show(self) -> None:
        """Draw the state as it is now."""
        snapshot = self._state.tick()
        if not self._view.has_begun(snapshot):
            return
        if self._screen is not None:
            self._screen.draw(self._view.lines(snapshot, self._screen.width))
        else:
            self._print(self._view.one_line(snapshot))

    def close(self) -> None:
        """Give the terminal back."""
        if self._screen is not None:
            self._screen.close()

    def _print(self, text: str) -> None:
        try:
            os.write(self._fd, f"{self._prefix}{text}\n".encode())
        except OSError:
            pass  # its reader is gone


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


LEAST = 10
"""Lines that a terminal has at least for the program, beside the panel."""


class Screen:
    """The panel on the terminal open as ``fd``. Nothing here raises: a terminal may go away."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rows = self._height = 0
        self._columns = 0

    @staticmethod
    def fits(fd: int) -> bool:
        """Whether ``fd`` is a terminal that knows the commands and is large enough."""
        try:
            size = os.get_terminal_size(fd)
        except OSError:
            return False
        return os.environ.get("TERM", "dumb") not in ("", "dumb") and size.lines >= LEAST + 5

    @property
    def width(self) -> int:
        """Columns that a line may take."""
        return max(self._size()[0] - 1, 20)

    def draw(self, lines: list[str]) -> None:
        """Show ``lines``, as many as fit."""
        columns, rows = self._size()
        lines = ["─" * (columns - 1), *lines][: max(rows - LEAST, 0)]
        if (rows, columns) != (self._rows, self._columns) or len(lines) > self._height:
            self._make_room(rows, columns, max(len(lines), self._height))
        first = self._rows - self._height + 1
        lines += [""] * (self._height - len(lines))
        text = "".join(f"\x1b[{first + at};1H\x1b[2K{line}" for at, line in enumerate(lines))
        self._write(f"\x1b7{text}\x1b8")

    def close(self) -> None:
        """Give the whole terminal back to the program."""
        if self._height:
            first = self._rows - self._height + 1
            self._write(f"\x1b7\x1b[r\x1b[{first};1H\x1b[J\x1b8")
            self._height = 0

    def _make_room(self, rows: int, columns: int, height: int) -> None:
        height = min(height, rows - LEAST)
        more = height - self._height if rows == self._rows else height
        # What stands where the panel will be scrolls up, and the cursor with it.
        room = "\n" * more + (f"\x1b[{more}A" if more > 0 else "")
        self._write(f"{room}\x1b7\x1b[1;{rows - height}r\x1b8")
        self._rows, self._columns, self._height = rows, columns, height

    def _size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self._fd)
        except OSError:
            return self._columns or 80, self._rows or 24
        return size.columns, size.lines

    def _write(self, text: str) -> None:
        content = text.encode()
        try:
            while content:
                content = content[os.write(self._fd, content) :]
        except OSError:
            pass
