"""Hooks that store the numbers they see themselves: the cheapest way to keep a value."""

from __future__ import annotations

from _thread import RLock

from . import compiled
from .points import Point, failed, publish

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class StoringHook(compiled.Stored):
    """Stores numbers where ``grow()`` says, which gives views of times and values, both float64.

    It raises OSError or ValueError when there is no room: then ``keep(value)`` is called.
    ``number(value)`` makes a number of what is no float, or ``None`` when there is nothing to store.
    """

    def __init__(
        self,
        point: Point,
        grow: Callable[[], tuple[Any, Any]],
        number: Callable[[Any], float | None],
        keep: Callable[[float], None],
    ) -> None:
        super().__init__(number)
        self._point = point
        self._grow = grow
        self._keep = keep
        self._lock = RLock()
        self._busy = False
        point.read = lambda: self.fired
        point.renew = self.renew

    def failed(self, error: BaseException) -> None:
        """There is no number of a value."""
        failed(self._point, error)

    def full(self, number: float) -> None:
        """Every thread that came too late for the old room comes through here, one by one."""
        try:
            with self._lock:
                if self._busy or not self._placed(number):
                    self.before += 1
                    self._keep(number)
        except BaseException as error:
            failed(self._point, error)

    def _placed(self, number: float) -> bool:
        self._busy = True
        try:
            # Others come by while room is made, find none, and wait for the lock; and again.
            while not self.put(number):
                self.use(None, None)  # let go of the old room before asking for more
                self.use(*self._grow())
            return True
        except (OSError, ValueError):
            return False
        finally:
            self._busy = False

    def renew(self) -> None:
        """After a fork: the room is the parent's."""
        self._lock = RLock()
        self._busy = False
        self.use(None, None)


def define_stored(
    name: str,
    grow: Callable[[], tuple[Any, Any]],
    number: Callable[[Any], float | None],
    keep: Callable[[float], None],
    active: Callable[[], object] | None = None,
) -> Point:
    """Put a hook under ``name`` that stores each number with its time, as :class:`StoringHook` does.

    ``active`` is as for ``define``.
    """
    point = Point(name)
    publish(point, StoringHook(point, grow, number, keep).hook, active=active)
    return point


def stored_call(
    name: str,
    grow: Callable[[], tuple[Any, Any]],
    number: Callable[[Any], float | None],
    keep: Callable[[float], None],
    get: Callable[..., Any],
    late: bool,
) -> tuple[Point, Callable[..., Any]]:
    """A point that is not published yet, and its hook: it stores ``get`` of the call's variables.

    If ``late``, ``get`` is given what the call returned before these. None is no value.
    """
    point = Point(name)
    return point, compiled.Computed(StoringHook(point, grow, number, keep), get, late)
