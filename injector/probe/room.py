"""Where hooks put spans: rows of four integers in mapped memory, without a call into the bus."""

from __future__ import annotations

from _thread import RLock

from .compiled import Rows

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable

    Add = Callable[[int, int, int, int], None]
    """``add(start_ns, end_ns, payload, site)``."""

OPEN = 64
"""How many stacks of calls have a place of their own; the first place is that of all others."""


class Room:
    """The rows of one process. ``grow()`` gives the next piece of memory, and raises OSError or
    ValueError when there is none: then ``lose(1, error)`` is called for each row.

    ``head()`` gives the :data:`OPEN` integers at the head of that memory, None as long as there is
    none. They tell who watches from outside which calls have begun and not ended.
    """

    def __init__(
        self,
        grow: Callable[[], memoryview],
        lose: Callable[[int, Exception], None],
        head: Callable[[], memoryview | None] = lambda: None,
    ) -> None:
        self._grow = grow
        self._lose = lose
        self._head = head
        self.rows = Rows(self.full)
        self.add: Add = self.rows.add
        self.renew()

    def renew(self) -> None:
        """In the child of a fork: what is there is the parent's, and so is a thread that was in here."""
        self._busy = False
        # A destructor or a signal handler may come by while its own thread is in here.
        self._lock = RLock()
        self.rows.age += 1
        self.rows.use(None)
        self._open(memoryview(bytearray(8 * OPEN)).cast("q"))  # seen by no other process

    def full(self, start: int, end: int, payload: int, site: int) -> None:
        """Every thread that came too late for the old room comes through here, one by one."""
        with self._lock:
            if self._busy:
                self._lose(1, OSError("no room while room was being made"))
                return
            self._busy = True
            try:
                # Others come by while room is made, find none, and wait for the lock; and again.
                while not self.rows.put(start, end, payload, site):
                    self._next()
            except (OSError, ValueError, OverflowError) as problem:
                self._lose(1, problem)
            finally:
                self._busy = False

    def _next(self) -> None:
        self.rows.use(None)  # let go of the old room before asking for more
        self.rows.use(self._grow())
        head = self._head()
        if head is not None and head is not self.opened:
            head[:] = self.opened
            self._open(head)

    def _open(self, places: memoryview) -> None:
        self.opened = places
        """For each stack of calls (its ``slot``) the site of the call that is open, 0 for none."""
        self.rows.watch(places)
