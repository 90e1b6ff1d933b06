"""Records that a program sends itself, as it would under voir: lines of JSON written to ``DATA_FD``.

Under voir, the environment variable ``DATA_FD`` has the number of an open descriptor. A program that never
looks it up must see neither a variable nor a descriptor that it would not have without ``inject``. So the
supervisor keeps both ends of a pipe (:class:`Inbox`); in the program, ``os.environ`` is given a dictionary
that opens the pipe's writing end, by its path in ``/proc``, when the variable is looked up (:func:`offer`).

Through the same pipe a process of the program tells the supervisor that the whole job is to end
(:func:`tell`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
import os

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "DATA_FD"
SIGNAL = _signal.SIGIO
"""The signal that the kernel sends to the supervisor when there is something to read."""
STOP = "$stop"
"""Key of a message to the supervisor: the number of the process that stops the job, 0 if it is over. Of one
that has stopped for itself, minus its number: others that wait for it may do so for ever."""
HIGH = 700
"""The first number for a descriptor of ours, which hardly any program expects its own ``open`` to return."""
CAPACITY = 1 << 20
"""Bytes that may wait in the pipe to be read."""
OURS = (
    *("process", "request", "probe", "miss", "fired", "first", "failure", "lost", "end"),
    *("voirfile", "auto-missed", "ahead"),
)
"""Events that injector records itself. A program's event of such a name is recorded inside an ``event``."""


class Inbox:
    """The supervisor's side of the pipe. Raises OSError if there are no more descriptors."""

    def __init__(self, folder: str, moved: float = 0.0) -> None:
        """``folder`` is the run folder, ``moved`` the seconds to add to this host's clock."""
        self._folder = folder
        self._moved = moved
        # The writing end is kept open, so that processes can open it again by its path, and so that
        # reading never comes to the end of the file while no process of the program has it open.
        self._reading_end, self._writing_end = os.pipe()
        self._writer: Any = None
        self._partial_line = b""

    @property
    def address(self) -> str:
        """The path under which processes of this host open the other end."""
        return f"/proc/{os.getpid()}/fd/{self._writing_end}"

    def listen(self) -> None:
        """Have the kernel send this process :data:`SIGNAL` from now on. The caller has blocked it."""
        import fcntl

        end = self._reading_end
        os.set_blocking(end, False)
        try:
            fcntl.fcntl(end, getattr(fcntl, "F_SETPIPE_SZ", 1031), CAPACITY)
        except OSError:  # pipes of this user are many: this one keeps its size
            pass
        fcntl.fcntl(end, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(end, fcntl.F_SETFL, fcntl.fcntl(end, fcntl.F_GETFL) | os.O_ASYNC)

    def read(self) -> list[int]:
        """Record the lines that have come. Returns the values sent with :data:`STOP`."""
        stops: list[int] = []
        while True:
            try:
                content = os.read(self._reading_end, CAPACITY)
            except BlockingIOError:
                return stops
            *lines, self._partial_line = (self._partial_line + content).split(b"\n")
            for line in lines:
                stops += self._record(line)

    def close(self) -> None:
        """Close the pipe and the file of records. No sender may be left."""
        os.close(self._reading_end)
        os.close(self._writing_end)
        if self._writer is not None:
            self._writer.close()

    def _record(self, line: bytes) -> list[int]:
        """Record ``line``, unless it is a message to the supervisor; returns what it wants stopped, if so."""
        event, data = event_in(line)
        if event == "data" and isinstance(data, dict) and isinstance(data.get(STOP), int):
            return [data[STOP]]
        if self._writer is None:
            # Here, since few programs send records: the others leave no such file, and load no more modules.
            from ..store.event import SENT, clock_meta
            from .writer import Writer

            self._writer = Writer(self._folder, clock_meta(self._moved), suffix=SENT)
        self._writer.emit(event, data)
        return [0] if event == "stop" else []


def event_in(line: bytes | str) -> tuple[str, Any]:
    """The event and the data of a line that a program sent. A line that is no record gives a
    ``format_error``, as in voir.
    """
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
    """The event and the data of a record: those of ``{"$event": name, "$data": data}``, else ``data`` and
    the whole record.
    """
    if "$event" not in record:
        return "data", record
    name, data = str(record["$event"]), record.get("$data")
    # A program that sent an event "end" of its own must not make its process look ended.
    return ("event", {"name": name, "data": data}) if name in OURS else (name, data)


def owner(address: str) -> int:
    """The number of the supervisor, whose :attr:`Inbox.address` this is."""
    return int(address.split("/")[2])


def tell(address: str | None, stop: int) -> bool:
    """Send ``stop`` (see :data:`STOP`) to the supervisor. Returns False if it is gone or out of reach."""
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
    """The dictionary inside ``os.environ``, which opens a descriptor when :data:`VARIABLE` is looked up.

    Until then the variable is in no listing, and children do not inherit it.
    """

    address: str | None = None
    """:attr:`Inbox.address`."""

    def __missing__(self, key: object) -> bytes:
        if key != VARIABLE.encode() or self.address is None:
            raise KeyError(key)
        import fcntl

        try:
            end = os.open(self.address, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:  # the supervisor has died, or runs in another process namespace
            raise KeyError(key) from None
        # A low number may be one that the program is about to get for its own file. Without F_DUPFD_CLOEXEC:
        # under voir, children inherit the descriptor, too.
        self[key] = number = b"%d" % fcntl.fcntl(end, fcntl.F_DUPFD, _lowest_number())
        os.close(end)
        return number


def offer(address: str) -> None:
    """Have ``os.environ`` know :data:`VARIABLE` when it is looked up. ``address`` is :attr:`Inbox.address`.

    If the variable is set already, to an open descriptor, it is left alone. If that number is not open, the
    pipe is opened under it.
    """
    number = os.environ.get(VARIABLE)
    if number is None:
        views: Any = (os.environ, os.environb)
        environment = DataFdEnvironment(views[0]._data)
        environment.address = address
        # Both views share one dictionary: what is set through one must be seen through the other.
        for view in views:
            view._data = environment
    elif number.isdecimal() and 2 < int(number) < 1 << 20:
        # A process of the program looked it up and started this one with the variable in its environment,
        # but without the descriptor: subprocess closes those by default.
        try:
            os.fstat(int(number))
        except OSError:
            _open_at(int(number), address)


def _open_at(number: int, address: str) -> None:
    """Open the pipe at ``address`` as the descriptor ``number``, which children inherit."""
    try:
        end = os.open(address, os.O_WRONLY | os.O_CLOEXEC)
        if end != number:
            os.dup2(end, number)
            os.close(end)
        else:
            os.set_inheritable(end, True)
    except OSError:  # the supervisor has died, or runs in another process namespace
        pass


def _lowest_number() -> int:
    """The lowest number for a descriptor of ours."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)  # numbers from `soft` on cannot be opened
    return HIGH if soft < 0 or soft > HIGH else 3
