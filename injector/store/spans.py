"""Spans of time, ``HOST.PID.spans`` beside the log of a process: the layout, the writer, the reader.

The file is mapped (:mod:`.mapped`) and stored into by the program's own code. It begins with a title of
1 024 bytes: a JSON line, then NUL; from byte 512 on native int64, the sites of calls that have begun and
not ended, one for each stack of calls: what a process was in when it hung, or died. Then come rows of
four native int64: start and end (nanoseconds of the monotonic clock), payload, site. The site is stored
last: a row whose site is 0 was never written. An event ``site`` of the log describes a site,
before its first row.

A finished run may be packed: ``HOST.PID.spans.parquet`` with the columns ``start end payload site``
stands in the place of that file. What was never written is left out, and open calls are metadata; who
reads rows reads the same.

Versions, as the title has them:

1. the first. Open calls were added to it later: in older files their places are 0, as those of a
   process that is in none.
"""

from __future__ import annotations

import os

from ..errors import UserError
from .mapped import HEADER, TITLE, Mapped

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .mapped import LogWriter

    Row = tuple[int, int, int, int]
    """Start, end, payload, site."""

VERSION = 1
SUFFIX = ".spans"
PACKED = SUFFIX + ".parquet"
COLUMNS = ("start", "end", "payload", "site")
ROW = 8 * len(COLUMNS)
"""Bytes of a row."""
LARGEST = 1 << 18
"""Bytes of the largest chunk: a hook waits until it is mapped, and the one before is not."""
OPEN = (HEADER - TITLE) // 8
"""How many open calls the title has room for."""
AT_ONCE = 1 << 18
"""Bytes that are read at once: what stays in a processor's cache until it is in columns."""
ROWS_AT_ONCE = 1 << 20
"""Packed rows that are read at once."""


class SpanFile(Mapped):
    """The file of spans of one process. Safe to grow from any thread that holds a lock of its own."""

    def __init__(self, writer: LogWriter) -> None:
        title = {"version": VERSION, "row": ROW}
        super().__init__(writer, SUFFIX, "spans", title, LARGEST, several=False)

    def _reset(self) -> None:
        super()._reset()
        self._head: memoryview | None = None

    def head(self) -> memoryview | None:
        """:data:`OPEN` integers for the sites of open calls; None before the first chunk.

        To be fetched as soon as there is one. It keeps that chunk mapped.
        """
        if self._head is None and self._chunks == 1 and self._window is not None:
            self._head = memoryview(self._window.map)[TITLE:HEADER].cast("q")
        return self._head


# --- what a row says ------------------------------------------------------------------------------

ITEMS_BITS = 24
ITEMS = (1 << ITEMS_BITS) - 1
"""The most items that a payload holds: its low bits; tokens stand above them."""
TOKENS = (1 << 32) - 1
"""The most tokens that a payload holds."""

MEMORY = "memory"
"""The clock of sites whose rows say what memory there was, and ``device`` where (``host``, ``cuda:0``)."""
MEMORY_UNIT = 4096
_MEMORY_BITS = 31
_MOST_MEMORY = (1 << _MEMORY_BITS) - 1


