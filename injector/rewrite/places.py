"""Dotted names on live objects: what stands there, and who holds it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from . import wrapping

_ABSENT: Any = object()
_DEPTH = 50
"""How many decorators are looked through."""


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


def inside(thing: Any) -> Any:
    """The Python function in which the work is done, behind descriptors and decorators."""
    for _ in range(_DEPTH):
        if wrapping.is_stand_in(thing) or isinstance(thing, type):
            return thing
        if isinstance(thing, (staticmethod, classmethod, MethodType)):
            thing = thing.__func__
        elif isinstance(thing, property):
            thing = thing.fget or thing.fset or thing.fdel
        elif isinstance(thing, (functools.cached_property, functools.partialmethod)):
            thing = thing.func
        elif callable(getattr(thing, "__wrapped__", None)):
            thing = thing.__wrapped__
        else:
            return thing
    return thing


def function_at(place: Place) -> Any:
    """What is :func:`inside` of a place; of a decorator's closure, the function that it was put on.

    Where the decorator does not say what it wraps, that is found by its name in what the closure holds.
    """
    found = inside(place.raw)
    wanted = f"{place.owner.__qualname__}.{place.name}" if place.owner else place.name
    queue = [found]
    for thing in queue:
        if isinstance(thing, FunctionType) and thing.__qualname__ == wanted:
            return thing
        if len(queue) < _DEPTH:
            queue += _held(thing)
    return found


def _held(thing: Any) -> Iterator[Any]:
    """The functions that a closure or a partial holds."""
    for cell in (
        getattr(thing, "__closure__", None) or () if isinstance(thing, FunctionType) else ()
    ):
        try:
            held = inside(cell.cell_contents)
        except ValueError:  # it is empty
            continue
        if isinstance(held, (FunctionType, functools.partial)):
            yield held
    if isinstance(thing, functools.partial):
        yield inside(thing.func)


def close(name: str, names: Iterable[object]) -> tuple[str, ...]:
    """The few of ``names`` that look most like ``name``."""
    from difflib import get_close_matches

    return tuple(get_close_matches(name, [n for n in names if isinstance(n, str)], 3, 0.5))
