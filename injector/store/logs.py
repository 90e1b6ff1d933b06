"""Logs, ``HOST.PID.log``: what each process of the program records; the layout, the reader, the clock.

A log is lines of JSON, ``{"event": …, "data": …, "t": …}`` with ``t`` in nanoseconds of the host's monotonic
clock (:mod:`.event` makes them). The first is the event ``process``: the process, the schema's version, and
one moment by both clocks (``time``, ``monotonic_ns``). The second is ``lost``, which counts the records that
found no room and is rewritten in place; more such lines may follow, of which the highest count is right.

The file is mapped by its writer and longer than what was written, so NUL bytes follow its last line. A
process that was killed may leave a line in part. A process whose number was used before in the run writes
``HOST.PID.1.log``. The files of monitors (``.monitor``) and of records that a program sends itself
(``.sent``) have the same form.

Versions are those of :mod:`..schema`:

1. the first. Events were added to it later; a reader ignores those that it does not know.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Container, Iterator, Mapping, Sequence

from ..named_tuple import NamedTuple
from ..plain_json import loads
from . import drift, series
from .event import LOG
from .run_json import check_schema

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

    from .drift import ClockReading, Drift, FittedDrift

LONGEST = (1 << 28) + (1 << 16)
"""The most bytes of a line: those of a writer's longest record, and some for what stands around its data."""


class Damage:
    """The number of lines that a reader left out, as they are no whole records."""

    __slots__ = ("inside", "torn")

    def __init__(self) -> None:
        self.torn = 0
        self.inside = 0
        """Those with a record after them. A killed process leaves none of these: the file was damaged."""


CHUNK = 1 << 20
"""Bytes of lines that are parsed at once."""


def parse(line: bytes) -> dict[str, Any] | None:
    """The record in ``line``; None if it is no whole record."""
    try:
        record = loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("event"), str) else None


def read_records(
    path: str, damage: Damage, most: int | None = None, at_once: int = CHUNK
) -> Iterator[dict[str, Any]]:
    """The records of a file of lines, in order: those in its first ``most`` bytes, or all.

    Lines that are no records are left out and counted in ``damage``; NUL bytes that were never written are
    left out. About ``at_once`` bytes are in memory at a time. Raises OSError.
    """
    longest = LONGEST if most is None else min(LONGEST, most)
    read = 0  # counted here, since the position in a device such as /dev/full is always 0
    for lines in _chunks(path, longest, at_once):
        for record, length in zip(_parsed(lines), map(len, lines), strict=True):
            read += length
            if most is not None and read > most:
                damage.torn += 1
                return
            if record is None:
                damage.torn += 1
            elif record:
                damage.inside = damage.torn
                yield record


def _chunks(path: str, longest: int, at_once: int) -> Iterator[list[bytes]]:
    """The lines of a file, ``at_once`` bytes together: parsing them one by one takes half of the time in
    which a short run is read.

    The lines of a file that is longer than ``longest``, or no regular file, come one by one and are cut at
    that length. Between two chunks no file is open: the logs of a run are read side by side, and may be more
    than a process may open.
    """
    at, is_short = 0, True
    while is_short:
        with open(path, "rb") as file:
            # The size of a device is 0, and it may have no end.
            is_short = 0 < os.fstat(file.fileno()).st_size <= longest
            if not is_short:
                file.seek(at)
                while line := file.readline(longest):
                    yield [line]
                return
            file.seek(at)
            lines = file.readlines(at_once)
            at = file.tell()
        if not lines:
            return
        yield lines


def _parsed(lines: Sequence[bytes]) -> Sequence[dict[str, Any] | None]:
    """The record of each line: an empty one for an empty line, None for a line that is no whole record."""
    texts = [line.strip(b"\0 \t\r\n") for line in lines]
    filled = [text for text in texts if text]
    # Joined by commas, whole records are a JSON list of as many objects, which is parsed in one call. If it
    # is anything else (two damaged lines may well make one object), the lines are parsed one by one.
    if len(filled) > 1 and all(text[:1] == b"{" and text[-1:] == b"}" for text in filled):
        try:
            parsed = loads(b"[" + b",".join(filled) + b"]")
        except (ValueError, RecursionError):
            parsed = ()
        if len(parsed) == len(filled) and all(
            isinstance(record.get("event"), str) for record in parsed
        ):
            records = iter(parsed)
            return [next(records) if text else {} for text in texts]
    return [parse(text) if text else {} for text in texts]


