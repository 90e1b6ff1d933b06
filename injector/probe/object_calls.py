"""Hooks at calls of objects that are written in C: they run no Python, and nothing is put in their place.

Compiled code stands in between (``native/objects.c``), and calls what is here from the frame that calls the
object. No frame of ours is on the stack while the object runs.
"""

from __future__ import annotations

from . import compiled, points
from .points import MISSING, Point, failed

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .calls import SpanHooks

SELF, ARGS = "self", "args"
"""The object that is called; a tuple of its arguments, without their names."""


def object_calls(
    point: Point,
    hooks: SpanHooks,
    captures: tuple[str, ...],
    began: Callable[[Any, Any], bool],
    ended: Callable[[Any, Any], None],
) -> Callable[[Any], bool]:
    """What has the ``hooks`` of one region called around the calls of an object, and says whether it can.

    Of a type, it is where an object of that type lends its memory, without arguments.

    ``began(thing, args)`` says whether a call counts; ``ended(thing, result)`` hears of the end of each, with
    MISSING where it raised. ``captures`` are those of SELF and ARGS that the region's functions are given.
    """
    enter, leave = hooks.enter, hooks.leave
    has_both = captures == (SELF, ARGS)
    order = [(SELF, ARGS).index(name) for name in captures]
    withdrawn = False

    def begin(thing: Any, args: Any) -> bool | None:
        if withdrawn:
            return None
        try:
            if began(thing, args):
                if has_both:
                    enter(True, thing, args)
                else:
                    enter(True, *[(thing, args)[each] for each in order])
                return True
        except BaseException as error:
            failed(point, error)
        return False

    def end(thing: Any, entered: bool, result: Any = MISSING) -> None:
        try:
            if entered:
                leave(True)
            ended(thing, result)
        except BaseException as error:
            failed(point, error)

    def withdraw() -> None:
        nonlocal withdrawn
        withdrawn = True

    points.defined[point.name] = point
    points.on_undefine[point.name] = withdraw

    def attach(thing: Any) -> bool:
        hear = compiled.hear_lending if isinstance(thing, type) else compiled.hear_calls
        return hear(thing, begin, end)

    return attach
