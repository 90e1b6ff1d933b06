"""The monitor's samples, ``HOST.PID.monitor``: the layout, the writer, the reader.

The file has JSON lines like a log (:mod:`.logs`). Its first record is the event ``process``, with the seconds
between samples as ``interval``. The data of each other event is a dictionary:

=============== ====================================================================================
``host``        ``cores``: seconds that each core was busy and idle since boot; ``memory``, and at most
                once a second ``load swap filesystem disks nets pressure cgroup``
``tree``        ``processes``: of each process ``pid ppid name started cpu rss threads``, and as far as
                the kernel tells ``fds read written uss``
``devices``     by number, the state of each visible device: ``load``, ``memory_used``, ``power``, …
``device_list`` by number, ``index uuid name vendor driver`` of each visible device
``exit``        ``pid`` and ``code`` of a process that has ended: its exit code, minus the signal that it
                died by, or null
``problem``     ``text``: what could not be sampled
``end``         nothing: the monitor ended in order
=============== ====================================================================================

Units are bytes, seconds, fractions 0…1, watts, joules, hertz and °C. docs/monitor.md says when each is read.

Versions are those of :mod:`..schema`:

1. the first. Later, ``pressure`` and ``cgroup`` were added to ``host``, ``read`` and ``written`` to
   ``tree``, ``driver`` to ``device_list``, and the event ``exit``; a reader takes what is missing as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ..named_tuple import NamedTuple
from .logs import UNKNOWN, Clock, Log, files

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

SUFFIX = ".monitor"
HOST, TREE, DEVICES = "host", "tree", "devices"
"""The events of samples; of the others the last counts, or each."""


class Sample(NamedTuple):
    """One record of a monitor."""

    event: str
    time: float
    """Unix seconds."""
    data: dict[str, Any]
    t: int | None = None
    """The same moment, nanoseconds of the monotonic clock of its host; None if the line has none."""


# --- the writer -----------------------------------------------------------------------------------


class MonitorRecords:
    """Writes the records of a monitor, by the one function that each kind of them has."""

    def __init__(self, emit: Callable[[str, object], None]) -> None:
        """``emit(event, data)`` writes a record of any event into the file."""
        self._emit = emit

    def host(self, state: Mapping[str, Any]) -> None:
        """Record the state of processors, memory, disks, networks and limits."""
        self._emit(HOST, state)

    def tree(self, processes: Sequence[Mapping[str, Any]]) -> None:
        """Record the state of the program's processes."""
        self._emit(TREE, {"processes": processes})

    def devices(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Record the state of each visible device, by its number."""
        self._emit(DEVICES, states)

    def device_list(self, described: Mapping[str, Mapping[str, Any]]) -> None:
        """Record the description of each visible device, by its number."""
        self._emit("device_list", described)

    def exit(self, pid: int, code: int | None) -> None:
        """Record the end of a process with a log. ``code``: exit code, or minus a signal; None if unknown."""
        self._emit("exit", {"pid": pid, "code": code})

    def problem(self, text: str) -> None:
        """Record that something could not be sampled."""
        self._emit("problem", {"text": text})

    def end(self) -> None:
        """Record that the monitor ends in order."""
        self._emit("end", {})


# --- the reader -----------------------------------------------------------------------------------


def sample_of(record: Mapping[str, Any], clock: Clock = UNKNOWN) -> Sample | None:
    """The sample in a record of the file; None if its data cannot be used. ``clock`` is that of its host."""
    data, t = record.get("data"), record.get("t")
    if not isinstance(data, dict):
        return None
    if record["event"] == "exit":
        if not isinstance(data.get("pid"), int):
            return None
        data = {**data, "code": data["code"] if isinstance(data.get("code"), int) else None}
    return Sample(record["event"], clock.at(t), data, t if isinstance(t, int) else None)


def samples(log: Log) -> Iterator[Sample]:
    """The samples of a monitor in the order of time. Raises OSError."""
    for record in log.records():
        sample = sample_of(record, log.clock)
        if sample is not None:
            yield sample


def monitor_logs(folder: str) -> list[Log]:
    """The monitors' files of the run in ``folder``, one a host. Raises NotARunError for a later version."""
    return [Log(path) for path in files(folder, SUFFIX)]


class Monitored(NamedTuple):
    """The samples that one monitor took, each kind in the order of time."""

    host: str
    interval: float
    """The seconds between samples that were requested."""
    hosts: list[Sample]
    trees: list[Sample]
    devices: list[Sample]
    described: dict[str, dict[str, Any]]
    """By the number of each visible device: index, uuid, name, vendor."""
    problems: list[str]
    whole: bool
    """Whether the monitor ended in order."""

    def states(self, number: str) -> list[tuple[float, dict[str, Any]]]:
        """The states of the device ``number``, each after its time in unix seconds."""
        return [(each.time, each.data[number]) for each in self.devices if number in each.data]


def read(folder: str) -> list[Monitored]:
    """The samples of each monitor of the run in ``folder``; a run without a monitor has an empty list.

    Raises OSError, NotARunError.
    """
    return [_monitored(log) for log in monitor_logs(folder)]


def _monitored(log: Log) -> Monitored:
    kept: dict[str, list[Sample]] = {HOST: [], TREE: [], DEVICES: []}
    described: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    whole = False
    for sample in samples(log):
        if sample.event in kept:
            kept[sample.event].append(sample)
        elif sample.event == "device_list":
            described = sample.data
        elif sample.event == "problem":
            problems.append(str(sample.data.get("text")))
        whole = whole or sample.event == "end"
    interval = float(log.process.get("interval") or 0.0)
    host = str(log.host or "")
    series = kept[HOST], kept[TREE], kept[DEVICES]
    return Monitored(host, interval, *series, described, problems, whole)


def core_loads(before: Any, after: Any) -> list[float] | None:
    """The load, 0…1, of each core between the ``cores`` of two samples of a host.

    None if one of both is missing, or the number of cores has changed.
    """
    if not before or not after or len(before) != len(after):
        return None
    return [_load(old, new) for old, new in zip(before, after, strict=True)]


def _load(old: Sequence[float], new: Sequence[float]) -> float:
    """The load of one core between two pairs of seconds busy and idle."""
    busy, idle = new[0] - old[0], new[1] - old[1]
    if busy <= 0 or idle <= 0:  # the kernel's idle time may step back by a tick
        return 1.0 if busy > 0 else 0.0
    return busy / (busy + idle)


def cpu_load(before: Any, after: Any) -> float | None:
    """As :func:`core_loads` of all cores together; None also if no time has passed."""
    if not before or not after or len(before) != len(after):
        return None
    busy, idle = (sum(b[at] - a[at] for a, b in zip(before, after, strict=True)) for at in (0, 1))
    return max(busy, 0.0) / (busy + idle) if busy + idle > 0 else None
