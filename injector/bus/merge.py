"""The raw files of a run's processes as one stream in the order of time."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..store import series, spans
from ..store.logs import Log, logs_of
from .steps import Steps


class Record(NamedTuple):
    """One record of one process."""

    time: float
    """Unix time, seconds."""
    process: int
    """Which of :attr:`Merged.logs` it came from."""
    event: str
    data: Any


class Merged:
    """Every raw file of the run in ``folder``, in the order in which the processes began.

    ``known`` is what run.json says of them, where it says that: then the order is its own.
    """

    def __init__(self, folder: str, known: Sequence[Mapping[str, Any]] = ()) -> None:
        self.folder = folder
        self.logs = logs_of(folder, known)

    def records(self) -> Iterator[Record]:
        """All records by time; those of one process stay in the order in which it made them."""
        streams = []
        for index, log in enumerate(self.logs):
            streams.append(_rising(_events(log, index)))
            streams.append(_rising(_steps(log, index)))
            streams += [_rising(_values(log, path, index)) for path in log.series()]
        return (record for _, _, _, record in heapq.merge(*streams, key=_moment))


def _events(log: Log, index: int) -> Iterator[Record]:
    clock = log.clock
    for record in log.records():
        when = clock.at(record.get("t"))
        log.last = max(log.last, when)
        yield Record(when, index, record["event"], record.get("data"))


def _values(log: Log, path: str, index: int) -> Iterator[Record]:
    """The values of one of its series."""
    unix, monotonic = log.clock
    name, values = series.read(path)
    for seconds, value in values:
        log.count += 1
        when = unix + (seconds - monotonic / 1e9)
        log.last = max(log.last, when)
        yield Record(when, index, "value", {"series": name, "value": value})


def _steps(log: Log, index: int) -> Iterator[Record]:
    """Its steps as records; all its spans are counted."""
    path = log.stem + spans.SUFFIX
    if not os.path.exists(path):
        return
    found = Steps(path, log.path)
    log.count += found.rows
    if found.last:
        log.last = max(log.last, log.clock.at(found.last))
    for end, data in found.events():
        yield Record(log.clock.at(end), index, "data", data)


def _rising(records: Iterator[Record]) -> Iterator[tuple[float, int, int, Record]]:
    """``records`` under a key that never falls: threads may overtake each other on their way in."""
    latest = float("-inf")
    for number, record in enumerate(records):
        latest = max(latest, record.time)
        yield latest, record.process, number, record


def _moment(entry: tuple[float, int, int, Record]) -> tuple[float, int]:
    return entry[:2]
