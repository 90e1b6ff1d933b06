"""Reading the program's variables without running any of its code.

A probe reads ``self.loss`` at a moment at which the program does not. Where ``loss`` is a property, or the
class has a ``__getattr__``, plain ``getattr`` would call a function of the program, which may print, count or
raise. So attributes are looked up here as ``object.__getattribute__`` does it (data descriptor of the class,
instance, class), and where a function of the program would have to be called, the result is :data:`MISSING`.
Functions of libraries are called: the attributes of a ``torch.nn.Module`` are found by its ``__getattr__``.

Local variables are hard in another way. ``frame.f_locals`` of Python up to 3.12 has a side effect that the
program can see, so that there they are read from the frame's memory (:func:`_read_memory`).
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
    """The value of a variable that is not bound, or that only code of the program could give."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<not bound>"

    def __bool__(self) -> bool:
        return False


MISSING = _Missing()

_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
# From Python 3.13 on, `f_locals` of a function is a proxy of a type that has no name.
_MAPPINGS = (dict, type((lambda: sys._getframe().f_locals)()))
# As descriptors of `type`: `cls.__dict__` and `cls.__mro__` would go through the metaclass, which may
# override them.
_get_dict = type.__dict__["__dict__"].__get__
_get_mro = type.__dict__["__mro__"].__get__


def read_variable(frame: FrameType, variable: str) -> Any:
    """The value of ``variable`` (a name, or ``name.attribute``) in ``frame``, or :data:`MISSING`."""
    root, *attributes = variable.split(".")
    scope: FrameType | None = frame
    value = read_local(frame, root)
    # Up to Python 3.11, a comprehension is a function of its own, but reads variables of the one around it.
    while value is MISSING and scope is not None and scope.f_code.co_name in _COMPREHENSIONS:
        scope = scope.f_back
        value = MISSING if scope is None else read_local(scope, root)
    if value is MISSING:
        value = read_name(frame.f_globals, root)
    return follow(value, attributes)


def _read_mapping(frame: FrameType, name: str) -> Any:
    return read_name(frame.f_locals, name)


def _read_memory(frame: FrameType, name: str) -> Any:
    """The local variable ``name``, read from the memory of ``frame``.

    Up to Python 3.12, ``f_locals`` of a function copies all variables into the one dictionary that
    ``locals()`` returned to the program. A program that keeps it would see values change that it had saved.

    The offsets are those of ``PyFrameObject`` (3.10) and ``_PyInterpreterFrame`` (3.11 and 3.12), which do
    not change within a minor version; they are checked by the frame's code object.
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
        return _read_mapping(frame, name)  # an interpreter whose frames are laid out differently
    # The slots are: local variables with the arguments first, then cells, then the closure's cells.
    names, cells = code.co_varnames, code.co_cellvars
    value: Any = MISSING
    if name in names:
        value = _object_at(slots + 8 * names.index(name))
    if value is MISSING and not code.co_flags & _OPTIMIZED:  # a class body or a module
        value = read_name(_object_at(start + at_namespace), name)
    if value is MISSING:
        if sys.version_info >= (3, 11):  # the cell of an argument is in the argument's own slot
            cells = tuple(cell for cell in cells if cell not in names)
        cells += code.co_freevars
        if name in cells:
            value = _object_at(slots + 8 * (len(names) + cells.index(name)))
    if type(value) is CellType and (name in code.co_cellvars or name in code.co_freevars):
        try:
            return value.cell_contents
        except ValueError:  # not assigned yet
            return MISSING
    return value


def _object_at(address: int) -> Any:
    try:
        return _Reference.from_address(address).value
    except ValueError:  # NULL: not assigned yet, or deleted
        return MISSING


_FRAME = type(sys._getframe())
_OPTIMIZED = 0x01  # CO_OPTIMIZED: variables are in slots, as in functions

read_local = _read_mapping
"""``read_local(frame, name)`` returns the variable of a function, class body or module, or ``MISSING``."""

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
    """The value of ``name`` in ``namespace``, or :data:`MISSING`.

    The namespace may be a subclass of ``dict`` that a metaclass of the program prepared: its own ``get`` and
    ``__getitem__`` are not called.
    """
    for kind in _MAPPINGS:
        if isinstance(namespace, kind):
            return kind.get(namespace, name, MISSING)
    return MISSING


def follow(value: Any, attributes: Iterable[str]) -> Any:
    """``value.a.b`` for the attributes ``("a", "b")``, or :data:`MISSING`."""
    for attribute in attributes:
        if value is not MISSING:
            value = _attribute(value, attribute)
    return value


def _attribute(owner: Any, name: str) -> Any:
    """``owner.name`` in the order of ``object.__getattribute__``, or :data:`MISSING`."""
    kind = type(owner)
    of_class = _class_attribute(kind, name)
    # A data descriptor, such as a property or a slot, comes before the instance's own attributes.
    if of_class is not MISSING and _class_attribute(type(of_class), "__set__") is not MISSING:
        return _bound(of_class, owner, kind)
    if issubclass(kind, type):  # the owner is a class
        value = _class_attribute(owner, name)
        if value is not MISSING:
            return _bound(value, None, owner)
    else:
        try:
            value = read_name(object.__getattribute__(owner, "__dict__"), name)
        except Exception:  # a class with `__slots__`: there is no `__dict__`
            value = MISSING
        if value is not MISSING:
            return value
    if of_class is not MISSING:
        return _bound(of_class, owner, kind)
    fallback = _class_attribute(kind, "__getattr__")
    if fallback is MISSING or _is_programs(fallback):
        return MISSING
    try:
        return getattr(owner, name)
    except Exception:
        return MISSING


def _class_attribute(kind: Any, name: str) -> Any:
    """The attribute of a class or of one of its bases as it is stored, or :data:`MISSING`."""
    for base in _get_mro(kind):
        value = _get_dict(base).get(name, MISSING)
        if value is not MISSING:
            return value
    return MISSING


def _bound(attribute: Any, owner: Any, kind: Any) -> Any:
    """What ``owner`` has for a stored attribute of its class ``kind``: a value, or what a descriptor gives.

    It is :data:`MISSING` if the descriptor would call a function of the program: its own ``__get__``, or that
    of a property (``fget``), a cached property (``func``) or a class method (``__func__``).
    """
    getter = _class_attribute(type(attribute), "__get__")
    if getter is MISSING:
        return attribute
    if _is_programs(getter):
        return MISSING
    if any(_is_programs(getattr(attribute, each, None)) for each in ("fget", "func", "__func__")):
        return MISSING
    try:
        return getter(attribute, owner, kind)
    except Exception:
        return MISSING


def _is_programs(function: Any) -> bool:
    """Whether ``function`` is in a file of the program; functions in C have no code, and are not."""
    code = getattr(function, "__code__", None)
    return code is not None and origin(code.co_filename) == PROGRAM
