"""What runs between two steps: compiled where that could be, else in Python.

``INJECT_NATIVE=0`` in the environment has it in Python all the same, so that the two can be compared.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from .delegate import Delegate
    from .plain import (
        Asked,
        Hooks,
        Nearest,
        Pair,
        Rows,
        Stacks,
        Stored,
        Timed,
        Turns,
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


if not TYPE_CHECKING:
    try:
        if os.environ.get("INJECT_NATIVE") == "0":
            raise ImportError
        from . import _native

        if _is_stale(_native.__file__):
            raise ImportError
        from ._native import (
            Asked,
            Delegate,
            Hooks,
            Nearest,
            Pair,
            Rows,
            Stacks,
            Stored,
            Timed,
            Turns,
            record_waits,
            time_calls,
        )

        NATIVE = True
    except ImportError:
        from .delegate import Delegate
        from .plain import (
            Asked,
            Hooks,
            Nearest,
            Pair,
            Rows,
            Stacks,
            Stored,
            Timed,
            Turns,
            record_waits,
            time_calls,
        )

        NATIVE = False

__all__ = [
    "NATIVE",
    "Asked",
    "Delegate",
    "Hooks",
    "Nearest",
    "Pair",
    "Rows",
    "Stacks",
    "Stored",
    "Timed",
    "Turns",
    "record_waits",
    "time_calls",
]
