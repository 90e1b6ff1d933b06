"""A run shown while it goes on: as a panel at the bottom of a terminal, or line by line in a pipe.

The panel shares the terminal with the program's own output (:class:`Screen`): a scrolling region keeps that
output above the panel. The terminal is the program's; whatever happens, it is given back as it was.
"""

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
"""The rest between two snapshots, as a multiple of the processor time of one. With thousands of ranks a
snapshot takes seconds; at 1, they take half of a core at most.
"""


def rest_after(began: float, least: float) -> float:
    """Seconds to the next snapshot, at least ``least``, after one begun at ``began`` by thread time."""
    return max(least, REST * (time.thread_time() - began))


class Watched(Protocol):
    """The state of a run, or of several together."""

    def tick(self) -> Snapshot:
        """Read what is new, and return the snapshot."""


class View(Protocol):
    """The way in which snapshots are shown. That of a run is :mod:`.panel`."""

    def has_begun(self, snapshot: Any) -> bool:
        """Whether there is anything to show."""

    def lines(self, snapshot: Any, width: int) -> list[str]:
        """The lines for a terminal of ``width`` columns."""

    def one_line(self, snapshot: Any) -> str:
        """The line for a pipe."""


class Watching:
    """Shows the snapshots of ``state`` on the descriptor ``fd``, as soon as there is anything to show.

    On a terminal the panel is drawn every :data:`INTERVAL` seconds. Elsewhere a line is written every
    ``every`` seconds, with ``prefix`` before it.
    """

    def __init__(
        self, state: Watched, fd: int, every: float = LINES, prefix: str = "", view: View = panel
    ) -> None:
        self._state = state
        self._view = view
        self._fd = fd
        self._every = every
        self._prefix = prefix
        self._screen = Screen(fd) if Screen.fits(fd) else None

    def until(self, over: Callable[[float], bool]) -> None:
        """Show the state until ``over(seconds)``, which waits for that long, returns true."""
        least = rest = self._every if self._screen is None else INTERVAL
        try:
            while not over(rest):
                began = time.thread_time()
                self.show()
                rest = rest_after(began, least)
        finally:
            self.close()

    def show(self) -> None:
        """Show the state as it is now."""
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
            pass  # the reader of the pipe has ended


class InBackground:
    """Runs a :class:`Watching` in a thread. If that fails, ``failed`` is called with a sentence."""

    def __init__(self, watching: Watching, failed: Callable[[str], None]) -> None:
        self._watching = watching
        self._failed = failed
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="injector-live")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. The whole terminal is the program's when this returns."""
        self._over.set()
        self._thread.join(5.0)
        self._watching.close()

    def _run(self) -> None:
        try:
            self._watching.until(self._over.wait)
        except Exception as error:
            self._failed(f"the live view ended: {type(error).__name__}: {error}")


LEAST = 10
"""The fewest lines of a terminal that are left to the program."""


class Screen:
    """The panel at the bottom of the terminal open as ``fd``.

    The lines above it are a scrolling region (DECSTBM), in which the program's output scrolls. The cursor
    belongs to the program: it is saved before each drawing and restored after it (DECSC, DECRC), each drawing
    being one write, into which no output of the program can fall. No method raises, as a terminal may be
    closed at any time.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rows = self._height = 0  # of the terminal, and of the panel
        self._columns = 0

    @staticmethod
    def fits(fd: int) -> bool:
        """Whether ``fd`` is a terminal that knows these sequences and is large enough."""
        try:
            size = os.get_terminal_size(fd)
        except OSError:
            return False
        return os.environ.get("TERM", "dumb") not in ("", "dumb") and size.lines >= LEAST + 5

    @property
    def width(self) -> int:
        """The columns that a line may take. The last one stays free: after it, some terminals wrap."""
        return max(self._size()[0] - 1, 20)

    def draw(self, lines: list[str]) -> None:
        """Show ``lines``, as many as fit."""
        columns, rows = self._size()
        lines = ["─" * (columns - 1), *lines][: max(rows - LEAST, 0)]
        # The panel grows, but never shrinks: lines that are free again would stay empty above it.
        if (rows, columns) != (self._rows, self._columns) or len(lines) > self._height:
            self._make_room(rows, columns, max(len(lines), self._height))
        first = self._rows - self._height + 1
        lines += [""] * (self._height - len(lines))
        text = "".join(f"\x1b[{first + at};1H\x1b[2K{line}" for at, line in enumerate(lines))
        self._write(f"\x1b7{text}\x1b8")

    def close(self) -> None:
        """Remove the panel, and give the whole terminal back to the program."""
        if self._height:
            first = self._rows - self._height + 1
            self._write(f"\x1b7\x1b[r\x1b[{first};1H\x1b[J\x1b8")
            self._height = 0

    def _make_room(self, rows: int, columns: int, height: int) -> None:
        """Make the panel ``height`` lines high, on a terminal of this size."""
        height = min(height, rows - LEAST)
        more = height - self._height if rows == self._rows else height
        # The output where the panel will be scrolls up by as many lines, and the cursor goes with it.
        room = "\n" * more + (f"\x1b[{more}A" if more > 0 else "")
        self._write(f"{room}\x1b7\x1b[1;{rows - height}r\x1b8")
        self._rows, self._columns, self._height = rows, columns, height

    def _size(self) -> tuple[int, int]:
        """Columns and rows of the terminal; if they cannot be read, as they were."""
        try:
            size = os.get_terminal_size(self._fd)
        except OSError:
            return self._columns or 80, self._rows or 24
        return size.columns, size.lines

    def _write(self, text: str) -> None:
        """Write ``text``, in one system call if the terminal takes it all."""
        content = text.encode()
        try:
            while content:
                content = content[os.write(self._fd, content) :]
        except OSError:
            pass
