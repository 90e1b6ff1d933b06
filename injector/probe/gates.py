"""Whether a thread is inside of an outermost call: rewritten code asks it in C, for 10 ns a call.

The modules of a model call each other some hundred times a step, and only the outermost call is of
interest. Behind a gate that says "inside", a function runs as it was written.
"""

from __future__ import annotations

import builtins
from _contextvars import ContextVar

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable

    from . import compiled


class Gate:
    """The gate of one level. Each thread is inside by itself; so is each task of an event loop."""

    def __init__(self, level: str) -> None:
        self.name = f"injector:({level})"
        """Under which builtins have what rewritten code calls: no legal identifier."""
        inside: ContextVar[bool] = ContextVar(self.name, default=False)
        self._get = inside.get
        self.set: Callable[[bool], object] = inside.set
        """Of the present task: for calls that lie on no stack."""

    def follow(self, stacks: compiled.Stacks) -> None:
        """A call is open where there is one on the stack of the present thread."""
        self._stacks = stacks
        vars(builtins)[self.name] = stacks.inside

    def ask_tasks(self) -> None:
        """There are calls that lie on no stack, since each task has its own."""
        self._stacks.apart = self._get
