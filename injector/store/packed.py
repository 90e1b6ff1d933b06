"""The spans of a finished run in less room: Parquet in the place of the files that were written live.

``HOST.PID.spans`` becomes ``HOST.PID.spans.parquet`` with the columns ``start end payload site``. What
was never written is left out; all else stays as it was, so whoever reads rows reads the same. The sites
of calls that never ended are kept as metadata.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ..errors import UserError
from .folder import read_info, write_info
from .layout import SPANS_COLUMNS, SPANS_HEADER, SPANS_ROW, SPANS_SUFFIX, SPANS_TITLE
from .seal import flaws, names, seal

SUFFIX = SPANS_SUFFIX + ".parquet"
NAMES = ("start", "end", "payload", "site")
_AT_ONCE = 1 << 20
"""Rows; a large file is never in memory twice."""


def packed_path(path: str) -> str:
    """Where the spans of the raw file ``path`` lie once they are packed."""
    return path[: -len(SPANS_SUFFIX)] + SUFFIX


def count(path: str) -> int:
    """The most rows that the spans file ``path`` holds, packed or not; 0 where there is none."""
    try:
        return max(0, (os.path.getsize(path) - SPANS_HEADER) // SPANS_ROW)
    except OSError:
        pass
    if not os.path.exists(packed_path(path)):
        return 0
    rows: int = _parquet().ParquetFile(packed_path(path)).metadata.num_rows
    return rows


def opened(path: str) -> list[int]:
    """The sites of the calls that the process whose spans are in ``path`` is in, or was in at its end.

    In no order; nothing where there is no such file. Raises OSError, and UserError where Parquet cannot
    be read.
    """
    if os.path.exists(path):
        return _open_sites(path)
    if not os.path.exists(packed_path(path)):
        return []
    metadata = _parquet().ParquetFile(packed_path(path)).metadata.metadata or {}
    return [int(site) for site in metadata.get(_OPENED, b"").split()]


def _open_sites(path: str) -> list[int]:
    with open(path, "rb") as file:
        head = file.read(SPANS_HEADER)[SPANS_TITLE:]
    numbers = memoryview(head)[: len(head) // 8 * 8].cast("q")
    return [site for site in numbers[1:] if site > 0]  # the first place is everybody's


def blocks(path: str) -> Iterator[Any]:
    """The rows of the spans file ``path`` as arrays of int64, shape (n, 4); unwritten ones have site 0.

    Raises OSError, ValueError where a packed file is none, and UserError where Parquet cannot be read.
    """
    if os.path.exists(path) or not os.path.exists(packed_path(path)):
        yield from _raw_blocks(path)
        return
    import numpy as np

    for batch in _parquet().ParquetFile(packed_path(path)).iter_batches(_AT_ONCE, columns=NAMES):
        yield np.stack([column.to_numpy() for column in batch.columns], axis=1)


def _raw_blocks(path: str) -> Iterator[Any]:
    import numpy as np

    room = count(path)
    for first in range(0, room, _AT_ONCE):
        block = np.fromfile(
            path,
            dtype=np.int64,
            count=min(_AT_ONCE, room - first) * SPANS_COLUMNS,
            offset=SPANS_HEADER + first * SPANS_ROW,
        )
        yield block[: len(block) // SPANS_COLUMNS * SPANS_COLUMNS].reshape(-1, SPANS_COLUMNS)


def pack(folder: str) -> tuple[int, int]:
    """Pack every file of spans of the run in ``folder``; its size in bytes before and after.

    Files are replaced when the packed form of all is whole. Raises UserError for a run that has not
    ended, that is damaged, or that a later version wrote; OSError.
    """
    info = read_info(folder)
    if not info:
        raise UserError(
            f"{folder}: this run still goes on, or was never collected: it cannot be packed"
        )
    found = flaws(folder, info.get("files") or {}) if "files" in info else []
    if found:
        said = "; ".join(flaw.sentence for flaw in found[:3])
        raise UserError(f"{folder}: this run is damaged and cannot be packed: {said}")
    paths = [os.path.join(folder, name) for name in names(folder) if name.endswith(SPANS_SUFFIX)]
    for path in paths:
        _pack_file(path)
    if paths and "files" in info:
        kept = {k: v for k, v in info["files"].items() if not k.endswith(SPANS_SUFFIX)}
        new = [os.path.relpath(packed_path(path), folder) for path in paths]
        write_info(folder, {**info, "files": {**kept, **seal(folder, new)}})
    before = sum(os.path.getsize(path) for path in paths)
    for path in paths:
        os.unlink(path)
    return before, sum(os.path.getsize(packed_path(path)) for path in paths)


def _pack_file(path: str) -> None:
    pyarrow, parquet = _arrow(), _parquet()
    draft = f"{packed_path(path)}.{os.getpid()}.draft"
    metadata = {_OPENED: " ".join(map(str, _open_sites(path))).encode()}
    schema = pyarrow.schema([(name, pyarrow.int64()) for name in NAMES], metadata=metadata)
    try:
        # Times rise by little from row to row: differences take a fraction of the room.
        how = {"compression": "zstd", "use_dictionary": ["site"], "column_encoding": _ENCODING}
        with parquet.ParquetWriter(draft, schema, **how) as writer:
            for block in _raw_blocks(path):
                written = block[block[:, 3] != 0]
                columns = [written[:, at] for at in range(SPANS_COLUMNS)]
                writer.write_table(pyarrow.table(columns, schema=schema))
        os.replace(draft, packed_path(path))
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


_OPENED = b"injector.opened"
_ENCODING = dict.fromkeys(("start", "end", "payload"), "DELTA_BINARY_PACKED")


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise UserError("packed runs need pyarrow: pip install 'overlay-injector[query]'") from None
    return pyarrow


def _parquet() -> Any:
    _arrow()
    from pyarrow import parquet

    return parquet
