"""What runs between two steps: compiled where that could be, else in Python.

``INJECT_NATIVE=0`` in the environment has it in Python all the same, so that the two can be compared.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

    from .plain import (
        Computed,
        Delegate,
        Hooks,
        Nearest,
        Pair,
        Path,
        Rows,
        Shortcut,
        Stacks,
        Stored,
        Timed,
        Turns,
        hear_calls,
        hear_lending,
        know_tensors,
        record_waits,
        time_calls,
    )

    NATIVE = False


def _is_stale(module: str) -> bool:
    """Whether a checkout has sources that are younger than what was compiled from them."""
    try:
        with os.scandir(os.path.join(os.path.dirname(__file__), "native")) as sources:
            youngest = max(source.stat().st_mtime_ns for source in sources)
    except (OSError, ValueError):  # it is no checkout
        return False
    return youngest > os.stat(module).st_mtime_ns


def learn_tensors(torch: Any) -> None:
    """Have the numbers in tensors, and how many there are, read from C: of this torch, once it is there."""
    functions: Any = getattr(torch, "_C", None)
    try:
        know_tensors(
            torch.Tensor,
            functions.TensorBase,
            functions._is_tracing,
            functions._len_torch_function_stack,
            (torch.float32, torch.float64),
            (torch.int32, torch.int64),
            getattr(torch.Tensor, "__dlpack_c_exchange_api__", None),  # from 2.10 on
        )
    except (AttributeError, TypeError):
        pass  # half imported, or another torch than we know: it is read as before


__all__ = [
    "NATIVE",
    "Computed",
    "Delegate",
    "Hooks",
    "Nearest",
    "Pair",
    "Path",
    "Rows",
    "Shortcut",
    "Stacks",
    "Stored",
    "Timed",
    "Turns",
    "hear_calls",
    "hear_lending",
    "know_tensors",
    "learn_tensors",
    "record_waits",
    "time_calls",
]


def _twins(module: Any) -> dict[str, Any]:
    """What a module has of what is there twice. Raises AttributeError where something is lacking."""
    return {name: getattr(module, name) for name in __all__ if name not in globals()}


if not TYPE_CHECKING:
    try:
        if os.environ.get("INJECT_NATIVE") == "0":
            raise ImportError
        from . import _native

        if _is_stale(_native.__file__):
            raise ImportError
        NATIVE = True
        globals().update(_twins(_native))
    except (ImportError, AttributeError):
        from . import plain

        NATIVE = False
        globals().update(_twins(plain))
