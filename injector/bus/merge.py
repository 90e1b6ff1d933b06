"""The raw files of a run's processes as one stream in the order of time."""

from __future__ import annotations

import errno
import heapq
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..store import series, spans
from ..store.folder import Damage, check_schema, read_records
from .steps import Steps


class Record(NamedTuple):
    """One record of one process."""

    time: float
    """Unix time, seconds."""
    process: int
    """Which of :attr:`Merged.logs` it came from."""
    event: str
    data: Any


class RawLog:
    """One process's raw file. Counts are complete once it was read to its end."""

    def __init__(self, path: str, known: Mapping[str, Any] | None = None) -> None:
        """``known`` is what run.json says of the process, for a log that has lost its beginning."""
        self.path = path
        self.damage = Damage()
        self.records = 0
        self.lost = 0
        self.why = ""
        self.last = 0.0
        """The latest moment that it tells of, unix seconds."""
        self.process = self._first(known)

    def _first(self, known: Mapping[str, Any] | None) -> dict[str, Any]:
        record = next(read_records(self.path, Damage()), {})
        data = record.get("data")
        if record.get("event") == "process" and isinstance(data, dict):
            check_schema(data.get("schema"), self.path)
            return data
        if known is not None:
            return dict(known)
        host, _, pid = os.path.basename(self.path)[: -len(".log")].rpartition(".")
        return {"host": host, "pid": int(pid) if pid.isdecimal() else None}

    @property
    def clock(self) -> tuple[float, int] | None:
        """A moment in unix seconds and in nanoseconds of the monotonic clock.

        None of a process that ended before its first record: its log is empty.
        """
        time, monotonic = self.process.get("time"), self.process.get("monotonic_ns")
        return None if not time or monotonic is None else (float(time), int(monotonic))

    def read(self, index: int, clock: tuple[float, int]) -> Iterator[Record]:
        """Its records, timed by ``clock``, without those that only the file itself needs."""
        unix, monotonic = clock
        for record in read_records(self.path, self.damage):
            event, data = record["event"], record.get("data")
            if event == "lost":
                self._note_lost(data)
                continue
            self.records += 1
            if event != "process":
                t = record.get("t")
                when = unix + ((t if isinstance(t, int) else monotonic) - monotonic) / 1e9
                self.last = max(self.last, when)
                yield Record(when, index, event, data)

    def values(self, path: str, index: int, clock: tuple[float, int]) -> Iterator[Record]:
        """The records of one of its series, timed by ``clock``."""
        unix, monotonic = clock
        name, values = series.read(path)
        for seconds, value in values:
            self.records += 1
            data = {"series": name, "value": value}
            when = unix + (seconds - monotonic / 1e9)
            self.last = max(self.last, when)
            yield Record(when, index, "value", data)

    def steps(self, index: int, clock: tuple[float, int]) -> Iterator[Record]:
        """Its steps as records, timed by ``clock``; all its spans are counted."""
        unix, monotonic = clock
        path = self.path[: -len(".log")] + spans.SUFFIX
        if not os.path.exists(path):
            return
        found = Steps(path, self.path)
        self.records += found.rows
        if found.last:
            self.last = max(self.last, unix + (found.last - monotonic) / 1e9)
        for end, data in found.events():
            yield Record(unix + (end - monotonic) / 1e9, index, "data", data)

    def series(self) -> list[str]:
        """The files of its series."""
        folder, name = os.path.split(self.path)
        stem = name[: -len("log")]
        numbered = [
            (int(number), other)
            for other in os.listdir(folder)
            if other.startswith(stem)
            and other.endswith(series.SUFFIX)
            and (number := other[len(stem) : -len(series.SUFFIX)]).isdecimal()
        ]
        return [os.path.join(folder, other) for _, other in sorted(numbered)]

    def _note_lost(self, data: Any) -> None:
        lost = data.get("records", 0) if isinstance(data, dict) else 0
        if isinstance(lost, int) and lost > self.lost:
            self.lost = lost
            name = str(data.get("why", "")).strip()
            number = getattr(errno, name, None)
            self.why = os.strerror(number) if isinstance(number, int) else name


class Merged:
    """Every raw file of the run in ``folder``, in the order in which the processes began.

    ``known`` is what run.json says of them, where it says that: then the order is its own.
    """

    def __init__(self, folder: str, known: Sequence[Mapping[str, Any]] = ()) -> None:
        self.folder = folder
        raw = os.path.join(folder, "raw")
        try:
            names = sorted(name for name in os.listdir(raw) if name.endswith(".log"))
        except OSError:
            names = []
        if known:
            logs = [RawLog(os.path.join(raw, str(each["log"])), each) for each in known]
        else:
            logs = [RawLog(os.path.join(raw, name)) for name in names]
        # Processes of one host share a monotonic clock, so one tie to unix time, the first that was
        # made, orders them rightly even when the wall clock jumped between their starts.
        self.ties: dict[object, tuple[float, int]] = {}
        """By host, a moment in unix seconds and in nanoseconds of its monotonic clock."""
        clocks = [(log.clock, log.process.get("host")) for log in logs]
        for clock, host in sorted(((c, h) for c, h in clocks if c), key=lambda each: each[0][1]):
            self.ties.setdefault(host, clock)
        self.logs = logs if known else sorted(logs, key=lambda log: (self._began(log), log.path))

    def _began(self, log: RawLog) -> float:
        """Unix seconds; a process that recorded nothing comes last."""
        if log.clock is None:
            return float("inf")
        unix, monotonic = self.ties[log.process.get("host")]
        return unix + (log.clock[1] - monotonic) / 1e9

    def records(self) -> Iterator[Record]:
        """All records by time; those of one process stay in the order in which it made them."""
        streams = []
        for index, log in enumerate(self.logs):
            clock = self.ties.get(log.process.get("host"), (0.0, 0))
            streams.append(_rising(log.read(index, clock)))
            streams.append(_rising(log.steps(index, clock)))
            streams += [_rising(log.values(path, index, clock)) for path in log.series()]
        return (record for _, _, _, record in heapq.merge(*streams, key=_moment))


def _rising(records: Iterator[Record]) -> Iterator[tuple[float, int, int, Record]]:
    """``records`` under a key that never falls: threads may overtake each other on their way in."""
    latest = float("-inf")
    for number, record in enumerate(records):
        latest = max(latest, record.time)
        yield latest, record.process, number, record


def _moment(entry: tuple[float, int, int, Record]) -> tuple[float, int]:
    return entry[:2]
