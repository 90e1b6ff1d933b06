"""Whether a thread is inside of an outermost call: rewritten code asks it in C, for 10 ns a call.

The modules of a model call each other some hundred times a step, and only the outermost call is of
interest. Behind a gate that says "inside", a function runs as it was written.
"""

from __future__ import annotations

import builtins
from _contextvars import ContextVar

from . import compiled

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable


class Gate:
    """The gate of one level. Each thread is inside by itself; so is each task of an event loop."""

    def __init__(self, level: str) -> None:
        self.name = f"injector:({level})"
        """Under which builtins have what rewritten code calls: no legal identifier."""
        inside: ContextVar[bool] = ContextVar(self.name, default=False)
        self._get = inside.get
        self.set: Callable[[bool], object] = inside.set
        """Of the present task: compiled hooks need not say so, as long as they have calls on stacks only."""
        vars(builtins)[self.name] = inside.get

    def follow(self, stacks: compiled.Stacks) -> None:
        """A call is open where there is one on the stack of the present thread."""
        if compiled.NATIVE:
            self._stacks = stacks
            vars(builtins)[self.name] = stacks.inside

    def ask_tasks(self) -> None:
        """There are calls that lie on no stack, since each task has its own."""
        if compiled.NATIVE:
            self._stacks.apart = self._get
