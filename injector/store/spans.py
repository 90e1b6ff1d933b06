"""Spans of time, ``HOST.PID.spans`` beside the log of a process: the layout, the writer, the reader.

The file is mapped into the program (:mod:`.mapped`), whose own rewritten code stores into it::

    byte 0      a JSON line that says what the file is, then NUL
    byte 512    64 native int64: the call sites of calls that have begun and not ended, 0 where there is none
    byte 1024   rows of four native int64: start, end, payload, site

Start and end are nanoseconds of the monotonic clock. A payload holds items and tokens, memory, or the start
of another row, as the call site says. The site of a row is stored last: a row whose site is 0 was never
written, or not yet. An event ``site`` in the log describes each site before its first row. The open calls
have one place for each stack of calls; they show what a process was in when it hung or died.

A finished run may be packed: then ``HOST.PID.spans.parquet``, with the columns ``start end payload site``,
stands in the place of that file. Rows that were never written are left out, and open calls are metadata. The
functions here read both forms.

Versions, as the title has them:

1. the first. Open calls were added to it later: in older files their places are 0, as in those of a
   process that is in no call.
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
"""Bytes of the largest chunk: small, since a hook waits while one is mapped and the last unmapped."""
OPEN = (HEADER - TITLE) // 8
"""How many open calls the title has room for."""
AT_ONCE = 1 << 18
"""Bytes that are read at once: as many as stay in a processor's cache until they are in columns."""
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
        """A view of the :data:`OPEN` places for open calls; None before the first chunk is mapped.

        It must be fetched before the second chunk replaces the first one. The view keeps it mapped.
        """
        if self._head is None and self._chunks == 1 and self._window is not None:
            self._head = memoryview(self._window.map)[TITLE:HEADER].cast("q")
        return self._head


# --- payloads and call sites ----------------------------------------------------------------------

ITEMS_BITS = 24
ITEMS = (1 << ITEMS_BITS) - 1
"""The most items that a payload holds, in its low bits. Tokens stand above them."""
TOKENS = (1 << 32) - 1
"""The most tokens that a payload holds."""

MEMORY = "memory"
"""The clock of sites whose rows record memory in use; ``device`` says of what (``host``, ``cuda:0``)."""
MEMORY_UNIT = 4096
_MEMORY_BITS = 31
_MOST_MEMORY = (1 << _MEMORY_BITS) - 1


