"""The raw files of a run, read as they grow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..store import logs, monitor, spans
from ..store.event import LOG
from ..store.mapped import HEADER

AT_ONCE = 1 << 22
"""Bytes read of one file in one turn: a follower that comes late catches up in several."""


class NewSpans(NamedTuple):
    """New rows of a process: start, end (ns of the monotonic clock), payload, site."""

    process: str
    rows: list[spans.Row]


class NewRecord(NamedTuple):
    """A new record of a process."""

    process: str
    event: str
    data: Any
    t: int
    """Nanoseconds of the monotonic clock of its host."""


class NewSample(NamedTuple):
    """A new record of the monitor whose file has that name."""

    monitor: str
    sample: monitor.Sample


class Follower:
    """Reads what is new in the raw files of the run in ``folder``, at each :meth:`poll`.

    Records of a log come in order, and before the spans that were written after them.
    """

    def __init__(self, folder: str) -> None:
        self.raw = os.path.join(folder, "raw")
        """Where they are."""
        self._files: dict[str, _File] = {}

    @property
    def behind(self) -> bool:
        """Whether more than it reads in one turn was new in some file the last time."""
        return any(file.behind for file in self._files.values())

    def poll(self) -> Iterator[NewRecord | NewSample | NewSpans]:
        """What was written since the last time."""
        # Before the logs are read: a site that these rows name is in the log by then.
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
        found = self._files.get(name)
        if found is None:
            found = self._files[name] = _File(os.path.join(self.raw, name), start)
        return found


def _process(name: str) -> str:
    return name.rpartition(".")[0]


class _File:
    """One growing file. It is never held open: a folder may be on its way out."""

    def __init__(self, path: str, start: int) -> None:
        self._path = path
        self._at = start
        self._unwritten = 0
        self.behind = False
        """Whether it had more that was new than is read at once."""

    def _read(self) -> bytes:
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
        """New whole lines. What follows them is NUL, or a line that is being written."""
        content = self._read()
        end = content.rfind(b"\n") + 1
        self.behind = end > 0 and len(content) == AT_ONCE
        self._at += end
        return [line.strip(b"\0 ") for line in content[:end].split(b"\n") if line.strip(b"\0 ")]

    def rows(self) -> list[spans.Row]:
        """New whole rows, up to one that is still being written."""
        content = self._read()
        found = list(spans.rows(content))
        while found and not found[-1][3]:
            found.pop()
        rows, taken = [row for row in found if row[3]], len(found)
        unwritten = taken - len(rows)
        # A row before others that is not there yet belongs to a thread that is just writing it: it is
        # waited for once, and given up then.
        if unwritten and unwritten != self._unwritten:
            self._unwritten = unwritten
            taken = next(at for at, row in enumerate(found) if not row[3])
            rows = rows[:taken]
        else:
            self._unwritten = 0
        self.behind = taken > 0 and len(content) == AT_ONCE
        self._at += taken * spans.ROW
        return rows
