"""Hooks at calls of objects written in C, such as those that ``jax.jit`` returns.

These run no Python that could be rewritten, and nothing can be put in their place: the program may compare,
pickle or inspect them. So C code comes in between where their type is called (``native/objects.c``), which
calls the hooks here from the frame that calls the object. No frame of ours is on the stack while it runs.
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
"""The variables of such a call: the object itself, and a tuple of its arguments without their names."""


def object_calls(
    point: Point,
    hooks: SpanHooks,
    captures: tuple[str, ...],
    began: Callable[[Any, Any], bool],
    ended: Callable[[Any, Any], None],
) -> Callable[[Any], bool]:
    """Return a function that has ``hooks`` called around the calls of an object, and says whether it can.

    Called with a type instead, it has them called where an object of that type lends its memory, which is a
    call without arguments.

    ``began(thing, args)`` says whether a call counts; ``ended(thing, result)`` is called at the end of each,
    with MISSING where it raised. ``captures`` are those of SELF and ARGS that the region's functions take.
    """
    enter, leave = hooks.enter, hooks.leave
    has_both = captures == (SELF, ARGS)
    order = [(SELF, ARGS).index(name) for name in captures]
    withdrawn = False  # what is in between stays there, and asks for nothing more then

    def begin(thing: Any, args: Any) -> bool | None:
        if withdrawn:
            return None
        try:
            if began(thing, args):
                if has_both:
                    enter(True, thing, args)
                else:
                    enter(True, *[(thing, args)[index] for index in order])
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
        attach_to = compiled.hear_lending if isinstance(thing, type) else compiled.hear_calls
        return attach_to(thing, begin, end)

    return attach
