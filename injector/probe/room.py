"""Where hooks put spans: rows of four integers in mapped memory, without a call into the bus.

The kernel writes the memory to the file of the run even if the process is killed. Storing a row takes no lock
(:class:`.compiled.Rows`); only where a piece of memory is full, threads come through :meth:`Room.full`.
"""

from __future__ import annotations

from _thread import RLock

from .compiled import Rows

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable

    Add = Callable[[int, int, int, int], None]
    """``add(start_ns, end_ns, payload, site)``."""

OPEN = 64
"""How many stacks of calls have a place of their own in ``opened``; the first place is that of all others."""


class Room:
    """The rows of one process.

    ``grow()`` returns the next piece of memory, and raises OSError or ValueError when there is none: then
    ``lose(1, error)`` is called for each row. ``head()`` returns the :data:`OPEN` integers at the head of the
    memory, or None as long as there is none. From these, other processes see which calls are open.
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
        """Begin anew in the child of a fork, whose parent has the memory, and may have held the lock."""
        self._busy = False
        # One that its thread can take again: a destructor or a signal handler may run inside of `full`.
        self._lock = RLock()
        self.rows.age += 1
        self.rows.use(None)
        self._note_open_in(memoryview(bytearray(8 * OPEN)).cast("q"))  # seen by no other process

    def full(self, start: int, end: int, payload: int, site: int) -> None:
        """Store a row for which there was no room, and make room for it. Threads wait here for each other."""
        with self._lock:
            if self._busy:  # the same thread, by a destructor or a signal handler
                self._lose(1, OSError("no room while room was being made"))
                return
            self._busy = True
            try:
                # Other threads store rows without the lock, and may have filled the new room by now.
                while not self.rows.put(start, end, payload, site):
                    self._use_next()
            except (OSError, ValueError, OverflowError) as problem:
                self._lose(1, problem)
            finally:
                self._busy = False

    def _use_next(self) -> None:
        """Have rows go into the next piece of memory. Raises OSError or ValueError where there is none."""
        # `_grow` unmaps the old piece, which could not be while a view of it is in use.
        self.rows.use(None)
        self.rows.use(self._grow())
        head = self._head()
        if head is not None and head is not self.opened:
            head[:] = self.opened
            self._note_open_in(head)

    def _note_open_in(self, places: memoryview) -> None:
        """Have the sites of open calls noted in ``places``."""
        self.opened = places
        """For each stack of calls (by its ``slot``) the site of the call that is open, 0 for none."""
        self.rows.watch(places)
