"""The raw files of a run, read as they grow.

The files are mapped by the processes that write them (:mod:`..store.mapped`), so a reader sees each byte as
soon as it is stored: lines and rows in part, and NUL where nothing was written yet. A :class:`Follower`
polls; nothing informs it of changes, which would not work across machines that share a folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..store import logs, monitor, spans
from ..store.event import LOG
from ..store.mapped import HEADER

AT_ONCE = 1 << 22
"""The most bytes read of one file in one poll. A follower that comes late catches up in several."""


class NewSpans(NamedTuple):
    """New rows of a process: start, end (ns of the monotonic clock), payload, site."""

    process: str
    """The name of its files without suffix, ``HOST.PID``, as in the next."""
    rows: list[spans.Row]


class NewRecord(NamedTuple):
    """A new record of a process."""

    process: str
    event: str
    data: Any
    t: int
    """Nanoseconds of the monotonic clock of its host."""


class NewSample(NamedTuple):
    """A new sample of a monitor."""

    monitor: str
    """The name of its file without suffix."""
    sample: monitor.Sample


class Follower:
    """Reads what is new in the raw files of the run in ``folder``, at each :meth:`poll`.

    The records of a log come in their order, and before the spans that were written after them.
    """

    def __init__(self, folder: str) -> None:
        self.raw = os.path.join(folder, "raw")
        """The folder of the files."""
        self._files: dict[str, _File] = {}

    @property
    def behind(self) -> bool:
        """Whether the last poll left something new in a file, as there was more than is read at once."""
        return any(file.behind for file in self._files.values())

    def poll(self) -> Iterator[NewRecord | NewSample | NewSpans]:
        """What was written since the last poll."""
        # Spans are read before the logs: when a row is there, its site has been written to the log.
        names = [name for name in self._names() if name.endswith(spans.SUFFIX)]
        grown = {name: self._file(name, HEADER).rows() for name in names}
        for name in self._names():
            if name.endswith(LOG):
                yield from self._records(name)
            elif name.endswith(monitor.SUFFIX):
                yield from self._samples(name)
        for name, rows in grown.items():
            if rows:
                yield NewSpans(_process(name), rows)

    def _records(self, name: str) -> Iterator[NewRecord]:
        for line in self._file(name, 0).lines():
            record = logs.parse(line)  # a truncated one is counted by the collector
            if record is not None:
                t = record.get("t")
                moment = t if type(t) is int else 0
                yield NewRecord(_process(name), record["event"], record.get("data"), moment)

    def _samples(self, name: str) -> Iterator[NewSample]:
        for line in self._file(name, 0).lines():
            record = logs.parse(line)
            sample = None if record is None else monitor.sample_of(record)
            if sample is not None:
                yield NewSample(_process(name), sample)

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self.raw))
        except OSError:
            return []

    def _file(self, name: str, start: int) -> _File:
        """The file with that name, which is read from the offset ``start`` on."""
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = _File(os.path.join(self.raw, name), start)
        return file


def _process(name: str) -> str:
    """The name of a file without suffix."""
    return name.rpartition(".")[0]


class _File:
    """One growing file. It is not kept open, so that the folder can be removed meanwhile."""

    def __init__(self, path: str, start: int) -> None:
        self._path = path
        self._at = start
        """The offset of what is read next."""
        self._unwritten = 0
        """The number of unwritten rows before written ones, at the last read."""
        self.behind = False
        """Whether there was more new than is read at once."""

    def _read(self) -> bytes:
        """The next bytes; none if the file is gone."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.pread(fd, AT_ONCE, self._at)
        except OSError:
            return b""
        finally:
            os.close(fd)

    def lines(self) -> list[bytes]:
        """The new whole lines. What follows them is NUL, or a line that is being written."""
        content = self._read()
        end = content.rfind(b"\n") + 1
        self.behind = end > 0 and len(content) == AT_ONCE
        self._at += end
        return [line.strip(b"\0 ") for line in content[:end].split(b"\n") if line.strip(b"\0 ")]

    def rows(self) -> list[spans.Row]:
        """The new rows, up to one that is still being written."""
        content = self._read()
        read = list(spans.rows(content))
        while read and not read[-1][3]:
            read.pop()
        rows, consumed = [row for row in read if row[3]], len(read)
        unwritten = consumed - len(rows)
        # An unwritten row before written ones belongs to a thread that is just storing it. It is waited for
        # once. If it is still unwritten then, the thread was ended, and the row is given up.
        if unwritten and unwritten != self._unwritten:
            self._unwritten = unwritten
            consumed = next(at for at, row in enumerate(read) if not row[3])
            rows = rows[:consumed]
        else:
            self._unwritten = 0
        self.behind = consumed > 0 and len(content) == AT_ONCE
        self._at += consumed * spans.ROW
        return rows
