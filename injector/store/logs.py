"""Logs, ``HOST.PID.log``: what each process of the program records; the layout, the reader, the clock.

A log is lines of JSON, ``{"event": …, "data": …, "t": …}`` with ``t`` in nanoseconds of the monotonic clock
of the host (:mod:`.event` makes them). The first is the event ``process``: who records, under which schema,
and one moment by both clocks (``time``, ``monotonic_ns``). The second is ``lost``, rewritten in place: how
many records found no room. The file is mapped and longer than what was written, so NUL bytes follow its
last line; a process that was killed leaves a line in part. A number that comes back within a run makes
``HOST.PID.1.log``. What a monitor records (``.monitor``) and what a program sends itself (``.sent``) are
files of the same form.

Versions are those of :mod:`..schema`:

1. the first. Events were added to it later; a reader leaves out those that it does not know.
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
"""Bytes of a line that are read at once: a writer's longest record, and what is around its data."""


class Damage:
    """Counts the lines that a reader had to leave out because they were torn."""

    __slots__ = ("inside", "torn")

    def __init__(self) -> None:
        self.torn = 0
        self.inside = 0
        """Those before a whole line: no process that was killed leaves them, something else did."""


CHUNK = 1 << 20
"""Bytes of lines that are parsed at once."""


def parse(line: bytes) -> dict[str, Any] | None:
    """The record that ``line`` is; None where it is none, or one in part."""
    try:
        record = loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("event"), str) else None


def read_records(
    path: str, damage: Damage, most: int | None = None, at_once: int = CHUNK
) -> Iterator[dict[str, Any]]:
    """The records of a file of lines, in order; of its first ``most`` bytes, about ``at_once`` at a time.

    Whatever a process that was killed left (a line in part, bytes never written) is left out and
    counted in ``damage``. Raises OSError.
    """
    longest = LONGEST if most is None else min(LONGEST, most)
    read = 0  # counted here: the position in a device (/dev/full) is always 0
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
    """The lines of a file, many at once: parsing line by line is half of what reading a short run takes.

    Lines of a file that is longer than ``longest`` come one by one, none longer than that. Between two
    chunks no file is open: the logs of a run are read side by side, and may be more than a process may open.
    """
    at, whole = 0, True
    while whole:
        with open(path, "rb") as file:
            whole = 0 < os.fstat(file.fileno()).st_size <= longest
            if not whole:
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
    """The record of each line: empty for an empty line, None for one that is torn."""
    texts = [line.strip(b"\0 \t\r\n") for line in lines]
    whole = [text for text in texts if text]
    # Of whole lines this is a list with as many members; anything else is looked at line by line.
    if len(whole) > 1 and all(text[:1] == b"{" and text[-1:] == b"}" for text in whole):
        try:
            found = loads(b"[" + b",".join(whole) + b"]")
        except (ValueError, RecursionError):
            found = ()
        if len(found) == len(whole) and all(isinstance(each.get("event"), str) for each in found):
            records = iter(found)
            return [next(records) if text else {} for text in texts]
    return [parse(text) if text else {} for text in texts]


class Clock(NamedTuple):
    """One moment by both clocks of a host, from which all others of that host follow."""

    unix: float
    """Seconds."""
    monotonic: int
    """Nanoseconds."""
    drift: Drift | None = None
    """How it drifts from the run's clock, where that was measured."""

    def at(self, t: object) -> float:
        """Unix seconds at ``t`` nanoseconds of the monotonic clock; this moment where ``t`` is none."""
        moment = t if isinstance(t, int) else self.monotonic
        more = 0.0 if self.drift is None else self.drift.at(moment)
        return self.unix + (moment - self.monotonic) / 1e9 + more

    @property
    def offset(self) -> int:
        """Nanoseconds to add to the monotonic clock for unix time, but for its drift."""
        return round(self.unix * 1e9) - self.monotonic


UNKNOWN = Clock(0.0, 0)
"""Of a process that ended before its first record."""


def clock_of(process: Mapping[str, Any]) -> Clock | None:
    """The moment that an event ``process`` names; None of a process that recorded nothing."""
    time, monotonic = process.get("time"), process.get("monotonic_ns")
    if not isinstance(time, (int, float)) or not time or not isinstance(monotonic, int):
        return None
    return Clock(float(time), monotonic)


