"""Settings of a training, which a library was given as a mapping, recorded as parameters of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

MOST_CHARACTERS = 250
"""Characters of a value that are recorded."""
MOST_SETTINGS = 200
"""Names of settings that are recorded in a process. If one changes, as in a search, its last value counts."""


def recorded_settings(param: Callable[[str, Any], None]) -> Callable[[Any], Any]:
    """Return a function that records settings in a mapping by ``injector.param``, and returns the mapping."""
    known: dict[str, Any] = {}

    def record(params: Any) -> Any:
        if isinstance(params, Mapping):
            for name, value in params.items():
                recorded = as_parameter(value)
                changed = recorded is not None and known.get(name) != recorded
                has_room = name in known or len(known) < MOST_SETTINGS
                if changed and has_room and isinstance(name, str) and name.strip():
                    known[name] = recorded
                    param(name, recorded)
        return params

    return record


def as_parameter(value: Any) -> str | int | float | None:
    """``value`` as it is recorded: numbers as they are, lists joined by commas, functions by name.

    None for any other value.
    """
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(e, (str, int, float)) for e in value):
        value = ",".join(map(str, value))
    elif callable(value):
        value = getattr(value, "__name__", type(value).__name__)
    elif not isinstance(value, str):
        return None
    return str(value)[:MOST_CHARACTERS]
