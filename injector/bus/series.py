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

from . import mapped
from .mapped import FIRST, HEADER, RETRY_NS

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .writer import Writer

__all__ = ["FIRST", "HEADER", "LARGEST", "RETRY_NS", "SUFFIX", "Series", "read"]

LARGEST = 1 << 23
"""Bytes of the largest chunk."""
SUFFIX = ".values"


class Series:
    """One series of one process. Safe to grow from any thread that holds a lock of its own."""

    def __init__(self, writer: Writer, name: str) -> None:
        self.name = name
        title = {"series": name}
        self._file = mapped.Mapped(writer, SUFFIX, "series", title, LARGEST, several=True)

    def grow(self) -> tuple[Any, Any]:
        """Room for more: views of times (monotonic seconds) and values, all 0.

        Raises OSError or ValueError when there is none to be had.
        """
        return _views(self._file.grow())


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
        while content := file.read(mapped.extent(chunk, LARGEST)[1]):
            room = memoryview(content)[HEADER if chunk == 0 else 0 :]
            # A file cut short in the middle of a chunk has lost where its values begin.
            if len(content) == mapped.extent(chunk, LARGEST)[1]:
                times, values = _views(room)
                for when, value in zip(times, values, strict=True):
                    if when:
                        yield when, value
            chunk += 1
