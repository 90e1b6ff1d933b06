"""Spans of time, stored by the program's own code: four integers each, in a file beside the log.

The file begins with a title of 1 024 bytes; then come rows of four native int64: start and end
(nanoseconds of the monotonic clock), payload, site. The site is stored last: a row whose site is 0 was
never written. What a site means is said by an event ``site`` of the log, before its first row.

The second half of the title are native int64 too: the sites of calls that have begun and not ended,
one for each stack of calls. What a process was in when it hung, or died, is read from there.
"""

from __future__ import annotations

from ..store.layout import is_loaders
from . import mapped
from .mapped import FIRST, HEADER, TITLE

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .mapped import Log

__all__ = [
    "FIRST",
    "HEADER",
    "ITEMS",
    "LARGEST",
    "OPEN",
    "ROW",
    "SUFFIX",
    "TOKENS",
    "SpanFile",
    "is_loaders",
    "opened",
    "pack",
    "read",
]

VERSION = 1
ROW = 32
"""Bytes of a row."""
LARGEST = 1 << 18
"""Bytes of the largest chunk: a hook waits until it is mapped, and the one before is not."""
SUFFIX = ".spans"
OPEN = (HEADER - TITLE) // 8
"""How many open calls the title has room for."""
ITEMS = (1 << 24) - 1
"""The most items that a payload holds."""
TOKENS = (1 << 32) - 1
"""The most tokens that a payload holds."""


class SpanFile(mapped.Mapped):
    """The file of spans of one process. Safe to grow from any thread that holds a lock of its own."""

    def __init__(self, writer: Log) -> None:
        title = {"version": VERSION, "row": ROW}
        super().__init__(writer, SUFFIX, "spans", title, LARGEST, several=False)

    def _reset(self) -> None:
        super()._reset()
        self._head: memoryview | None = None

    def head(self) -> memoryview | None:
        """:data:`OPEN` integers for the sites of open calls; None before the first chunk.

        To be asked for as soon as there is one. It keeps that chunk mapped.
        """
        if self._head is None and self._chunks == 1 and self._window is not None:
            self._head = memoryview(self._window.map)[TITLE:HEADER].cast("q")
        return self._head


def pack(items: int, tokens: int) -> int:
    """A payload: ``items`` and ``tokens``, each at most what it holds; 0 is unknown."""
    return min(max(items, 0), ITEMS) | min(max(tokens, 0), TOKENS) << 24


def unpack(payload: int) -> tuple[int, int]:
    """Items and tokens of a payload."""
    return payload & ITEMS, payload >> 24 & TOKENS


def opened(path: str) -> list[int]:
    """The sites of the calls that the process whose spans are in ``path`` is in, or ended in.

    In no order; nothing where there is no such file. Raises OSError.
    """
    from ..store.packed import opened  # which a process that records need not know

    return opened(path)


def read(path: str) -> Iterator[tuple[int, int, int, int]]:
    """The rows of the file ``path`` in the order in which they were written: start, end, payload, site.

    Raises OSError.
    """
    with open(path, "rb") as file:
        file.seek(HEADER)
        while content := file.read(LARGEST):
            room = memoryview(content)[: len(content) // ROW * ROW].cast("q")
            for at in range(0, len(room), 4):
                start, end, payload, site = room[at : at + 4]
                if site:
                    yield start, end, payload, site
