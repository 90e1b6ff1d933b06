"""Files beside a process's log that are mapped piece by piece, for others to write into."""

from __future__ import annotations

import os
from time import monotonic_ns

from .event import LOG, line
from .window import Window, allocate

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Protocol

    class Log(Protocol):
        """The log that a mapped file lies beside: the writer of this process."""

        path: str | None

        def emit(self, event: str, data: object) -> None: ...


HEADER = 1024
"""Bytes at the start of the first chunk: a JSON line that says what the file is, then NUL."""
TITLE = 512
"""Bytes of them that the line may take."""
FIRST = 1 << 16
"""Bytes of the first chunk, its header included; each further one is twice as long, to a limit."""
RETRY_NS = 1_000_000_000
"""After room could not be had, the next attempt waits this long: it costs system calls."""


class Mapped:
    """A file of one process that grows by chunks. Safe to grow from any thread that holds a lock.

    ``suffix`` ends its name; with ``several``, files of that kind are numbered. ``event`` and ``data``
    are its title, the JSON line at its start.
    """

    def __init__(
        self, writer: Log, suffix: str, event: str, data: object, largest: int, several: bool
    ) -> None:
        self._writer = writer
        self._suffix = suffix
        self._event = event
        self._data = data
        self._largest = largest
        self._several = several
        self._reset()

    def _reset(self) -> None:
        self._path: str | None = None
        self._pid = os.getpid()
        self._chunks = 0
        self._window: Window | None = None
        self._retry_at = 0
        self._why = 0

    def grow(self) -> memoryview:
        """Room for more: the bytes of the next chunk, all 0.

        Raises OSError or ValueError when there is none to be had.
        """
        if self._pid != os.getpid():
            self._reset()  # the parent's file is the parent's; its window stays mapped, unused
        now = monotonic_ns()
        if now < self._retry_at:
            raise OSError(self._why, "there was no room a moment ago")
        try:
            return self._next_chunk()
        except (OSError, ValueError) as error:
            self._retry_at = now + RETRY_NS
            self._why = getattr(error, "errno", None) or 0
            raise

    def _next_chunk(self) -> memoryview:
        start, length = extent(self._chunks, self._largest)
        fd = self._open()
        try:
            allocate(fd, start, length)
            old, self._window = self._window, Window(fd, start, length)
            if old is not None:
                old.release(fd)
        finally:
            os.close(fd)
        head = HEADER if self._chunks == 0 else 0
        if head:
            title = line(self._event, self._data, monotonic_ns())[: TITLE - 1]
            self._window.map[: len(title)] = title
        self._chunks += 1
        return memoryview(self._window.map)[head:]

    def _open(self) -> int:
        if self._path is not None:
            return os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        if self._writer.path is None:  # its first record makes it
            self._writer.emit(self._event, self._data)
        if self._writer.path is None:
            raise OSError("the process has no log")
        stem = self._writer.path[: -len(LOG)]
        number = 0
        while True:
            path = f"{stem}.{number}{self._suffix}" if self._several else stem + self._suffix
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                if not self._several:
                    raise
                number += 1
                continue
            self._path = path
            return fd


def extent(chunk: int, largest: int) -> tuple[int, int]:
    """Where chunk number ``chunk`` starts in the file, and how long it is; bytes."""
    start, length = 0, FIRST
    for _ in range(chunk):
        start, length = start + length, min(2 * length, largest)
    return start, length


def ends(size: int, largest: int) -> list[int]:
    """Where the chunks end of a file that has ``size`` bytes; a whole file ends with the last."""
    found: list[int] = []
    end, length = FIRST, FIRST
    while end <= size:
        found.append(end)
        length = min(2 * length, largest)
        end += length
    return found
