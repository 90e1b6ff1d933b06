"""Numbers with their times, stored by the program's own code, without a call into ours.

A series is a file beside the process's log. It is mapped, and whoever measures is handed two views of
it, times and values, to assign to: two machine words a value, kept by the kernel whatever becomes of
the process. The file is a run of chunks; each holds all its times, then all its values, as float64. A
time that is 0 was never written: what is stored last says that a value is whole. Times are seconds of
the monotonic clock: an integer of nanoseconds takes 40 ns longer to store, and a float64 keeps them
to 2 ns in a machine that has been up for 100 days.
"""

from __future__ import annotations

import os
from time import monotonic_ns

from .event import line
from .window import Window
from .writer import allocate

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .writer import Writer

HEADER = 1024
"""Bytes at the start of the first chunk: a JSON line that names the series, then NUL."""
FIRST = 1 << 16
"""Bytes of the first chunk, its header included; each further one is twice as long, to a limit."""
LARGEST = 1 << 23
RETRY_NS = 1_000_000_000
"""After room could not be had, the next attempt waits this long: it costs system calls."""
SUFFIX = ".values"


class Series:
    """One series of one process. Safe to grow from any thread that holds a lock of its own."""

    def __init__(self, writer: Writer, name: str) -> None:
        self.name = name
        self._writer = writer
        self._reset()

    def _reset(self) -> None:
        self._path: str | None = None
        self._pid = os.getpid()
        self._chunks = 0
        self._window: Window | None = None
        self._retry_at = 0

    def grow(self) -> tuple[Any, Any]:
        """Room for more: views of times (monotonic seconds) and values, all 0.

        Raises OSError or ValueError when there is none to be had.
        """
        if self._pid != os.getpid():
            self._reset()  # the parent's file is the parent's; its window stays mapped, unused
        now = monotonic_ns()
        if now < self._retry_at:
            raise OSError("there was no room a moment ago")
        try:
            return self._next_chunk()
        except (OSError, ValueError):
            self._retry_at = now + RETRY_NS
            raise

    def _next_chunk(self) -> tuple[Any, Any]:
        start, length = _extent(self._chunks)
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
            title = line("series", {"series": self.name}, monotonic_ns())[: HEADER - 1]
            self._window.map[: len(title)] = title
        self._chunks += 1
        return _views(memoryview(self._window.map)[head:])

    def _open(self) -> int:
        if self._path is not None:
            return os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        if self._writer.path is None:  # its first record makes it
            self._writer.emit("series", {"series": self.name})
        if self._writer.path is None:
            raise OSError("the process has no log")
        stem = self._writer.path[: -len(".log")]
        number = 0
        while True:
            path = f"{stem}.{number}{SUFFIX}"
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                number += 1
                continue
            self._path = path
            return fd


def _extent(chunk: int) -> tuple[int, int]:
    """Where chunk number ``chunk`` starts in the file, and how long it is; bytes."""
    start, length = 0, FIRST
    for _ in range(chunk):
        start, length = start + length, min(2 * length, LARGEST)
    return start, length


def _views(room: memoryview) -> tuple[Any, Any]:
    half = len(room) // 16 * 8
    return room[:half].cast("d"), room[half : 2 * half].cast("d")


def read(path: str) -> tuple[str, Iterator[tuple[float, float]]]:
    """The name of the series in the file ``path``, and its (monotonic seconds, value) in order.

    Raises OSError.
    """
    from json import loads

    with open(path, "rb") as file:
        title = file.read(HEADER).rstrip(b"\0")
    try:
        name = str(loads(title)["data"]["series"])
    except (ValueError, KeyError, TypeError):
        name = os.path.basename(path)
    return name, _values(path)


def _values(path: str) -> Iterator[tuple[float, float]]:
    with open(path, "rb") as file:
        chunk = 0
        while content := file.read(_extent(chunk)[1]):
            room = memoryview(content)[HEADER if chunk == 0 else 0 :]
            # A file cut short in the middle of a chunk has lost where its values begin.
            if len(content) == _extent(chunk)[1]:
                times, values = _views(room)
                for when, value in zip(times, values, strict=True):
                    if when:
                        yield when, value
            chunk += 1
