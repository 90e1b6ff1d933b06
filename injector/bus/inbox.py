"""Records that a program sends itself, as it would under voir: JSON, one a line.

Under voir, ``DATA_FD`` is a descriptor for them. Here it is the end of a pipe that ``inject run`` reads,
opened by a process of the program when it looks the variable up: no other sees a descriptor or a
variable that it would not have without us. The same pipe tells ``inject run`` that the job is to end.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
import os

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Tell = Callable[[str, object], None]

VARIABLE = "DATA_FD"
SIGNAL = _signal.SIGIO
"""Sent to ``inject run`` when something has come."""
STOP = "$stop"
"""Key of a message to ``inject run``: the process that stops the job, or 0 for one that is over now."""
HIGH = 700
"""The first number of a descriptor that no program has by accident."""
CAPACITY = 1 << 20
"""Bytes that may wait to be read."""
OURS = (
    *("process", "request", "probe", "miss", "fired", "first", "failure", "lost", "end"),
    *("voirfile", "auto-missed", "ahead"),
)
"""Events that the record itself is made of; others of such a name are put into ``event``."""


class Inbox:
    """The end of ``inject run``. Raises OSError where there are no more descriptors."""

    def __init__(self, folder: str, moved: float = 0.0) -> None:
        """``moved``: seconds to add to this host's clock."""
        self._folder = folder
        self._moved = moved
        self._end, self._kept = os.pipe()
        self._writer: Any = None
        self._rest = b""

    @property
    def address(self) -> str:
        """The path under which processes of this host open the other end."""
        return f"/proc/{os.getpid()}/fd/{self._kept}"

    def listen(self) -> None:
        """Be sent :data:`SIGNAL` from now on, which the caller has blocked."""
        import fcntl

        os.set_blocking(self._end, False)
        try:
            fcntl.fcntl(self._end, getattr(fcntl, "F_SETPIPE_SZ", 1031), CAPACITY)
        except OSError:  # the user has many pipes; this one keeps its size
            pass
        fcntl.fcntl(self._end, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(self._end, fcntl.F_SETFL, fcntl.fcntl(self._end, fcntl.F_GETFL) | os.O_ASYNC)

    def read(self) -> list[int]:
        """Record what has come. Returns the values sent with :data:`STOP`."""
        stops: list[int] = []
        while True:
            try:
                part = os.read(self._end, CAPACITY)
            except BlockingIOError:
                return stops
            *lines, self._rest = (self._rest + part).split(b"\n")
            for line in lines:
                stops += self._take(line)

    def close(self) -> None:
        """No sender is left."""
        os.close(self._end)
        os.close(self._kept)
        if self._writer is not None:
            self._writer.close()

    def _take(self, line: bytes) -> list[int]:
        event, data = event_in(line)
        if event == "data" and isinstance(data, dict) and isinstance(data.get(STOP), int):
            return [data[STOP]]
        if self._writer is None:
            from ..store.event import SENT, clock_meta
            from .writer import Writer

            self._writer = Writer(self._folder, clock_meta(self._moved), suffix=SENT)
        self._writer.emit(event, data)
        return [0] if event == "stop" else []


def event_in(line: bytes | str) -> tuple[str, Any]:
    """The event of a line, and its data; what is no record is a ``format_error``, as in voir."""
    import json

    try:
        record = json.loads(line)
        if not isinstance(record, dict):
            raise TypeError(f"a record is an object, not {type(record).__name__}")
    except (ValueError, TypeError) as error:
        text = line if isinstance(line, str) else line.decode("utf-8", "replace")
        return "format_error", {"line": text, "type": type(error).__name__, "message": str(error)}
    return event_of(record)


def event_of(record: dict[str, Any]) -> tuple[str, Any]:
    """``{"$event": name, "$data": data}`` as name and data; all else is ``data``."""
    if "$event" not in record:
        return "data", record
    name, data = str(record["$event"]), record.get("$data")
    return ("event", {"name": name, "data": data}) if name in OURS else (name, data)


def owner(address: str) -> int:
    """The process of ``inject run`` that reads what comes."""
    return int(address.split("/")[2])


def tell(address: str | None, stop: int) -> bool:
    """Tell ``inject run`` of a stop; False if there is none that hears it."""
    try:
        end = os.open(address or "", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(end, b'{"%s": %d}\n' % (STOP.encode(), stop))
    except OSError:
        return False
    finally:
        os.close(end)
    return True


class DataFdEnvironment(dict):  # type: ignore[type-arg]
    """What ``os.environ`` is made of, with a descriptor for code that looks :data:`VARIABLE` up."""

    address: str | None = None

    def __missing__(self, key: object) -> bytes:
        if key != VARIABLE.encode() or self.address is None:
            raise KeyError(key)
        import fcntl

        try:
            end = os.open(self.address, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:  # inject is gone, or is not to be seen from here
            raise KeyError(key) from None
        self[key] = found = b"%d" % fcntl.fcntl(end, fcntl.F_DUPFD, _lowest())
        os.close(end)
        return found


def offer(address: str) -> None:
    """Have ``os.environ`` know :data:`VARIABLE` when it is looked up.

    A descriptor from elsewhere is left alone; one that was only announced is opened.
    """
    number = os.environ.get(VARIABLE)
    if number is None:
        views: Any = (os.environ, os.environb)
        known = DataFdEnvironment(views[0]._data)
        known.address = address
        for each in views:
            each._data = known
    elif number.isdecimal() and 2 < int(number) < 1 << 20:
        try:
            os.fstat(int(number))
        except OSError:
            _open_at(int(number), address)


def _open_at(number: int, address: str) -> None:
    try:
        end = os.open(address, os.O_WRONLY | os.O_CLOEXEC)
        if end != number:
            os.dup2(end, number)
            os.close(end)
        else:
            os.set_inheritable(end, True)
    except OSError:  # inject is gone, or is not to be seen from here
        pass


def _lowest() -> int:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return HIGH if soft < 0 or soft > HIGH else 3
