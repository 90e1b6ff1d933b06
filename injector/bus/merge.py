"""The raw files of a run as one stream in the order of time; the monitor's samples in milabench's form."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..named_tuple import NamedTuple
from ..store import monitor, series, spans
from ..store.event import SENT, line_of
from ..store.logs import CHUNK, Log, files, logs_of, series_files
from ..store.monitor import monitor_logs
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
    """One record of a process, or of what stands beside their logs."""

    time: float
    """Unix time, seconds."""
    event: str
    data: Any
    process: int | None = None
    """Which of :attr:`Merged.logs` it came from; None of what stands beside them."""


Entry = tuple[float, int, int, int, "Record | bytes"]
"""Time, log (or what stands beside the logs), file, number within the file; then a record, or its line as
it stands in the stream. The numbers settle the order of what happened at one time."""


class Merged:
    """Every raw file of the run in ``folder``, in the order in which the processes began.

    ``known`` is what run.json says of them, where it says that: then the order is its own.
    """

    def __init__(self, folder: str, known: Sequence[Mapping[str, Any]] = ()) -> None:
        self.folder = folder
        self.logs = logs_of(folder, known)

    def entries(self) -> Iterator[Entry]:
        """All records by time; those of one process stay in the order in which it made them."""
        number, values = len(self.logs), series_files(self.folder)
        at_once = CHUNK * FEW // max(number, FEW)
        most = MOST * SEVERAL // max(number, SEVERAL) // 2 * 2
        streams: list[Iterator[Entry]] = []
        for index, log in enumerate(self.logs):
            for records in (_events(log, index, at_once), _steps(log, index, max(most, 2))):
                streams.append(_rising(records, index, len(streams)))
            for path in values.get(log.stem, ()):
                streams.append(_values(log, path, (index, len(streams)), number > 1))
        beside = map(monitor_events, monitor_logs(self.folder))
        for index, records in enumerate((*beside, *map(_sent, files(self.folder, SENT))), number):
            streams.append(_rising(records, index, len(streams)))
        return heapq.merge(*streams)


def _events(log: Log, index: int, at_once: int) -> Iterator[Record]:
    clock = log.clock
    for record in log.records(at_once):
        when = clock.at(record.get("t"))
        log.last = max(log.last, when)
        yield Record(when, record["event"], record.get("data"), index)


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
        yield Record(log.clock.at(end), "data", data, index)


def _rising(records: Iterable[Record], process: int, file: int) -> Iterator[Entry]:
    """``records`` under a time that never falls: threads may overtake each other on their way in."""
    latest = float("-inf")
    for number, record in enumerate(records):
        latest = max(latest, record.time)
        yield latest, process, file, number, record


def _values(log: Log, path: str, place: tuple[int, int], several: bool) -> Iterator[Entry]:
    """The values of one of its series, whose log and file are ``place``.

    There may be millions of them: each is put into the line that all of its series share.
    """
    unix, monotonic, drift = log.clock
    name, values = series.read(path)
    index, file = place
    shared = _shared_line(name, index if several else None)
    started, latest, number = monotonic / 1e9, float("-inf"), 0
    try:
        for seconds, value in values:
            number += 1
            when = unix + (seconds - started)
            if drift is not None:
                when += drift.at(round(seconds * 1e9))
            if when > latest:
                latest = when
            if shared and value - value == 0.0:  # finite
                yield latest, index, file, number, shared % (value, when)
            else:
                record = Record(when, "value", {"series": name, "value": value}, index)
                yield latest, index, file, number, record
    finally:
        log.count += number
        log.last = max(log.last, latest)


def _shared_line(series: str, process: int | None) -> bytes:
    """What :func:`in_stream` makes of each value of ``series``, with two gaps: for value and time.

    Empty for a series whose name is that of something else in the line.
    """
    task, _, key = series.rpartition("/")
    if key in ("task", "time", "process"):
        return b""
    before, name = (line_of(text)[:-1].replace(b"%", b"%%") for text in (task, key))
    where = b'"task":%s,' % before if task else b""
    after = b"" if process is None else b',"process":%d' % process
    return b'{"event":"data","data":{%s%s:%%a,"time":%%a%s},"pipe":"data"}\n' % (where, name, after)


def in_stream(record: Record, several: bool) -> dict[str, Any]:
    """``record`` as an event of the run's stream: with its time and, where there are several, its process."""
    data = record.data
    if record.event == "value" and isinstance(data, dict):
        task, _, key = str(data.get("series")).rpartition("/")
        step = {} if data.get("step") is None else {"batch_id": data["step"]}
        data = {**({"task": task} if task else {}), **step, key: data.get("value")}
    if isinstance(data, dict) and record.process is not None:
        origin = {"process": record.process} if several else {}
        data = {**data, "time": data.get("time", record.time), **origin}
    event = "data" if record.event == "value" else record.event
    return {"event": event, "data": data, "pipe": "data"}


# --- what stands beside the processes' logs ---------------------------------------------------------


def _sent(path: str) -> Iterator[Record]:
    """What the program itself has sent (see :mod:`.inbox`), by when it came. Raises OSError."""
    log = Log(path)
    for record in log.records():
        time, data = log.clock.at(record.get("t")), record.get("data")
        yield Record(
            time, record["event"], {"time": time, **data} if isinstance(data, dict) else data
        )


def monitor_events(log: Log) -> Iterator[Record]:
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


def _at(time: float, **data: Any) -> Record:
    return Record(time, "data", {"task": "main", "time": time, **data})


def _device(state: dict[str, Any]) -> dict[str, Any]:
    """Memory in MiB, load 0…1, °C, W: milabench's units."""
    found: dict[str, Any] = {
        "memory": [state.get("memory_used", 0) / MIB, state.get("memory_total", 0) / MIB],
    }
    for ours in ("load", "temperature", "power"):
        if ours in state:
            found[ours] = state[ours]
    return found


def _host(time: float, before: Any, data: dict[str, Any]) -> Iterator[Record]:
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
