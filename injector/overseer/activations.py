"""Which activations of outer functions lead down to the place that fires (``f > g > x``)."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from itertools import count

from ..probe.points import define_raw

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType
    from typing import Any

    Activation = tuple[Any, int]
    """A frame (a module's namespace), and when it was entered."""

    _Node = tuple[FrameType, Any, int]
    """A frame, the node below it, and when it was entered: a linked list, so that tasks can share its
    tail."""

_entries = count()
_LATEST = sys.maxsize


class Activations:
    """The live activations of one function, per thread and per task.

    ``outer`` is the scope that an activation must lie in to count. A ``module`` is a scope that is
    always active: its own level holds everything that its functions do.
    """

    __slots__ = ("_module", "_outer", "_stack", "_suspends")

    def __init__(self, outer: Activations | None, module: str | None = None) -> None:
        self._outer = outer
        self._module = module
        self._suspends = False
        """Whether an activation was one of a generator: it may be suspended in a ``yield from``."""
        self._stack: ContextVar[_Node | None] = ContextVar("injector scope", default=None)

    def publish(self, hook: str) -> None:
        """Put the callables that rewritten code calls on entry and exit under ``hook``."""
        stack, outer = self._stack, self._outer

        def enter() -> None:
            if outer is not None and outer.current() is None:
                return
            frame, node = sys._getframe(1), stack.get()
            if frame.f_code.co_flags & _SUSPENDABLE:
                self._suspends = True
                if _holds(node, frame):
                    return  # it was never left: it handles an exception of its own
            stack.set((frame, node, next(_entries)))

        def leave() -> None:
            node = stack.get()
            if node is not None:
                frame = sys._getframe(1)
                stack.set(node[1] if node[0] is frame else _without(node, frame))

        define_raw(hook + "+", enter)
        define_raw(hook + "-", leave)

    @property
    def active(self) -> Callable[[], Any]:
        """What :meth:`current` does, by the shortest way: it runs at each event inside."""
        if self._module is not None:
            return self.current
        get = self._stack.get

        def active() -> Any:
            return self.current() if self._suspends else get()

        return active

    def current(self) -> Any:
        """The innermost activation's frame (a module scope: its namespace), or ``None``."""
        return next((found for found, _ in self.activations()), None)

    def activations(self, before: int = _LATEST) -> Iterator[Activation]:
        """The activations entered ``before`` a moment, the innermost first."""
        if self._module is not None:
            module = sys.modules.get(self._module)
            if module is not None:
                yield module.__dict__, before
            return
        node = self._stack.get()
        while node is not None:
            # A frame that runs has one that called it: one without is suspended in a `yield from`.
            if node[2] < before and not (self._suspends and node[0].f_back is None):
                yield node[0], node[2]
            node = node[1]


def chains(
    scopes: Sequence[Activations], inside: Any, before: int = _LATEST
) -> Iterator[list[Activation]]:
    """Each choice of one activation per scope, the outermost first, that lie inside of each other.

    ``inside`` is the frame that they are around. Of a recursive function there are several choices.
    """
    if not scopes:
        yield []
        return
    for found in scopes[-1].activations(before):
        if found[0] is not inside:
            for outer in chains(scopes[:-1], *found):
                yield [*outer, found]


_SUSPENDABLE = 0x20 | 0x200
"""Flags of the code of generators and async generators."""


def _holds(node: _Node | None, frame: FrameType) -> bool:
    while node is not None and node[0] is not frame:
        node = node[1]
    return node is not None


def _without(node: _Node, frame: FrameType) -> _Node | None:
    """``node`` without ``frame``: a generator may be closed from any frame."""
    above = []
    rest: _Node | None = node
    while rest is not None and rest[0] is not frame:
        above.append(rest)
        rest = rest[1]
    if rest is None:
        return node  # it was never entered here: closed in another thread or task
    rest = rest[1]
    for kept, _, entered in reversed(above):
        rest = (kept, rest, entered)
    return rest


def calling_frame() -> FrameType | None:
    """The program's frame that a hook was called from: the first that is none of ours.

    What stands for a function without Python code is that function's frame.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if not name.startswith("injector."):
            break
        if frame.f_code.co_name == "__call__" and name == _STAND_INS:
            break
        frame = frame.f_back
    return frame


_STAND_INS = "injector.rewrite.wrapping"
"""Named and not imported: few programs need one."""