class Log:
    """The log of one process, or a file of the same form. Counts are complete once it was read."""

    def __init__(self, path: str, known: Mapping[str, Any] | None = None) -> None:
        """``known`` is what run.json says of the process, for a log that has lost its beginning."""
        self.path = path
        self.stem = path[: path.rindex(".")]
        """Its path without suffix: files beside it begin so."""
        self.damage = Damage()
        self.count = 0
        """Its records, and what others read beside it: values, spans."""
        self.last = 0.0
        """The latest moment that it tells of, unix seconds."""
        self.lost = 0
        self.why = ""
        self.process = self._first(known)
        """What its event ``process`` says."""
        own = clock_of(self.process)
        self.began = None if own is None else own.monotonic
        """Nanoseconds of the monotonic clock; None of a process that ended before its first record."""
        self.clock = own or UNKNOWN
        """The clock that its moments are read by, see :func:`logs_of`."""

    def _first(self, known: Mapping[str, Any] | None) -> dict[str, Any]:
        try:
            record = next(read_records(self.path, Damage(), at_once=1), {})
        except FileNotFoundError:  # it was removed, as the report says
            record = {}
        data = record.get("data")
        if record.get("event") == "process" and isinstance(data, dict):
            check_schema(data.get("schema"), self.path)
            return data
        host, _, pid = os.path.basename(self.stem).rpartition(".")
        return dict(known or {"host": host, "pid": int(pid) if pid.isdecimal() else None})

    @property
    def host(self) -> Any:
        """Whose monotonic clock its moments are of."""
        return self.process.get("host")

    @property
    def task(self) -> tuple[int, int] | None:
        """Of which task of ``mpirun`` or a Slurm step it is, and of how many."""
        task, tasks = self.process.get("task"), self.process.get("tasks")
        return (task, tasks) if isinstance(task, int) and isinstance(tasks, int) else None

    def records(self, at_once: int = CHUNK) -> Iterator[dict[str, Any]]:
        """Its records without those that only the file itself needs, ``process`` and ``lost``.

        ``at_once``: bytes of it that are in memory at a time.
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
        if isinstance(lost, int) and lost > self.lost:
            self.lost = lost
            name = str(data.get("why", "")).strip()
            number = getattr(errno, name, None)
            self.why = os.strerror(number) if isinstance(number, int) else name


def series_files(folder: str) -> dict[str, list[str]]:
    """The files of series of the run in ``folder``, by the stem of their process's log."""
    numbered: dict[str, list[tuple[int, str]]] = {}
    for path in files(folder, series.SUFFIX):
        stem, _, number = path[: -len(series.SUFFIX)].rpartition(".")
        if number.isdecimal():
            numbered.setdefault(stem, []).append((int(number), path))
    return {stem: [path for _, path in sorted(mine)] for stem, mine in numbered.items()}


def files(folder: str, suffix: str = LOG) -> list[str]:
    """The logs of the run in ``folder``, or its files of another kind."""
    raw = os.path.join(folder, "raw")
    try:
        return [
            os.path.join(raw, name) for name in sorted(os.listdir(raw)) if name.endswith(suffix)
        ]
    except OSError:
        return []


def ranks_by_task(logs: Sequence[Log], ranked: Container[int]) -> dict[int, tuple[int, int]]:
    """Rank and number of ranks of the logs, by index, whose task is their rank.

    That is so where no process of the task has a rank of its own, as those in ``ranked`` have: there the
    others are the launcher (``torchrun``, a program that spawns its ranks) and its helpers.
    """
    launched = {log.task for index, log in enumerate(logs) if index in ranked}
    return {
        index: log.task
        for index, log in enumerate(logs)
        if log.task is not None and log.task not in launched
    }


def fitted_drifts(folder: str, clocks: Mapping[object, Clock]) -> dict[object, FittedDrift]:
    """By host how its clock drifts in the run in ``folder``; ``clocks``: those of the hosts.

    Of a host that several processes measured at, their measurements together.
    """
    if not drift.is_there(folder):
        return {}
    measured: dict[object, list[ClockReading]] = {}
    for log in (Log(path) for path in files(folder, drift.SUFFIX)):
        found = (drift.measurement_of(each.get("data")) for each in log.records())
        measured.setdefault(log.host, []).extend(each for each in found if each is not None)
    fitted = {
        host: drift.fit(mine, clocks[host]._replace(drift=None).at)
        for host, mine in measured.items()
        if host in clocks
    }
    return {host: each for host, each in fitted.items() if each is not None}


def host_clocks(logs: Sequence[Log]) -> dict[object, Clock]:
    """By host its clock: the moment by both clocks that was named first."""
    clocks: dict[object, Clock] = {}
    for log in sorted(logs, key=lambda log: log.began or 0):
        if log.began is not None:
            clocks.setdefault(log.host, log.clock)
    return clocks


def logs_of(folder: str, known: Sequence[Mapping[str, Any]] = ()) -> list[Log]:
    """The logs of the run in ``folder``, in the order in which the processes began.

    ``known`` is what run.json says of them, where it says that: then the order is its own. Raises
    OSError, NotARunError.
    """
    named = bool(known) and all("log" in each for each in known)
    if named:
        logs = [Log(os.path.join(folder, "raw", str(each["log"])), each) for each in known]
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
