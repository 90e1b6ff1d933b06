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


class Gate:
    """The gate of one region. Each thread, and each task of an event loop, is inside by itself."""

    def __init__(self, region: str) -> None:
        self.name = f"injector:({region})"
        """Under which builtins have what rewritten code calls: no legal identifier."""
        inside: ContextVar[bool] = ContextVar(self.name, default=False)
        self.set: Callable[[bool], object] = inside.set
        vars(builtins)[self.name] = inside.get
