"""Hooks that store the numbers they see themselves: the cheapest way to keep a value.

The general hook calls a handler; this one has the handler's work inlined, which is what brings it
down to the cost of its two stores and the clock.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic

from .points import Point, failed, publish

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_NO_ROOM = memoryview(bytearray())


def define_stored(
    name: str,
    grow: Callable[[], tuple[Any, Any]],
    number: Callable[[Any], float | None],
    keep: Callable[[float], None],
    active: Callable[[], object] | None = None,
) -> Point:
    """Put a hook under ``name`` that stores each number with its time.

    ``grow()`` gives views of times (monotonic seconds) and values to fill, both float64, and raises
    when there is no room: then ``keep(value)`` is told. ``number(value)`` makes a number of what is
    no float, or ``None`` when there is nothing to store. ``active`` is as for ``define``.
    """
    point = Point(name)
    times: Any = _NO_ROOM
    values: Any = _NO_ROOM
    index = 0
    before = 0
    lock = allocate_lock()
    clock = monotonic

    def hook(value: Any) -> Any:
        nonlocal index
        kind = type(value)
        if kind is float or kind is int or kind is bool:
            # A place in the room as it is now: no other thread runs in these lines, there is no call.
            at = index
            index = at + 1
            v = values
            t = times
            try:
                v[at] = value
                t[at] = clock()
            except IndexError:
                v = t = None  # or the old room could not be given back
                guarded_full(value)
            except ValueError:  # the time of its place stays 0
                failed(point, OverflowError("int too large to convert to float"))
        else:
            other(value)
        return value

    def guarded_full(value: float) -> None:
        try:
            full(float(value))
        except BaseException as error:
            failed(point, error)

    def other(value: Any) -> None:
        nonlocal before
        before += 1
        try:
            found = number(value)
            if found is not None:
                before -= 1
                hook(found)
        except BaseException as error:
            failed(point, error)

    def full(value: float) -> None:
        """Every thread that came too late for the old room comes through here, one by one."""
        nonlocal times, values, index, before
        with lock:
            if index > len(values):
                before += len(values)
                times = values = _NO_ROOM  # let go of the old room before asking for more
                try:
                    room = grow()
                except (OSError, ValueError):
                    index = 0
                    before += 1
                    keep(value)
                    return
                # Only now: others come by in the meantime, find no room, and wait for the lock.
                times, values = room
                index = 0
            at = index
            index = at + 1
            v = values
            t = times
            v[at] = value
            t[at] = clock()

    def renew() -> None:
        """After a fork: the room is the parent's."""
        nonlocal times, values, index, before
        before += index
        times = values = _NO_ROOM
        index = 0

    point.read = lambda: before + index
    point.renew = renew
    publish(point, hook, active=active)
    return point
