"""Reading the program's variables without running any of its code.

A property, a ``__getattr__``, the namespace that a metaclass prepared: to read through them would be
to call the program, which prints, counts or raises there.
"""

from __future__ import annotations

import sys
from types import CellType

from .origin import PROGRAM, origin

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
    found = read_local(frame, root)
    # Up to Python 3.11 a comprehension is a function of its own; its variables are the outer's.
    while found is MISSING and scope is not None and scope.f_code.co_name in _COMPREHENSIONS:
        scope = scope.f_back
        found = MISSING if scope is None else read_local(scope, root)
    if found is MISSING:
        found = read_name(frame.f_globals, root)
    return follow(found, attributes)


def _read_mapping(frame: FrameType, name: str) -> Any:
    return read_name(frame.f_locals, name)


def _read_memory(frame: FrameType, name: str) -> Any:
    """As ``frame.f_locals`` would give it, out of the frame's memory.

    Up to Python 3.12, ``f_locals`` of a function writes all variables into the one dictionary that
    ``locals()`` gave the program, and that the program may have kept.
    """
    code = frame.f_code
    if sys.version_info < (3, 11):
        start, at_code, at_namespace = id(frame), 32, 56
        slots = start + _FRAME.__basicsize__ - 8
    else:
        start = _Pointer.from_address(id(frame) + object.__basicsize__ + 8).value
        at_code, at_namespace = (32, 24) if sys.version_info < (3, 12) else (0, 40)
        slots = start + 72
    if _Pointer.from_address(start + at_code).value != id(code):
        return _read_mapping(frame, name)  # this interpreter's frames are laid out otherwise
    names, cells = code.co_varnames, code.co_cellvars
    found: Any = MISSING
    if name in names:
        found = _object_at(slots + 8 * names.index(name))
    if found is MISSING and not code.co_flags & _OPTIMIZED:
        found = read_name(_object_at(start + at_namespace), name)
    if found is MISSING:
        if sys.version_info >= (3, 11):  # an argument's cell stands in the argument's own slot
            cells = tuple(cell for cell in cells if cell not in names)
        cells += code.co_freevars
        if name in cells:
            found = _object_at(slots + 8 * (len(names) + cells.index(name)))
    if type(found) is CellType and (name in code.co_cellvars or name in code.co_freevars):
        try:
            return found.cell_contents
        except ValueError:
            return MISSING
    return found


def _object_at(address: int) -> Any:
    try:
        return _Reference.from_address(address).value
    except ValueError:  # NULL
        return MISSING


_FRAME = type(sys._getframe())
_OPTIMIZED = 0x01

read_local = _read_mapping
"""``read_local(frame, name)``: the variable of a function, class body or module, or ``MISSING``."""

if sys.version_info < (3, 13) and sys.implementation.name == "cpython":
    try:
        from _ctypes import _SimpleCData  # ctypes itself would cost 3 ms
    except ImportError:
        pass
    else:

        class _Pointer(_SimpleCData):  # type: ignore[type-arg]
            _type_ = "P"

        class _Reference(_SimpleCData):  # type: ignore[type-arg]
            _type_ = "O"

        read_local = _read_memory


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
    return MISSING if dynamic is MISSING or _is_programs(dynamic) else _looked_up(thing, name)


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


def _looked_up(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name)
    except Exception:
        return MISSING
