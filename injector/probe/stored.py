"""Hooks that store the numbers that they are called with: the cheapest way to record a value.

A number goes into mapped memory in C (:class:`.compiled.Stored`). Only what is no number, or finds no room,
comes to :class:`StoringHook`.
"""

from __future__ import annotations

from _thread import RLock

from . import compiled
from .points import Point, failed, publish

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class StoringHook(compiled.Stored):
    """Stores numbers with their times in two views of float64, of times and values, that ``grow()`` returns.

    Where ``grow`` raises OSError or ValueError, since there is no room, ``keep(number)`` is called.
    ``number(value)`` makes a number of what is none; None where there is nothing to store.
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
        """Report what was raised while a number was made of a value."""
        failed(self._point, error)

    def full(self, number: float) -> None:
        """Store a number for which there was no room, and make room. Threads wait here for each other."""
        try:
            with self._lock:
                if self._busy or not self._placed(number):
                    self.before += 1
                    self._keep(number)
        except BaseException as error:
            failed(self._point, error)

    def _placed(self, number: float) -> bool:
        """Make room until ``number`` is stored. Returns whether it is."""
        self._busy = True
        try:
            # Other threads store numbers without the lock, and may have filled the new room by now.
            while not self.put(number):
                # `_grow` unmaps it, which could not be while a view of it is in use.
                self.use(None, None)
                self.use(*self._grow())
            return True
        except (OSError, ValueError):
            return False
        finally:
            self._busy = False

    def renew(self) -> None:
        """Begin anew in the child of a fork: the memory is the parent's."""
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
    """Put a :class:`StoringHook` into builtins as ``name``; ``active`` is as for :func:`.points.define`."""
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
    """Return a point that is not published yet, and its hook, which stores ``get`` of the call's variables.

    If ``late``, ``get`` takes what the call returned before these. None is no value.
    """
    point = Point(name)
    return point, compiled.Computed(StoringHook(point, grow, number, keep), get, late)
