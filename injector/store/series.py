"""Series of numbers with their times, ``HOST.PID.N.values`` beside the log of a process; the layout, the
writer, the readers.

The file is mapped (:mod:`.mapped`), and code in the program assigns to two views of it, times and values,
without a call into this package. A value takes two machine words, which the kernel keeps whatever becomes of
the process. The file is a sequence of chunks. Each holds all its times, then all its values, as native
float64::

    header | time time time ... 0 | value value value ... 0 | time time ... | value value ... | ...
           `------------------ first chunk -----------------'`------- second, twice as long --'

The header is a JSON line with the name of the series, then NUL. Of a value the time is stored last, so a
value whose time is 0 was never written. Times are seconds of the monotonic clock. To store an integer of
nanoseconds would take 40 ns longer, and a float64 is exact to 2 ns on a machine that has been up for 100
days.
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
    """The file of one series of one process. Any thread may grow it that holds a lock of the caller's."""

    def __init__(self, writer: LogWriter, name: str) -> None:
        self.name = name
        title = {"series": name}
        self._file = mapped.Mapped(writer, SUFFIX, "series", title, LARGEST, several=True)

    def grow(self) -> tuple[Any, Any]:
        """Views of the next chunk's times (monotonic seconds) and values, all 0.

        Raises OSError or ValueError if there is no room.
        """
        chunk = self._file.grow()
        half = len(chunk) // 16 * 8
        return chunk[:half].cast("d"), chunk[half : 2 * half].cast("d")


def read(path: str) -> tuple[str, Iterator[tuple[float, float]]]:
    """The name of the series in the file ``path``, and its pairs of monotonic seconds and value, in order.

    Raises OSError, also while the pairs are read.
    """
    with open(path, "rb") as file:
        title = file.read(HEADER)
    return _name(title, path), _values(path)


def _name(title: bytes, path: str) -> str:
    """The name of the series in a header; the file's name if the header is damaged."""
    from json import loads

    try:
        return str(loads(title.rstrip(b"\0"))["data"]["series"])
    except (ValueError, KeyError, TypeError):
        return os.path.basename(path)


def last(path: str) -> tuple[str, float | None]:
    """The name of the series in the file ``path``, and its latest value; None if it has none yet.

    Only a few numbers are read, however long the series is. Raises OSError.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        chunk = 0
        while sum(mapped.extent(chunk + 1, LARGEST)) <= size:
            chunk += 1
        value = None
        while value is None and chunk >= 0:  # the newest chunk may be empty
            value = _last_of(fd, chunk)
            chunk -= 1
        return _name(os.pread(fd, HEADER, 0), path), value
    finally:
        os.close(fd)


class GrowingSeries:
    """A series file that is read while it grows. Each :meth:`new` continues where the last one stopped."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._chunk = self._row = 0
        self.name = ""
        """The name of the series; empty before the first :meth:`new`."""

    def new(self) -> list[tuple[float, float]]:
        """The pairs of monotonic seconds and value that were written since, in order. Raises OSError."""
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.name = self.name or _name(os.pread(fd, HEADER, 0), self._path)
            size, pairs = os.fstat(fd).st_size, list[tuple[float, float]]()
            while self._read(fd, size, pairs):
                self._chunk, self._row = self._chunk + 1, 0
            return pairs
        finally:
            os.close(fd)

    def _read(self, fd: int, size: int, pairs: list[tuple[float, float]]) -> bool:
        """Add the new pairs of the current chunk to ``pairs``.

        Returns whether the chunk is read to its end and another one has begun. ``size``: of the file, bytes.
        """
        start, half = _layout(self._chunk)
        count = half // 8 - self._row
        times, values = (
            memoryview(os.pread(fd, 8 * count, at + 8 * self._row)).cast("d")
            for at in (start, start + half)
        )
        following = sum(mapped.extent(self._chunk + 1, LARGEST)) <= size
        for when, value in zip(times, values, strict=False):
            # A time of 0 is where the process will write next. If another chunk has begun, it never will: a
            # process that lost a value, or a thread that was killed, leaves a gap.
            if not (when or following):
                return False
            self._row += 1
            if when:
                pairs.append((when, value))
        return following and self._row == half // 8


def _layout(chunk: int) -> tuple[int, int]:
    """The offset of the times of a chunk, and the bytes that they take. Its values follow, as many bytes."""
    start, length = mapped.extent(chunk, LARGEST)
    if chunk == 0:
        start, length = HEADER, length - HEADER
    return start, length // 16 * 8


def _last_of(fd: int, chunk: int) -> float | None:
    """The last value of a chunk; None if it has none."""
    start, half = _layout(chunk)
    # Times are 0 from the first one that was not written: a binary search finds that.
    low, high = 0, half // 8
    while low < high:
        middle = (low + high) // 2
        if _number(fd, start + 8 * middle):
            low = middle + 1
        else:
            high = middle
    return _number(fd, start + half + 8 * (low - 1)) if low else None


def _number(fd: int, at: int) -> float:
    """The float64 at the offset ``at``; 0 beyond the end of the file."""
    from struct import unpack

    content = os.pread(fd, 8, at)
    return float(unpack("=d", content)[0]) if len(content) == 8 else 0.0


def _values(path: str) -> Iterator[tuple[float, float]]:
    """The pairs of a file, :data:`AT_ONCE` at a time.

    In between no file is open: the series of a run are read side by side, and may be too many to be open.
    """
    chunk = row = 0
    while True:
        start, half = _layout(chunk)
        count = min(half // 8 - row, AT_ONCE)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # Of a chunk that was cut, the values are lost, or some of them.
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
