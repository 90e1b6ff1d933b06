"""Where hooks put spans: rows of four integers in mapped memory, without a call into the bus."""

from __future__ import annotations

from _thread import RLock
from struct import Struct, error

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable

    Add = Callable[[int, int, int, int], None]
    """``add(start_ns, end_ns, payload, site)``."""

ROW = 32
_NO_ROOM = memoryview(bytearray())
_pack = Struct("=4q").pack_into


class Room:
    """The rows of one process. ``grow()`` gives the next piece of memory, and raises OSError or
    ValueError when there is none: then ``lose(1, error)`` is told of each row."""

    def __init__(
        self, grow: Callable[[], memoryview], lose: Callable[[int, Exception], None]
    ) -> None:
        self.add, self.renew, self.full = _make(grow, lose)


def _make(
    grow: Callable[[], memoryview], lose: Callable[[int, Exception], None]
) -> tuple[Add, Callable[[], None], Add]:
    view = _NO_ROOM
    index = 0
    busy = False
    lock = RLock()  # a destructor or a signal handler may come by while its own thread is in here
    pack = _pack

    def add(start: int, end: int, payload: int, site: int) -> None:
        nonlocal index
        # A place in the room as it is now: no other thread runs in these lines, there is no call.
        at = index
        index = at + ROW
        try:
            pack(view, at, start, end, payload, site)
        except error:
            full(start, end, payload, site)

    def full(start: int, end: int, payload: int, site: int) -> None:
        """Every thread that came too late for the old room comes through here, one by one."""
        nonlocal view, index, busy
        with lock:
            if busy:
                lose(1, OSError("no room while room was being made"))
                return
            busy = True
            try:
                if not kept(start, end, payload, site):
                    view = _NO_ROOM  # let go of the old room before asking for more
                    # Others come by in the meantime, find no room, and wait for the lock.
                    fresh = grow()
                    view, index = fresh, 0
                    pack(view, take(), start, end, payload, site)
            except (OSError, ValueError, error) as problem:
                lose(1, problem)
            finally:
                busy = False

    def kept(start: int, end: int, payload: int, site: int) -> bool:
        try:
            pack(view, take(), start, end, payload, site)
        except error:
            return False
        return True

    def take() -> int:
        nonlocal index
        at = index
        index = at + ROW
        return at

    def renew() -> None:
        """After a fork: the room is the parent's, and so is whoever was in here."""
        nonlocal view, index, busy, lock
        view, index, busy, lock = _NO_ROOM, 0, False, RLock()

    return add, renew, full
