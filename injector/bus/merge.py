"""The raw files of a run as one stream in the order of time; the monitor's samples in milabench's form.

:class:`Merged` reads all files side by side and merges them with a heap, so that a run of any length takes
bounded memory. The sources are, for each process, its log, its steps (summed up from its spans,
:mod:`.steps`) and its series of values, and beside these what the program itself sent and the monitors'
samples.
"""

from __future__ import annotations

import heapq
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
"""Up to this number of processes, :data:`.CHUNK` bytes of each log are in memory at once. More share as much
as that is together.
"""
SEVERAL = 256
"""Up to this number of processes, :data:`.MOST` groups of steps of each are in memory at once. More share as
many as that is together.
"""


class Record(NamedTuple):
    """One record of a process, or of a file beside the logs: a monitor's, or one of what the program sent."""

    time: float
    """Unix time, seconds."""
    event: str
    data: Any
    process: int | None = None
    """The index in :attr:`Merged.logs` of the log that it came from; None for a file beside the logs."""


Entry = tuple[float, int, int, int, "Record | bytes"]
"""Unix seconds, index of the log (or of a file beside the logs), index of the file, number within the file;
then a record, or the line that it becomes in the stream. The numbers are there to order entries of one time,
so that the heap never compares records.
"""


class Merged:
    """All raw files of the run in ``folder``. Its processes are in the order in which they began.

    ``known`` are the processes in ``run.json``, if there is one: then the order is theirs.
    """

    def __init__(self, folder: str, known: Sequence[Mapping[str, Any]] = ()) -> None:
        self.folder = folder
        self.logs = logs_of(folder, known)

    def entries(self) -> Iterator[Entry]:
        """All records by time. Those of one file stay in the order in which they were written."""
        count, values = len(self.logs), series_files(self.folder)
        at_once = CHUNK * FEW // max(count, FEW)
        most = MOST * SEVERAL // max(count, SEVERAL) // 2 * 2  # an even number, as Task needs it
        streams: list[Iterator[Entry]] = []
        for index, log in enumerate(self.logs):
            for records in (_events(log, index, at_once), _steps(log, index, max(most, 2))):
                streams.append(_rising(records, index, len(streams)))
            for path in values.get(log.stem, ()):
                streams.append(_values(log, path, (index, len(streams)), count > 1))
        beside = map(monitor_events, monitor_logs(self.folder))
        for index, records in enumerate((*beside, *map(_sent, files(self.folder, SENT))), count):
            streams.append(_rising(records, index, len(streams)))
        return heapq.merge(*streams)


def _events(log: Log, index: int, at_once: int) -> Iterator[Record]:
    """The records of a log, ``at_once`` bytes of it in memory at a time."""
    clock = log.clock
    for record in log.records(at_once):
        when = clock.at(record.get("t"))
        log.last = max(log.last, when)
        yield Record(when, record["event"], record.get("data"), index)


def _steps(log: Log, index: int, most: int) -> Iterator[Record]:
    """The steps of a process as records, at most ``most`` of each task. All of its spans count as records."""
    path = log.stem + spans.SUFFIX
    if not spans.exists(path):
        return
    steps = Steps(path, log.path, most)
    log.count += steps.rows
    if steps.last:
        log.last = max(log.last, log.clock.at(steps.last))
    for end, data in steps.events():
        yield Record(log.clock.at(end), "data", data, index)


def _rising(records: Iterable[Record], process: int, file: int) -> Iterator[Entry]:
    """``records`` as entries whose times never fall, as ``heapq.merge`` needs them.

    A thread takes the time of its record before it gets the writer's lock, so another may be written first.
    """
    latest = float("-inf")
    for number, record in enumerate(records):
        latest = max(latest, record.time)
        yield latest, process, file, number, record


def _values(log: Log, path: str, place: tuple[int, int], several: bool) -> Iterator[Entry]:
    """The values of one series of a process. ``place`` is the index of its log and that of its file.

    A series may have millions of values. So each finite one becomes a line of the stream at once, from a
    template (:func:`_shared_line`), rather than a record.
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
        # Also if the reader stops early or the file is cut: what was read counts.
        log.count += number
        log.last = max(log.last, latest)


def _shared_line(series: str, process: int | None) -> bytes:
    """The line that :func:`in_stream` makes of each value of ``series``, with ``%a`` for value and time.

    Empty for a series that is named like another key of the line, which would stand in it twice.
    """
    task, _, key = series.rpartition("/")
    if key in ("task", "time", "process"):
        return b""
    before, name = (line_of(text)[:-1].replace(b"%", b"%%") for text in (task, key))
    where = b'"task":%s,' % before if task else b""
    after = b"" if process is None else b',"process":%d' % process
    return b'{"event":"data","data":{%s%s:%%a,"time":%%a%s},"pipe":"data"}\n' % (where, name, after)


def in_stream(record: Record, several: bool) -> dict[str, Any]:
    """``record`` as an event of the run's stream, with its time and, if the run has ``several`` processes,
    the index of its own.
    """
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


# --- files beside the processes' logs ---------------------------------------------------------------


def _sent(path: str) -> Iterator[Record]:
    """The records that the program itself sent (:mod:`.inbox`), by when they came. Raises OSError."""
    log = Log(path)
    for record in log.records():
        time, data = log.clock.at(record.get("t")), record.get("data")
        yield Record(
            time, record["event"], {"time": time, **data} if isinstance(data, dict) else data
        )


def monitor_events(log: Log) -> Iterator[Record]:
    """The samples of one monitor in the order of time, in the form of milabench's readers. Raises OSError."""
    cores = None  # of the sample before: a load is the difference of two
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
    """The state of a device in milabench's units: memory in MiB, load 0…1, °C, W."""
    result: dict[str, Any] = {
        "memory": [state.get("memory_used", 0) / MIB, state.get("memory_total", 0) / MIB]
    }
    for name in ("load", "temperature", "power"):
        if name in state:
            result[name] = state[name]
    return result


def _host(time: float, before: Any, data: dict[str, Any]) -> Iterator[Record]:
    """A sample of the host; ``before`` are the ``cores`` of the sample before it.

    Memory, networks and disks in bytes, load in percent.
    """
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
    """All processes of the program added up: CPU in seconds, memory in bytes."""
    return {
        "pids": [process.get("pid") for process in processes],
        "cpu": sum(process.get("cpu", 0.0) for process in processes),
        "memory": sum(process.get("rss", 0) for process in processes),
        "threads": sum(process.get("threads", 0) for process in processes),
    }