class Clock(NamedTuple):
    """One moment by both clocks of a host, from which the unix times of all its moments follow."""

    unix: float
    """The moment in unix seconds."""
    monotonic: int
    """The moment in nanoseconds of the monotonic clock."""
    drift: Drift | None = None
    """How the clock drifts from that of the run, if that was measured."""

    def at(self, t: object) -> float:
        """Unix seconds at ``t`` nanoseconds of the monotonic clock; those of now if ``t`` is no integer."""
        moment = t if isinstance(t, int) else self.monotonic
        correction = 0.0 if self.drift is None else self.drift.at(moment)
        return self.unix + (moment - self.monotonic) / 1e9 + correction

    @property
    def offset(self) -> int:
        """Nanoseconds to add to the monotonic clock for unix time, without its drift."""
        return round(self.unix * 1e9) - self.monotonic


UNKNOWN = Clock(0.0, 0)
"""The clock of a host of which no process recorded its event ``process``."""


def clock_of(process: Mapping[str, Any]) -> Clock | None:
    """The clock that an event ``process`` gives; None if none, as of a process that recorded nothing."""
    time, monotonic = process.get("time"), process.get("monotonic_ns")
    if not isinstance(time, (int, float)) or not time or not isinstance(monotonic, int):
        return None
    return Clock(float(time), monotonic)


class Log:
    """The log of one process, or a file of the same form. Its counts are complete once it was read."""

    def __init__(self, path: str, known: Mapping[str, Any] | None = None) -> None:
        """``known`` is the process in ``run.json``, for a log that has lost its beginning.

        Raises OSError, and NotARunError for a later schema.
        """
        self.path = path
        self.stem = path[: path.rindex(".")]
        """The path without suffix, with which the names of the process's other files begin."""
        self.damage = Damage()
        self.count = 0
        """The number of its records; :mod:`..bus.merge` adds the process's values and spans."""
        self.last = 0.0
        """The latest moment that was recorded, unix seconds; :mod:`..bus.merge` sets it."""
        self.lost = 0
        """The number of records that found no room."""
        self.why = ""
        """The reason of the last such loss."""
        self.process = self._process(known)
        """The data of its event ``process``."""
        own = clock_of(self.process)
        self.began = None if own is None else own.monotonic
        """When it began, nanoseconds of the monotonic clock; None for a process that recorded nothing."""
        self.clock = own or UNKNOWN
        """The clock that its moments are read by; :func:`logs_of` sets one for all processes of a host."""

    def _process(self, known: Mapping[str, Any] | None) -> dict[str, Any]:
        try:
            record = next(read_records(self.path, Damage(), at_once=1), {})
        except FileNotFoundError:  # the file was removed after the run, which the seal reports
            record = {}
        data = record.get("data")
        if record.get("event") == "process" and isinstance(data, dict):
            check_schema(data.get("schema"), self.path)
            return data
        host, _, pid = os.path.basename(self.stem).rpartition(".")
        return dict(known or {"host": host, "pid": int(pid) if pid.isdecimal() else None})

    @property
    def host(self) -> Any:
        """The name of the host that the process ran on, of whose monotonic clock its moments are."""
        return self.process.get("host")

    @property
    def task(self) -> tuple[int, int] | None:
        """The number of its task of ``mpirun`` or a Slurm step, and the number of tasks; None without one."""
        task, tasks = self.process.get("task"), self.process.get("tasks")
        return (task, tasks) if isinstance(task, int) and isinstance(tasks, int) else None

    def records(self, at_once: int = CHUNK) -> Iterator[dict[str, Any]]:
        """Its records but for the events ``process`` and ``lost``, about ``at_once`` bytes in memory.

        Raises OSError.
        """
        for record in read_records(self.path, self.damage, at_once=at_once):
            if record["event"] == "lost":
                self._note_lost(record.get("data"))
                continue
            self.count += 1
            if record["event"] != "process":
                yield record

    def _note_lost(self, data: Any) -> None:
        lost = data.get("records", 0) if isinstance(data, dict) else 0
        # Each window of the file has a count of its own, which goes on from the one before.
        if isinstance(lost, int) and lost > self.lost:
            self.lost = lost
            name = str(data.get("why", "")).strip()
            number = getattr(errno, name, None)
            self.why = os.strerror(number) if isinstance(number, int) else name