def memory_payload(before: int, after: int) -> int:
    """The payload for the bytes in use at a region's start and end, in units of 4 KiB, up to 8 TiB each."""
    first, last = (min(max(n, 0) // MEMORY_UNIT, _MOST_MEMORY) for n in (before, after))
    return first << _MEMORY_BITS | last


def memory_of(payload: Any) -> tuple[Any, Any]:
    """The bytes before and after from a payload, or from an array of payloads, of :func:`memory_payload`."""
    first, last = payload >> _MEMORY_BITS, payload & _MOST_MEMORY
    return first * MEMORY_UNIT, last * MEMORY_UNIT


START = "start"
"""The kind of payload of a device's row: the start of the host's row that it belongs to."""

WAIT = "wait"
"""The region of being blocked in a function of the standard library, which the label of its site names."""
_GIVING = frozenset(
    [
        *("__next__", "as_completed", "communicate", "get", "next", "result", "result_iterator"),
        *("read", "readall", "readinto", "readv", "recv", "recv_bytes", "recv_bytes_into"),
        *("recv_into", "recvfrom", "recvfrom_into", "recvmsg"),
    ]
)
"""The names of functions among those that return what they waited for."""


def pack(items: int, tokens: int) -> int:
    """The payload for ``items`` and ``tokens``, each up to the most that a payload holds; 0 is unknown."""
    return min(max(items, 0), ITEMS) | min(max(tokens, 0), TOKENS) << ITEMS_BITS


def unpack(payload: Any) -> tuple[Any, Any]:
    """Items and tokens of a payload, or of an array of payloads; 0 is unknown."""
    return payload & ITEMS, payload >> ITEMS_BITS & TOKENS


def gives(label: object) -> bool:
    """Whether the function that a wait has as its label returns what it waited for, which may be a batch."""
    return str(label or "").rpartition(".")[2] in _GIVING


def updates(region: object, phase: object) -> bool:
    """Whether spans of this region and phase are updates of a model.

    These are the calls of optimizers, of compiled code that trains by itself, and the computation of
    gradients that the program applies by code of its own.
    """
    return region == "optimizer" or (region in ("compiled", "gradients") and phase == "train")


def is_loaders(object_id: object, selector: object) -> bool:
    """Whether the fetches (``io``) of a call site are a loader's, each of which may begin a step.

    A function that makes a batch (``get_batch``) has no object. It is called wherever a step needs a batch,
    more than once under accumulation, so something else paces those steps. That is also so of a ``__next__``
    of the program's own, which is known only once a step has been made (:mod:`injector.overseer.iterators`).
    Call sites of a program with too many loaders have no object either, but their ``selector`` ends with the
    method that an iterator is advanced with.
    """
    return object_id is not None or str(selector or "").endswith(("/__next__", "/__anext__"))


# --- the reader -----------------------------------------------------------------------------------


def rows(content: bytes) -> Iterator[Row]:
    """The rows in ``content``, without one in part at its end. A row that was never written has site 0."""
    numbers = memoryview(content)[: len(content) // ROW * ROW].cast("q")
    return zip(numbers[0::4], numbers[1::4], numbers[2::4], numbers[3::4], strict=True)


def blocks(path: str, at_once: int = AT_ONCE, until: int | None = None) -> Iterator[bytes]:
    """The rows of the file ``path`` as bytes, about ``at_once`` of whole rows at a time.

    The blocks of a packed file have any size. ``until`` is the offset at which to end, the file's size if
    None. A row in part at the end is left out. Raises as :func:`arrays`.
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
    """The rows of the file ``path`` that were written, in their order. Raises as :func:`arrays`."""
    for content in blocks(path, LARGEST):
        yield from (row for row in rows(content) if row[3])


def arrays(path: str) -> Iterator[Any]:
    """The rows of the file ``path``, packed or not, as arrays of int64, shape (n, 4).

    Rows that were never written have site 0. Raises OSError, ValueError if a packed file is damaged, and
    UserError if pyarrow is not installed.
    """
    import numpy as np

    # If neither is there, opening the file raises the error.
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
    except NotImplementedError as error:
        # A changed byte may name an encoding that pyarrow does not know.
        raise ValueError(str(error)) from None
    if read != file.metadata.num_rows:
        raise ValueError(f"{read} rows of {file.metadata.num_rows}")


def count(path: str) -> int:
    """The most rows that the file ``path`` can hold, packed or not; 0 if there is no such file."""
    try:
        return max(0, (os.path.getsize(path) - HEADER) // ROW)
    except OSError:
        return int(_parquet_file(path).metadata.num_rows) if is_packed(path) else 0


def opened(path: str) -> list[int]:
    """The numbers of the call sites that the process of the file ``path`` is in, or was in at its end.

    They are in no order; empty if there is no such file. Raises OSError, and UserError without pyarrow.
    """
    if os.path.exists(path):
        with open(path, "rb") as file:
            head = file.read(HEADER)[TITLE:]
        places = memoryview(head)[: len(head) // 8 * 8].cast("q")
        # All stacks beyond the number of places store into the first one, so it says nothing.
        return [site for site in places[1:] if site > 0]
    if not is_packed(path):
        return []
    return [int(n) for n in (_parquet_file(path).metadata.metadata or {}).get(_OPENED, b"").split()]


# --- packed ---------------------------------------------------------------------------------------

_OPENED = b"injector.opened"
"""The key of the metadata that holds the call sites of open calls."""
_ENCODING = dict.fromkeys(("start", "end", "payload"), "DELTA_BINARY_PACKED")
"""Times rise by little from row to row, so that their differences take a fraction of the room."""


def exists(path: str) -> bool:
    """Whether there is the file ``path``, packed or not."""
    return os.path.exists(path) or is_packed(path)


def packed_path(path: str) -> str:
    """The packed file that stands in the place of ``path``."""
    return path[: -len(SUFFIX)] + PACKED


def is_packed(path: str) -> bool:
    """Whether there is a packed file of ``path``."""
    return os.path.exists(packed_path(path))


def pack_file(path: str) -> None:
    """Write the packed form of ``path`` beside it, whole or not at all. Raises OSError, UserError."""
    parquet = _parquet()
    import pyarrow

    draft = f"{packed_path(path)}.{os.getpid()}.draft"
    metadata = {_OPENED: " ".join(map(str, opened(path))).encode()}
    schema = pyarrow.schema([(name, pyarrow.int64()) for name in COLUMNS], metadata=metadata)
    options: dict[str, Any] = {"compression": "zstd", "use_dictionary": ["site"]}
    # Without run.json, nothing but these checksums shows that a packed file was changed.
    options |= {"column_encoding": _ENCODING, "write_page_checksum": True}
    try:
        with parquet.ParquetWriter(draft, schema, **options) as writer:
            for block in arrays(path):
                written = block[block[:, 3] != 0]
                writer.write_table(pyarrow.table(list(written.T), schema=schema))
        os.replace(draft, packed_path(path))
    except BaseException as error:
        if os.path.exists(draft):
            os.unlink(draft)
        # An error of pyarrow has no file name, and its message is not the system's.
        if isinstance(error, OSError) and error.errno and not error.filename:
            raise OSError(error.errno, os.strerror(error.errno), packed_path(path)) from None
        raise


def _parquet_file(path: str) -> Any:
    """The packed file of ``path``, opened. Raises as :func:`arrays`."""
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
    """Whether the run in ``folder`` has files of spans so far."""
    try:
        names = os.listdir(os.path.join(folder, "raw"))
    except OSError:
        return False
    return any(name.endswith((SUFFIX, PACKED)) for name in names)
