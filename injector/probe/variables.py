"""Reading the program's variables without running any of its code.

A property, a ``__getattr__``, the namespace that a metaclass prepared: to read through them would be
to call the program, which prints, counts or raises there.
"""

from __future__ import annotations

import sys

from ..origin import PROGRAM, origin

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType
    from typing import Any


class _Missing:
    """The value of a variable that is not bound, or not to be had without running the program."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<not bound>"

    def __bool__(self) -> bool:
        return False


MISSING = _Missing()

_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
_MAPPINGS = (dict, type((lambda: sys._getframe().f_locals)()))
_get_dict = type.__dict__["__dict__"].__get__
_get_mro = type.__dict__["__mro__"].__get__


def read_variable(frame: FrameType, variable: str) -> Any:
    """The value of ``variable`` (a name, or ``name.attribute``) in ``frame``, or :data:`MISSING`."""
    root, *attributes = variable.split(".")
    scope: FrameType | None = frame
    found = read_name(frame.f_locals, root)
    # Up to Python 3.11 a comprehension is a function of its own; its variables are the outer's.
    while found is MISSING and scope is not None and scope.f_code.co_name in _COMPREHENSIONS:
        scope = scope.f_back
        found = MISSING if scope is None else read_name(scope.f_locals, root)
    if found is MISSING:
        found = read_name(frame.f_globals, root)
    return follow(found, attributes)


def read_name(namespace: Any, name: str) -> Any:
    """What a namespace holds under a name, whatever a subclass of ``dict`` would answer."""
    for kind in _MAPPINGS:
        if isinstance(namespace, kind):
            return kind.get(namespace, name, MISSING)
    return MISSING


def follow(value: Any, attributes: Iterable[str]) -> Any:
    """``value.a.b`` for ``("a", "b")``, or :data:`MISSING`."""
    for attribute in attributes:
        if value is not MISSING:
            value = _attribute(value, attribute)
    return value


def _attribute(thing: Any, name: str) -> Any:
    kind = type(thing)
    described = _of_class(kind, name)
    if described is not MISSING and _of_class(type(described), "__set__") is not MISSING:
        return _described(described, thing, kind)
    if issubclass(kind, type):
        found = _of_class(thing, name)
        if found is not MISSING:
            return _described(found, None, thing)
    else:
        try:
            found = read_name(object.__getattribute__(thing, "__dict__"), name)
        except Exception:  # it has none
            found = MISSING
        if found is not MISSING:
            return found
    if described is not MISSING:
        return _described(described, thing, kind)
    dynamic = _of_class(kind, "__getattr__")
    return MISSING if dynamic is MISSING or _is_programs(dynamic) else _asked(thing, name)


def _of_class(kind: Any, name: str) -> Any:
    for base in _get_mro(kind):
        found = _get_dict(base).get(name, MISSING)
        if found is not MISSING:
            return found
    return MISSING


def _described(found: Any, thing: Any, kind: Any) -> Any:
    """What a class's attribute is as one of ``thing``, unless code of the program would say so."""
    getter = _of_class(type(found), "__get__")
    if getter is MISSING:
        return found
    if _is_programs(getter):
        return MISSING
    if any(_is_programs(getattr(found, each, None)) for each in ("fget", "func", "__func__")):
        return MISSING
    try:
        return getter(found, thing, kind)
    except Exception:
        return MISSING


def _is_programs(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and origin(code.co_filename) == PROGRAM


def _asked(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name)
    except Exception:
        return MISSING
