"""Which activations of an outer function lead down to the place that fires (``f > g > x``)."""

from __future__ import annotations

import sys
from contextvars import ContextVar

from ..probe import MISSING, define_raw
from ..variables import follow, read_name, read_variable

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from ..rewrite.selector import Element

    _Node = tuple[FrameType, Any]
    """A frame and the node below it: a linked list, so that tasks can share its tail."""


class Scope:
    """The live activations of one function, per thread and per task.

    ``outer`` is the scope that an activation must lie in to count. A ``module`` is a scope that is
    always active: its own level holds everything that its functions do.
    """

    __slots__ = ("_module", "_outer", "_stack", "_suspends")

    def __init__(self, outer: Scope | None, module: str | None) -> None:
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
            stack.set((frame, node))

        def leave() -> None:
            node = stack.get()
            if node is not None:
                frame = sys._getframe(1)
                stack.set(node[1] if node[0] is frame else _without(node, frame))

        define_raw(hook + "+", enter)
        define_raw(hook + "-", leave)

    @property
    def active(self) -> Callable[[], Any]:
        """What :meth:`current` does, by the shortest way: it is asked at each event inside."""
        if self._module is not None:
            return self.current
        get = self._stack.get

        def active() -> Any:
            return self.current() if self._suspends else get()

        return active

    def current(self) -> Any:
        """The innermost activation's frame (a module scope: its namespace), or ``None``."""
        if self._module is not None:
            module = sys.modules.get(self._module)
            return None if module is None else module.__dict__
        node = self._stack.get()
        while node is not None and self._suspends and node[0].f_back is None:
            node = node[1]  # a frame that runs has one that called it
        return None if node is None else node[0]

    def around(self, frame: FrameType | None) -> list[FrameType]:
        """The frames of all activations but that of ``frame``, the innermost first."""
        frames, node = [], self._stack.get()
        while node is not None:
            if node[0] is not frame and not (self._suspends and node[0].f_back is None):
                frames.append(node[0])
            node = node[1]
        return frames

    def value_of(self, element: Element) -> Any:
        """What ``element`` has in the innermost activation, or ``MISSING``."""
        return meant(element, self.read(read_for(element)))

    def read(self, variable: str | None) -> Any:
        """The present value of ``variable`` in the innermost activation, or ``MISSING``."""
        found = self.current()
        if found is None or variable is None:
            return MISSING
        if isinstance(found, dict):
            root, *attributes = variable.split(".")
            return follow(read_name(found, root), attributes)
        return read_variable(found, variable)


_SUSPENDABLE = 0x20 | 0x200
"""Flags of the code of generators and async generators."""


def _holds(node: _Node | None, frame: FrameType) -> bool:
    while node is not None and node[0] is not frame:
        node = node[1]
    return node is not None


def _without(node: _Node, frame: FrameType) -> _Node | None:
    """``node`` without ``frame``: a generator may be closed by whoever happens to be running."""
    frames = []
    rest: _Node | None = node
    while rest is not None and rest[0] is not frame:
        frames.append(rest[0])
        rest = rest[1]
    if rest is None:
        return node  # it was never entered here: closed in another thread or task
    rest = rest[1]
    for kept in reversed(frames):
        rest = (kept, rest)
    return rest


def read_for(element: Element) -> str:
    """The variable to read for what comes along; of a loop, one that it sets."""
    name = element.name or ""
    return name[6:] if name.startswith("#loop_") else name


def meant(element: Element, found: Any) -> Any:
    """What ``found``, read for an element, says of it: an event that has been is True."""
    name = element.name or ""
    if name == "#enter":
        return True
    if name.startswith("#loop_") and found is not MISSING:
        return True
    return found


class Siblings:
    """What was last set in functions beside the one that fires, within one activation of the outer one."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._seen: dict[int, dict[str | None, Any]] = {}

    def add(self, element: Element, value: Any, *_: str) -> None:
        """A variable of a function beside was set."""
        frame = self._scope.current()
        if frame is not None:
            self._seen.setdefault(id(frame), {})[element.capture] = value

    def value_of(self, element: Element) -> Any:
        """What was set last, or ``MISSING``."""
        return self._seen.get(id(self._scope.current()), {}).get(element.capture, MISSING)

    def end(self, _: Any) -> None:
        """The hook of the outer function's ``#exit``."""
        self._seen.pop(id(calling_frame()), None)


class Totals:
    """``f(x, y)``: everything seen during one activation of ``f``, given when it ends."""

    def __init__(
        self,
        scope: Scope,
        names: list[str],
        deliver: Callable[[dict[str, Any]], Any],
        raw: bool,
    ) -> None:
        self._scope = scope
        self._names = frozenset(names)
        self._deliver = deliver
        self._raw = raw
        self._seen: dict[int, dict[str, list[tuple[str, Any]]]] = {}

    def add(self, element: Element, value: Any, name: str | None = None) -> None:
        """A variable was set, ``name`` where a wildcard stands for it."""
        frame = self._scope.current()
        if frame is not None and element.capture:
            seen = self._seen.setdefault(id(frame), {})
            seen.setdefault(element.capture, []).append((name or element.name or "", value))

    def end(self, _: Any) -> None:
        """The hook of the outermost function's ``#exit``."""
        seen = self._seen.pop(id(calling_frame()), {})
        if self._names <= set(seen):
            self._deliver({key: self._shown(key, values) for key, values in seen.items()})

    def _shown(self, key: str, values: list[tuple[str, Any]]) -> Any:
        if not self._raw:
            return values[-1][1]
        from .streams import Capture

        capture = Capture(key, values[-1][0], values[-1][1])
        capture.names = [name for name, _ in values]
        capture.values = [value for _, value in values]
        return capture


def calling_frame() -> FrameType | None:
    """The program's frame that a hook was called from: the first that is none of ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_globals.get("__name__") or "").startswith("injector."):
        frame = frame.f_back
    return frame
