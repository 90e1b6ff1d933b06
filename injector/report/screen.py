"""A panel at the bottom of a terminal, above which a program's output scrolls on.

The program writes to the terminal itself, and knows nothing of the panel: the terminal is told to
scroll only the lines above it (DECSTBM of the VT100), and each drawing puts the cursor back.
"""

from __future__ import annotations

import os

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
