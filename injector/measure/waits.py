"""``wait``: the training thread is blocked in a function of the standard library.

Whatever waits there (a queue, a lock, an event, a future, a socket, a pipe, a child) ends in one of the C
functions below. Their calls are timed from the moment a process records its first span; those that
take long become spans, in threads that record spans of something else as well.
"""

from __future__ import annotations

from ..probe import compiled
from ..probe.points import Point, failed
from .awaits import Awaits
from .places import EVENT_LOOP

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from .regions import Spans

REGION = "wait"
LEAST_NS = 50_000
"""Shorter ones are not worth a span."""
_PLAIN, _LOCK, _FILE, _DESCRIPTOR = range(4)
_TIMED: dict[str, dict[str, tuple[int, str]]] = {
    "time": {"": (_PLAIN, "sleep")},
    "_thread": {
        "LockType": (_LOCK, "acquire acquire_lock __enter__"),
        "RLock": (_LOCK, "acquire __enter__"),
        "_ThreadHandle": (_PLAIN, "join"),
    },
    "_queue": {"SimpleQueue": (_PLAIN, "get")},
    "_socket": {
        "socket": (
            _PLAIN,
            "_accept connect recv recv_into recvfrom recvfrom_into recvmsg send sendall",
        )
    },
    "_ssl": {"_SSLSocket": (_PLAIN, "do_handshake read write")},
    "select": {"": (_PLAIN, "select"), "epoll": (_PLAIN, "poll"), "kqueue": (_PLAIN, "control")},
    "posix": {"": (_DESCRIPTOR, "read readv"), "*": (_PLAIN, "wait waitid waitpid")},
    "_io": {"FileIO": (_FILE, "read readall readinto")},
    "_multiprocessing": {"SemLock": (_LOCK, "acquire __enter__")},
    "fcntl": {"": (_PLAIN, "flock lockf")},
}
"""By module, and by the class in it where they are methods."""
_FULFILLED = {
    "io": "forward",
    "io.start": "io.start",
    "comm": "comm",
    "sync": "sync",
    REGION: REGION,
}
"""Regions that say what is waited for already, with the levels of their stacks."""


class Waits:
    """The waits of one process."""

    def __init__(
        self, spans: Spans, after_import: Callable[[str, Callable[[Any], None]], None]
    ) -> None:
        self._spans = spans
        self._after_import = after_import
        self._begun = False
        self._point = Point(REGION)
        self._awaits = Awaits(spans.sites.is_program)
        spans.sites.on_thread = self._thread_came

    def _thread_came(self) -> None:
        """Another thread has its first span: what it waits for counts from now on."""
        if not compiled.NATIVE:
            return
        sites = self._spans.sites
        rows = self._spans.room.rows
        compiled.record_waits(rows, sites.program, self._site, self._failed, LEAST_NS)
        if not self._begun:
            self._begun = True
            sites.on_site.append(self._awaits.note)
            for name, timed in _TIMED.items():
                self._after_import(name, _timing(timed))

    def end(self) -> None:
        """Record no more."""
        if self._begun:
            compiled.record_waits(None, None, None, None, 0)

    def _site(self, inner: FrameType, near: FrameType, name: str) -> int | None:
        """The site of a wait in the C function ``name`` that ``inner`` called; minus it for this alone."""
        spans = self._spans
        if not spans.sites.knows_thread():
            return None
        called = spans.sites.called(inner, name)
        place = spans.sites.place(near)  # None while the interpreter ends
        if called is None or place is None or self._is_known():
            return 0
        if called == EVENT_LOOP:
            return -self._awaited()
        return spans.sites.number(place=place, of=None, region=REGION, what=called, selector=called)

    def _awaited(self) -> int:
        """The site of what the event loop waits for this time."""
        sites = self._spans.sites
        frame, called = self._awaits.awaited() or (None, EVENT_LOOP)
        place = None if frame is None else sites.place(frame)
        return sites.number(place=place, of=None, region=REGION, what=called, selector=called)

    def _failed(self, error: BaseException) -> None:
        """What was raised while a wait was recorded; raises what is the program's own."""
        if not isinstance(error, Exception):
            raise error
        failed(self._point, error)

    def _is_known(self) -> bool:
        """Whether the thread is in a call that says what it waits for."""
        stacks = self._spans.calls.stacks
        return any(
            entry[1] > 0 and getattr(entry[0], "region", None) == region
            for region, level in _FULFILLED.items()
            for entry in stacks(level).stack
        )


def _timing(timed: dict[str, tuple[int, str]]) -> Callable[[Any], None]:
    """What is to be done with a module of :data:`_TIMED` once it is there."""

    def time(module: Any) -> None:
        for where, (kind, names) in timed.items():
            holder = module if where in ("", "*") else getattr(module, where, None)
            for name in names.split():
                function = None if holder is None else vars(holder).get(name)
                if function is not None:
                    compiled.time_calls(function, kind)
        if hasattr(module, "poll"):  # its type has no name
            compiled.time_calls(vars(type(module.poll()))["poll"], _PLAIN)

    return time
