"""The region ``wait``: a thread that trains is blocked in a function of the standard library.

Whatever waits there (for a queue, a lock, an event, a future, a socket, a pipe, a child) ends in one of the C
functions of :data:`_TIMED`. Their calls are timed in C (``native/waits.c``), from the moment on at which the
process records its first span. Calls that take long become spans, but only in threads that record spans of
something else as well, and only where no other region says already what is waited for.
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
"""Waits that are shorter are not recorded, in nanoseconds."""
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
"""The functions to time: by module, then by the class in it (``""`` for none), with how they are called."""
_FULFILLED = {
    "io": "forward",
    "io.start": "io.start",
    "comm": "comm",
    "sync": "sync",
    REGION: REGION,
}
"""Regions that say already what is waited for, with the levels of their stacks."""


class Waits:
    """Records the waits of one process."""

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
        """Begin to record, or go on: a thread has its first span, so its waits count from now on."""
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
        """Record no more waits."""
        if self._begun:
            compiled.record_waits(None, None, None, None, 0)

    def _site(self, inner: FrameType, near: FrameType, name: str) -> int | None:
        """Return the site of a wait in the C function ``name`` that ``inner`` called.

        ``near`` is the nearest frame of the program. Returns 0 where the calls made there are never to be
        recorded, None where this call is not, and minus the site where the next call may have another one.
        """
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
        """Return the site of the ``await`` for which the event loop waits this time."""
        sites = self._spans.sites
        frame, called = self._awaits.awaited() or (None, EVENT_LOOP)
        place = None if frame is None else sites.place(frame)
        return sites.number(place=place, of=None, region=REGION, what=called, selector=called)

    def _failed(self, error: BaseException) -> None:
        """Report what was raised while a wait was recorded; raise what is the program's own."""
        if not isinstance(error, Exception):
            raise error
        failed(self._point, error)

    def _is_known(self) -> bool:
        """Whether the thread is in a region that says what it waits for."""
        stacks = self._spans.calls.stacks
        return any(
            entry[1] > 0 and getattr(entry[0], "region", None) == region
            for region, level in _FULFILLED.items()
            for entry in stacks(level).stack
        )


def _timing(timed: dict[str, tuple[int, str]]) -> Callable[[Any], None]:
    """Return what times the functions of a module of :data:`_TIMED`, once that is imported."""

    def time(module: Any) -> None:
        for class_name, (kind, names) in timed.items():
            holder = module if class_name in ("", "*") else getattr(module, class_name, None)
            for name in names.split():
                function = None if holder is None else vars(holder).get(name)
                if function is not None:
                    compiled.time_calls(function, kind)
        if hasattr(module, "poll"):  # the type of poll objects has no name in `select`
            compiled.time_calls(vars(type(module.poll()))["poll"], _PLAIN)

    return time