def series_files(folder: str) -> dict[str, list[str]]:
    """The paths of the series of the run in ``folder``, by :attr:`Log.stem`, in order of their numbers."""
    numbered: dict[str, list[tuple[int, str]]] = {}
    for path in files(folder, series.SUFFIX):
        stem, _, number = path[: -len(series.SUFFIX)].rpartition(".")
        if number.isdecimal():
            numbered.setdefault(stem, []).append((int(number), path))
    return {stem: [path for _, path in sorted(pairs)] for stem, pairs in numbered.items()}


def files(folder: str, suffix: str = LOG) -> list[str]:
    """The paths of the raw files with ``suffix`` of the run in ``folder``, in the order of their names."""
    raw = os.path.join(folder, "raw")
    try:
        return [
            os.path.join(raw, name) for name in sorted(os.listdir(raw)) if name.endswith(suffix)
        ]
    except OSError:
        return []


def ranks_by_task(logs: Sequence[Log], ranked: Container[int]) -> dict[int, tuple[int, int]]:
    """Rank and number of ranks, by index, of those ``logs`` of which the task's number is the rank.

    ``ranked`` are the indices of processes with a rank of their own. A task with such a process starts its
    ranks itself, and its other processes are the launcher (``torchrun``, or a program that spawns its ranks)
    and helpers of it: they have no rank.
    """
    launched = {log.task for index, log in enumerate(logs) if index in ranked}
    return {
        index: log.task
        for index, log in enumerate(logs)
        if log.task is not None and log.task not in launched
    }


def fitted_drifts(folder: str, clocks: Mapping[object, Clock]) -> dict[object, FittedDrift]:
    """The drifts of the hosts of the run in ``folder`` whose clocks were measured again, by host.

    ``clocks`` are those of the hosts. If several processes of a host measured, all of their measurements
    count. Raises OSError, NotARunError.
    """
    if not drift.is_there(folder):
        return {}
    by_host: dict[object, list[ClockReading]] = {}
    for log in (Log(path) for path in files(folder, drift.SUFFIX)):
        readings = (drift.measurement_of(record.get("data")) for record in log.records())
        by_host.setdefault(log.host, []).extend(r for r in readings if r is not None)
    fitted = {
        host: drift.fit(readings, clocks[host]._replace(drift=None).at)
        for host, readings in by_host.items()
        if host in clocks
    }
    return {host: one for host, one in fitted.items() if one is not None}


def host_clocks(logs: Sequence[Log]) -> dict[object, Clock]:
    """The clock of each host: the moment by both clocks that its first process recorded."""
    clocks: dict[object, Clock] = {}
    for log in sorted(logs, key=lambda log: log.began or 0):
        if log.began is not None:
            clocks.setdefault(log.host, log.clock)
    return clocks


def logs_of(folder: str, known: Sequence[Mapping[str, Any]] = ()) -> list[Log]:
    """The logs of the run in ``folder``, in the order in which the processes began.

    ``known`` are the processes in ``run.json``, if there is one: then the order is theirs. Raises OSError,
    NotARunError.
    """
    named = bool(known) and all("log" in process for process in known)
    if named:
        logs = [Log(os.path.join(folder, "raw", str(process["log"])), process) for process in known]
    else:
        logs = [Log(path) for path in files(folder)]
    # Processes of one host share a monotonic clock, so one moment in unix time, the first that was
    # named, orders them rightly even when the wall clock jumped between their starts.
    clocks = host_clocks(logs)
    for host, found in fitted_drifts(folder, clocks).items():
        clocks[host] = clocks[host]._replace(drift=found.drift)
    for log in logs:
        log.clock = clocks.get(log.host, UNKNOWN)
    if not named:
        logs.sort(key=lambda log: (log.began is None, log.clock.at(log.began), log.path))
    return logs
