"""Numbers with their times, stored by the program's own code, without a call into ours.

A series is a file beside the process's log. It is mapped, and the measuring code is handed two views of
it, times and values, to assign to: two machine words a value, kept by the kernel whatever becomes of
the process. The file is a run of chunks; each holds all its times, then all its values, as float64. A
time that is 0 was never written: what is stored last says that a value is whole. Times are seconds of
the monotonic clock: an integer of nanoseconds takes 40 ns longer to store, and a float64 keeps them
to 2 ns in a machine that has been up for 100 days.
"""

from __future__ import annotations

import os

from . import mapped
from .mapped import HEADER

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .mapped import LogWriter

LARGEST = 1 << 23
"""Bytes of the largest chunk."""
SUFFIX = ".values"
AT_ONCE = 1 << 10
"""Values of a series that are in memory at a time while it is read."""


class SeriesFile:
    """One series of one process. Safe to grow from any thread that holds a lock of its own."""

    def __init__(self, writer: LogWriter, name: str) -> None:
        self.name = name
        title = {"series": name}
        self._file = mapped.Mapped(writer, SUFFIX, "series", title, LARGEST, several=True)

    def grow(self) -> tuple[Any, Any]:
        """Room for more: views of times (monotonic seconds) and values, all 0.

        Raises OSError or ValueError when there is none to be had.
        """
        room = self._file.grow()
        half = len(room) // 16 * 8
        return room[:half].cast("d"), room[half : 2 * half].cast("d")


def read(path: str) -> tuple[str, Iterator[tuple[float, float]]]:
    """The name of the series in the file ``path``, and its (monotonic seconds, value) in order.

    Raises OSError.
    """
    with open(path, "rb") as file:
        title = file.read(HEADER)
    return _name(title, path), _values(path)


def _name(title: bytes, path: str) -> str:
    from json import loads

    try:
        return str(loads(title.rstrip(b"\0"))["data"]["series"])
    except (ValueError, KeyError, TypeError):
        return os.path.basename(path)


def last(path: str) -> tuple[str, float | None]:
    """The name of the series in the file ``path``, and its latest value; None if it has none yet.

    However long the series is, a few numbers of it are read. Raises OSError.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        chunk = 0
        while sum(mapped.extent(chunk + 1, LARGEST)) <= size:
            chunk += 1
        found = None
        while found is None and chunk >= 0:  # the newest chunk may be empty
            found = _last_of(fd, chunk)
            chunk -= 1
        return _name(os.pread(fd, HEADER, 0), path), found
    finally:
        os.close(fd)


class GrowingSeries:
    """A series file that is read while it grows: each :meth:`new` goes on where the last one ended."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._chunk = self._row = 0
        self.name = ""

    def new(self) -> list[tuple[float, float]]:
        """(monotonic seconds, value) in order, of all that is whole by now. Raises OSError."""
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.name = self.name or _name(os.pread(fd, HEADER, 0), self._path)
            size, found = os.fstat(fd).st_size, list[tuple[float, float]]()
            while self._read(fd, size, found):
                self._chunk, self._row = self._chunk + 1, 0
            return found
        finally:
            os.close(fd)

    def _read(self, fd: int, size: int, found: list[tuple[float, float]]) -> bool:
        """Read on in its chunk; whether that one is full and another one has begun."""
        start, half = _room_of(self._chunk)
        count = half // 8 - self._row
        times, values = (
            memoryview(os.pread(fd, 8 * count, at + 8 * self._row)).cast("d")
            for at in (start, start + half)
        )
        following = sum(mapped.extent(self._chunk + 1, LARGEST)) <= size
        for when, value in zip(times, values, strict=False):
            if not (when or following):
                return False
            self._row += 1
            if when:
                found.append((when, value))
        return following and self._row == half // 8


def _room_of(chunk: int) -> tuple[int, int]:
    """Where the times of a chunk begin, and how many bytes they take: the values follow."""
    start, length = mapped.extent(chunk, LARGEST)
    if chunk == 0:
        start, length = HEADER, length - HEADER
    return start, length // 16 * 8


def _last_of(fd: int, chunk: int) -> float | None:
    """The last value of a chunk: its times rise, and are 0 from where nothing was written yet."""
    start, half = _room_of(chunk)
    low, high = 0, half // 8
    while low < high:
        middle = (low + high) // 2
        if _number(fd, start + 8 * middle):
            low = middle + 1
        else:
            high = middle
    return _number(fd, start + half + 8 * (low - 1)) if low else None


def _number(fd: int, at: int) -> float:
    from struct import unpack

    content = os.pread(fd, 8, at)
    return float(unpack("=d", content)[0]) if len(content) == 8 else 0.0


def _values(path: str) -> Iterator[tuple[float, float]]:
    """Piece by piece. Between two of them no file is open: the series of a run are read side by side."""
    chunk = row = 0
    while True:
        start, half = _room_of(chunk)
        count = min(half // 8 - row, AT_ONCE)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # A file cut short in the middle of a chunk has lost where its values begin.
            if sum(mapped.extent(chunk, LARGEST)) > os.fstat(fd).st_size:
                return
            times, values = (
                memoryview(os.pread(fd, 8 * count, at + 8 * row)).cast("d")
                for at in (start, start + half)
            )
        finally:
            os.close(fd)
        yield from (pair for pair in zip(times, values, strict=True) if pair[0])
        row += count
        if row == half // 8:
            chunk, row = chunk + 1, 0
