"""Dotted names on live objects: what stands there, and who holds it."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any, NamedTuple

_ABSENT: Any = object()


class Place(NamedTuple):
    """An attribute of a module, a class or an instance."""

    holder: Any
    name: str
    raw: Any
    """As it is stored: a staticmethod, a property or a function, not what access would give."""
    owner: type | None
    """The class in whose own namespace it stands, when the holder is a class."""

    def put(self, value: object) -> None:
        """Store ``value`` there. Raises TypeError or AttributeError where nothing can be stored."""
        if isinstance(self.holder, ModuleType):
            vars(self.holder)[self.name] = value
        elif isinstance(self.holder, type):
            type.__setattr__(self.holder, self.name, value)
        else:
            setattr(self.holder, self.name, value)


def find(holder: Any, name: str) -> Place | None:
    """The attribute ``name`` of ``holder``, without running descriptors of classes."""
    if isinstance(holder, type):
        for cls in type.mro(holder):
            if name in vars(cls):
                return Place(holder, name, vars(cls)[name], cls)
        return None
    value = vars(holder).get(name, _ABSENT) if hasattr(holder, "__dict__") else _ABSENT
    if value is _ABSENT:
        value = getattr(holder, name, _ABSENT)  # a module's __getattr__, a slot, a method
    return None if value is _ABSENT else Place(holder, name, value, None)


def close(name: str, names: Iterable[object]) -> tuple[str, ...]:
    """The few of ``names`` that look most like ``name``."""
    from difflib import get_close_matches

    return tuple(get_close_matches(name, [n for n in names if isinstance(n, str)], 3, 0.5))