def memory_payload(before: int, after: int) -> int:
    """Bytes at the begin and at the end of a region as one number: units of 4 KiB, up to 8 TiB each."""
    first, last = (min(max(n, 0) // MEMORY_UNIT, _MOST_MEMORY) for n in (before, after))
    return first << _MEMORY_BITS | last


def memory_of(payload: Any) -> tuple[Any, Any]:
    """The bytes that :func:`memory_payload` made ``payload`` of: a number, or an array of them."""
    first, last = payload >> _MEMORY_BITS, payload & _MOST_MEMORY
    return first * MEMORY_UNIT, last * MEMORY_UNIT


START = "start"
"""How to read the payload of a device's row: the begin of the host's row that it belongs to."""

WAIT = "wait"
"""The region of being blocked in a function of the standard library, which ``what`` names."""
_GIVING = frozenset(
    [
        *("__next__", "as_completed", "communicate", "get", "next", "result", "result_iterator"),
        *("read", "readall", "readinto", "readv", "recv", "recv_bytes", "recv_bytes_into"),
        *("recv_into", "recvfrom", "recvfrom_into", "recvmsg"),
    ]
)
"""The functions among those that give what they waited for."""


def pack(items: int, tokens: int) -> int:
    """A payload: ``items`` and ``tokens``, each at most what it holds; 0 is unknown."""
    return min(max(items, 0), ITEMS) | min(max(tokens, 0), TOKENS) << ITEMS_BITS


def unpack(payload: Any) -> tuple[Any, Any]:
    """Items and tokens of a payload, or of a column of payloads."""
    return payload & ITEMS, payload >> ITEMS_BITS & TOKENS


def gives(what: object) -> bool:
    """Whether the function that a wait is ``what`` of gives what it waited for: it may be a batch."""
    return str(what or "").rpartition(".")[2] in _GIVING


def updates(region: object, phase: object) -> bool:
    """Whether a span is an update of a model: an optimizer's, compiled code's that trains by itself, or
    gradients that code follows which is neither."""
    return region == "optimizer" or (region in ("compiled", "gradients") and phase == "train")


def is_loaders(of: object, selector: object) -> bool:
    """Whether the fetches (``io``) of a site are a loader's, each of which may begin a step.

    ``of`` is the object that the site is of, ``selector`` that of its probe. A function that makes a
    batch (``get_batch``) is called wherever a step needs one, and more than once under accumulation:
    something else paces those steps. Of too many loaders a site is of none of them; the method that
    they are iterated with says that they are.
    """
    return of is not None or str(selector or "").endswith(("__next__", "__anext__"))


# --- the reader -----------------------------------------------------------------------------------


def rows(content: bytes) -> Iterator[Row]:
    """The whole rows in ``content``; one that was never written has site 0."""
    room = memoryview(content)[: len(content) // ROW * ROW].cast("q")
    return zip(room[0::4], room[1::4], room[2::4], room[3::4], strict=True)


def blocks(path: str, at_once: int = AT_ONCE, until: int | None = None) -> Iterator[bytes]:
    """The rows of the file ``path``, ``at_once`` bytes of whole ones at a time; packed ones as they come.

    ``until`` is where to end; what was torn off a last row is left out. Raises as :func:`arrays`.
    """
    if not os.path.exists(path) and is_packed(path):
        yield from (block.tobytes() for block in arrays(path))
        return
    with open(path, "rb") as file:
        left = os.fstat(file.fileno()).st_size if until is None else until
        left -= file.seek(HEADER)
        while left > 0 and (content := file.read(min(at_once, left))):
            left -= len(content)
            yield content[: len(content) // ROW * ROW]


def read(path: str) -> Iterator[Row]:
    """The rows that were written, in that order. Raises as :func:`arrays`."""
    for content in blocks(path, LARGEST):
        yield from (row for row in rows(content) if row[3])


def arrays(path: str) -> Iterator[Any]:
    """The rows of the file ``path``, packed or not, as arrays of int64, shape (n, 4).

    Unwritten ones have site 0. Raises OSError, ValueError where a packed file is none, and UserError
    where Parquet cannot be read.
    """
    import numpy as np

    if os.path.exists(path) or not is_packed(path):
        for content in blocks(path):
            yield np.frombuffer(content, np.int64).reshape(-1, len(COLUMNS))
        return
    file = _parquet_file(path)
    read = 0
    try:
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=COLUMNS):
            read += batch.num_rows
            yield np.stack([column.to_numpy() for column in batch.columns], axis=1)
    except NotImplementedError as error:  # what a changed byte asks for
        raise ValueError(str(error)) from None
    if read != file.metadata.num_rows:
        raise ValueError(f"{read} rows of {file.metadata.num_rows}")


def count(path: str) -> int:
    """The most rows that the file ``path`` holds, packed or not; 0 where there is none."""
    try:
        return max(0, (os.path.getsize(path) - HEADER) // ROW)
    except OSError:
        return int(_parquet_file(path).metadata.num_rows) if is_packed(path) else 0


def opened(path: str) -> list[int]:
    """The sites of the calls that the process whose spans are in ``path`` is in, or was in at its end.

    In no order; nothing where there is no such file. Raises OSError, and UserError where Parquet cannot
    be read.
    """
    if os.path.exists(path):
        with open(path, "rb") as file:
            head = file.read(HEADER)[TITLE:]
        places = memoryview(head)[: len(head) // 8 * 8].cast("q")
        return [site for site in places[1:] if site > 0]  # the first place is everybody's
    if not is_packed(path):
        return []
    return [int(n) for n in (_parquet_file(path).metadata.metadata or {}).get(_OPENED, b"").split()]


# --- packed ---------------------------------------------------------------------------------------

_OPENED = b"injector.opened"
_ENCODING = dict.fromkeys(("start", "end", "payload"), "DELTA_BINARY_PACKED")
"""Times rise by little from row to row: differences take a fraction of the room."""


def packed_path(path: str) -> str:
    """Where the rows of the file ``path`` lie once they are packed."""
    return path[: -len(SUFFIX)] + PACKED


def is_packed(path: str) -> bool:
    """Whether the file ``path`` was packed."""
    return os.path.exists(packed_path(path))


def pack_file(path: str) -> None:
    """Write the packed form of ``path`` beside it, whole or not at all. Raises OSError, UserError."""
    parquet = _parquet()
    import pyarrow

    draft = f"{packed_path(path)}.{os.getpid()}.draft"
    metadata = {_OPENED: " ".join(map(str, opened(path))).encode()}
    schema = pyarrow.schema([(name, pyarrow.int64()) for name in COLUMNS], metadata=metadata)
    how: dict[str, Any] = {"compression": "zstd", "use_dictionary": ["site"]}
    # Checksums: without run.json nothing else vouches for a packed file.
    how |= {"column_encoding": _ENCODING, "write_page_checksum": True}
    try:
        with parquet.ParquetWriter(draft, schema, **how) as writer:
            for block in arrays(path):
                written = block[block[:, 3] != 0]
                writer.write_table(pyarrow.table(list(written.T), schema=schema))
        os.replace(draft, packed_path(path))
    except BaseException as error:
        if os.path.exists(draft):
            os.unlink(draft)
        if isinstance(error, OSError) and error.errno and not error.filename:  # pyarrow's has none
            raise OSError(error.errno, os.strerror(error.errno), packed_path(path)) from None
        raise


def _parquet_file(path: str) -> Any:
    try:
        return _parquet().ParquetFile(packed_path(path), page_checksum_verification=True)
    except NotImplementedError as error:
        raise ValueError(str(error)) from None


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise UserError("packed runs need pyarrow: pip install 'overlay-injector[query]'") from None
    return parquet


def has_spans(folder: str) -> bool:
    """Whether the run in ``folder`` has recorded regions or steps, so far."""
    try:
        names = os.listdir(os.path.join(folder, "raw"))
    except OSError:
        return False
    return any(name.endswith((SUFFIX, PACKED)) for name in names)
