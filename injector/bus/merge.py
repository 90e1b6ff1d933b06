"""The raw files of a run as one stream in the order of time; the monitor's samples in milabench's form."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Mapping, Sequence

from ..named_tuple import NamedTuple
from ..store import monitor, series, spans
from ..store.logs import CHUNK, Log, logs_of, series_files
from .steps import MOST, Steps

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

MIB = 1 << 20
FEW = 64
"""Processes beyond which less of each log, and
"""
SEVERAL = 256
"""beyond which fewer groups of steps of each are in memory at once: of all together no more than of these."""


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
        number, values = len(self.logs), series_files(self.folder)
        at_once = CHUNK * FEW // max(number, FEW)
        most = MOST * SEVERAL // max(number, SEVERAL) // 2 * 2
        for index, log in enumerate(self.logs):
            streams.append(_rising(_events(log, index, at_once)))
            streams.append(_rising(_steps(log, index, max(most, 2))))
            streams += [_rising(_values(log, path, index)) for path in values.get(log.stem, ())]
        return (record for _, _, _, record in heapq.merge(*streams, key=_moment))


def _events(log: Log, index: int, at_once: int) -> Iterator[Record]:
    clock = log.clock
    for record in log.records(at_once):
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


def _steps(log: Log, index: int, most: int) -> Iterator[Record]:
    """Its steps as records, of each task at most so many; all its spans are counted."""
    path = log.stem + spans.SUFFIX
    if not os.path.exists(path) and not spans.is_packed(path):
        return
    found = Steps(path, log.path, most)
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


# --- what stands beside the processes' logs ---------------------------------------------------------


class StreamEvent(NamedTuple):
    """One event of the run's stream."""

    time: float
    """Unix seconds."""
    event: str
    data: Any


def sent(path: str) -> Iterator[StreamEvent]:
    """What the program itself has sent (see :mod:`.inbox`), by when it came. Raises OSError."""
    log = Log(path)
    for record in log.records():
        time, data = log.clock.at(record.get("t")), record.get("data")
        yield StreamEvent(
            time, record["event"], {"time": time, **data} if isinstance(data, dict) else data
        )


def monitor_events(log: Log) -> Iterator[StreamEvent]:
    """The samples of one monitor in the order of time, as milabench's readers know them. Raises OSError."""
    cores = None
    for event, time, data, _ in monitor.samples(log):
        if event == monitor.DEVICES:
            yield _at(time, gpudata={key: _device(state) for key, state in data.items()})
        elif event == monitor.HOST:
            yield from _host(time, cores, data)
            cores = data.get("cores")
        elif event == monitor.TREE:
            yield _at(time, process=_tree(data.get("processes") or []))


def _at(time: float, **data: Any) -> StreamEvent:
    return StreamEvent(time, "data", {"task": "main", "time": time, **data})


def _device(state: dict[str, Any]) -> dict[str, Any]:
    """Memory in MiB, load 0…1, °C, W: milabench's units."""
    found: dict[str, Any] = {
        "memory": [state.get("memory_used", 0) / MIB, state.get("memory_total", 0) / MIB],
    }
    for ours in ("load", "temperature", "power"):
        if ours in state:
            found[ours] = state[ours]
    return found


def _host(time: float, before: Any, data: dict[str, Any]) -> Iterator[StreamEvent]:
    memory, load = data.get("memory") or {}, monitor.cpu_load(before, data.get("cores"))
    if load is not None:
        used = [memory.get("used", 0), memory.get("total", 0)]
        yield _at(time, cpudata={"memory": used, "load": 100 * load})
    if "nets" in data:
        sent, received = _sums(data["nets"])
        yield _at(time, netdata={"bytes_sent": sent, "bytes_recv": received})
    if "disks" in data:
        read, written = _sums(data["disks"])
        yield _at(time, iodata={"read_bytes": read, "write_bytes": written})


def _sums(counters: dict[str, list[int]]) -> tuple[int, int]:
    return sum(pair[0] for pair in counters.values()), sum(pair[1] for pair in counters.values())


def _tree(processes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "pids": [each.get("pid") for each in processes],
        "cpu": sum(each.get("cpu", 0.0) for each in processes),
        "memory": sum(each.get("rss", 0) for each in processes),
        "threads": sum(each.get("threads", 0) for each in processes),
    }
