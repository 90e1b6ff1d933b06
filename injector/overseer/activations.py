"""The activations of outer functions that are around the place that fires (``f > g > x``).

An activation is one call of a function that has not returned. Rewritten code notes where each begins and ends
(:meth:`Activations.publish`); from these, :func:`chains` finds which calls of ``f`` and ``g`` the present one
lies in. They are kept in context variables, so that threads and tasks of an event loop see their own.
"""

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
    """A frame (of a module, its namespace), and the number of its entry."""

    _Node = tuple[FrameType, Any, int]
    """A frame, the node of the activation around it, and the number of its entry.

    A linked list that is never changed, since tasks share its tail with the one that has created them.
    """

_entries = count()
"""Numbers of entries: what was entered later has a larger one."""
_LATEST = sys.maxsize


class Activations:
    """The activations of one function, of each thread and each task.

    ``outer`` are those of the function that an activation must lie in to count. With ``module``, the function
    is the code of a module: that is active all the time, since its functions belong to it.
    """

    __slots__ = ("_module", "_outer", "_stack", "_suspends")

    def __init__(self, outer: Activations | None, module: str | None = None) -> None:
        self._outer = outer
        self._module = module
        self._suspends = False
        """Whether an activation was a generator's, which may be suspended in a ``yield from``."""
        self._stack: ContextVar[_Node | None] = ContextVar("injector scope", default=None)

    def publish(self, hook: str) -> None:
        """Put what rewritten code calls where the function is entered and left into builtins.

        The names are those of ``hook`` with a ``+`` and a ``-``.
        """
        stack, outer = self._stack, self._outer

        def enter() -> None:
            if outer is not None and outer.current() is None:
                return
            frame, node = sys._getframe(1), stack.get()
            if frame.f_code.co_flags & _SUSPENDABLE:
                self._suspends = True
                if _holds(node, frame):
                    return  # it goes on in a handler of its own, and was never left
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
        """A function that does what :meth:`current` does, in the shortest way: each event inside calls it."""
        if self._module is not None:
            return self.current
        get = self._stack.get

        def active() -> Any:
            return self.current() if self._suspends else get()

        return active

    def current(self) -> Any:
        """Return the frame of the innermost activation (of a module, its namespace), or None."""
        return next((frame for frame, _ in self.activations()), None)

    def activations(self, before: int = _LATEST) -> Iterator[Activation]:
        """Yield the activations that were entered ``before`` an entry, the innermost first."""
        if self._module is not None:
            module = sys.modules.get(self._module)
            if module is not None:
                yield module.__dict__, before
            return
        node = self._stack.get()
        while node is not None:
            # The frame of a generator has a caller only while it runs.
            if node[2] < before and not (self._suspends and node[0].f_back is None):
                yield node[0], node[2]
            node = node[1]


def chains(
    scopes: Sequence[Activations], inside: Any, before: int = _LATEST
) -> Iterator[list[Activation]]:
    """Yield each choice of one activation of each scope such that each lies inside of the one before it.

    ``inside`` is the frame that they are all around. Recursive functions give several choices.
    """
    if not scopes:
        yield []
        return
    for activation in scopes[-1].activations(before):
        if activation[0] is not inside:
            for outer in chains(scopes[:-1], *activation):
                yield [*outer, activation]


_SUSPENDABLE = 0x20 | 0x200
"""Flags of the code of generators and async generators."""


def _holds(node: _Node | None, frame: FrameType) -> bool:
    """Whether ``frame`` is in the list that begins with ``node``."""
    while node is not None and node[0] is not frame:
        node = node[1]
    return node is not None


def _without(node: _Node, frame: FrameType) -> _Node | None:
    """Return the list that begins with ``node`` without ``frame``, which may lie anywhere in it.

    That is where a generator is closed: its end may come in any frame.
    """
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
    """Return the program's frame from which a hook was called: the nearest that is none of ours.

    For a function without Python code, it is the frame of what stands in for it.
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
"""The module of stand-ins for functions without Python code. Few programs need one, so it is not imported."""
