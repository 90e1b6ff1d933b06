"""Settings of a training as parameters of the run: a mapping that a library was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

LONGEST = 250
"""Characters of a value that are kept."""
MOST = 200
"""Settings that are kept in a process: a search tries many values, and the last one of a name counts."""


def recorded_settings(param: Callable[[str, Any], None]) -> Callable[[Any], Any]:
    """A function that hands each setting of a mapping to ``param`` (``injector.param``), and returns the
    mapping as it is. Plain values and lists of such are recorded, of functions the name.
    """
    known: dict[str, Any] = {}

    def record(params: Any) -> Any:
        if isinstance(params, Mapping):
            for name, value in params.items():
                found = plain(value)
                changed = found is not None and known.get(name) != found
                if changed and isinstance(name, str) and name.strip() and len(known) < MOST:
                    known[name] = found
                    param(name, found)
        return params

    return record


def plain(value: Any) -> str | int | float | None:
    """``value`` as it is recorded, numbers as such; None for what is no setting."""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(e, (str, int, float)) for e in value):
        value = ",".join(map(str, value))
    elif callable(value):
        value = getattr(value, "__name__", type(value).__name__)
    elif not isinstance(value, str):
        return None
    return str(value)[:LONGEST]
