"""What runs at every event of a training step: in C where that could be compiled, else in Python.

The names here are those of the C extension ``_native`` or of its twin :mod:`.plain`, which pass the same
tests. With ``INJECT_NATIVE=0`` in the environment they are the twin's, so that the two can be compared.
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
    """Whether a checkout has C sources that are newer than ``module``, which was compiled from them."""
    try:
        with os.scandir(os.path.join(os.path.dirname(__file__), "native")) as sources:
            youngest = max(source.stat().st_mtime_ns for source in sources)
    except (OSError, ValueError):  # an installed package has no sources
        return False
    return youngest > os.stat(module).st_mtime_ns


def learn_tensors(torch: Any) -> None:
    """Have tensors of ``torch``, once that is imported, read in C: their numbers, and how many there are."""
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
        pass  # half imported, or of a version that is not known: tensors are read by PyTorch's Python


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
    """Return what ``module`` has of the names that exist in C and in Python.

    Raises AttributeError where one is lacking: an extension of another version lies beside this file.
    """
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
