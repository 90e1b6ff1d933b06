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
OPEN = 64
"""How many stacks of calls can be told apart; the first place is that of all others."""
_NO_ROOM = memoryview(bytearray())
_pack = Struct("=4q").pack_into


class Room:
    """The rows of one process. ``grow()`` gives the next piece of memory, and raises OSError or
    ValueError when there is none: then ``lose(1, error)`` is told of each row.

    ``head()`` gives the :data:`OPEN` integers at the head of that memory, None as long as there is
    none. They tell who watches from outside which calls have begun and not ended.
    """

    def __init__(
        self,
        grow: Callable[[], memoryview],
        lose: Callable[[int, Exception], None],
        head: Callable[[], memoryview | None] = lambda: None,
    ) -> None:
        self._head = head
        self.opened = _nowhere()
        """For each stack of calls (its ``slot``) the site of the call that is open, 0 for none."""
        self.on_open: Callable[[], None] = lambda: None
        """Called when :attr:`opened` is another one."""
        self.add, self._renew, self.full = _make(grow, lose, self._moved)

    def renew(self) -> None:
        """In the child of a fork: what is there is the parent's."""
        self.opened = _nowhere()
        self._renew()
        self.on_open()

    def _moved(self) -> None:
        head = self._head()
        if head is not None and head is not self.opened:
            head[:] = self.opened
            self.opened = head
            self.on_open()


def _nowhere() -> memoryview:
    """Where calls are noted as long as there is no file, for nobody to see."""
    return memoryview(bytearray(8 * OPEN)).cast("q")


def _make(
    grow: Callable[[], memoryview],
    lose: Callable[[int, Exception], None],
    moved: Callable[[], None],
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
                    moved()
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
