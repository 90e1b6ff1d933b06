"""Where a dotted name leads on live objects, and hooks that act for some of them only.

A bound method concerns one object, an inherited method one class.
"""

from __future__ import annotations

import builtins
import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from ..variables import MISSING, read_local
from . import wrapping

_ABSENT: Any = object()
_DEPTH = 50
"""How many decorators are looked through."""


class Attribute(NamedTuple):
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


def find(holder: Any, name: str) -> Attribute | None:
    """The attribute ``name`` of ``holder``, without running descriptors of classes."""
    if isinstance(holder, type):
        for cls in type.mro(holder):
            if name in vars(cls):
                return Attribute(holder, name, vars(cls)[name], cls)
        return None
    value = vars(holder).get(name, _ABSENT) if hasattr(holder, "__dict__") else _ABSENT
    if value is _ABSENT:
        value = getattr(holder, name, _ABSENT)  # a module's __getattr__, a slot, a method
    return None if value is _ABSENT else Attribute(holder, name, value, None)


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


def function_at(place: Attribute) -> Any:
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


def called_at(cls: type) -> Attribute | None:
    """What runs when a class is called to make an instance, in Python: ``__init__``, else ``__new__``."""
    for name in ("__init__", "__new__"):
        place = find(cls, name)
        if place is not None and isinstance(inside(place.raw), FunctionType):
            return place
    return None


def called(thing: Any) -> FunctionType | None:
    """The Python function that runs when ``thing`` is called, if there is one."""
    found = inside(thing)
    if isinstance(found, type):
        place = called_at(found)
        found = None if place is None else inside(place.raw)
    elif not isinstance(found, FunctionType) and callable(found):
        found = inside(type(found).__call__)
    return found if isinstance(found, FunctionType) else None


def close(name: str, names: Iterable[object]) -> tuple[str, ...]:
    """The few of ``names`` that look most like ``name``."""
    from difflib import get_close_matches

    return tuple(get_close_matches(name, [n for n in names if isinstance(n, str)], 3, 0.5))


Test = Callable[[Any], bool]

_hooks = builtins.__dict__
_numbers = count(1)
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


class OneObject:
    """True for one object, which it does not keep alive where that can be helped."""

    def __init__(self, wanted: Any) -> None:
        self._get: Callable[[], Any]
        try:
            self._get = weakref.ref(wanted)
        except TypeError:
            self._get = lambda: wanted

        self._key = id(wanted)

    def __eq__(self, other: object) -> bool:
        return type(other) is OneObject and other._key == self._key and other._get() is self._get()

    def __hash__(self) -> int:
        return self._key

    def __call__(self, first: Any) -> bool:
        return first is self._get()


class OneClass:
    """True for a class, its subclasses and the instances of all of these."""

    def __init__(self, wanted: type) -> None:
        self._wanted = wanted

    def __eq__(self, other: object) -> bool:
        return type(other) is OneClass and other._wanted is self._wanted

    def __hash__(self) -> int:
        return id(self._wanted)

    def __call__(self, first: Any) -> bool:
        return self._wanted in type.mro(first if isinstance(first, type) else type(first))


def filtered(hook: str, test: Test, variable: str, define: Callable[[Any], None]) -> str:
    """Define a hook that passes on to ``hook`` what happens where ``test(variable)`` is true.

    The new hook's name is returned. It is to be called with ``variable``, the function's first
    argument, as its last capture. ``define`` hears of each callable made.
    """
    name = f"{hook}|{next(_numbers)}"

    def pass_on(value: Any, *rest: Any) -> Any:
        return _hooks[hook](value, *rest[:-1]) if test(rest[-1]) else value

    define(pass_on)
    _hooks[name] = pass_on
    for suffix, otherwise in (
        ("?", _identity),
        (".", _nothing),
        ("@", _identity),
        ("@>", _identity),
        ("!", _nothing),
        ("+", _nothing),
        ("-", _nothing),
    ):
        chooser = _hooks[name + suffix] = _Chooser(hook + suffix, test, variable, otherwise)
        define(chooser)
    return name


class _Chooser:
    """Passes a call on without a frame of its own: these hooks look at the frame that calls them."""

    __slots__ = ("__weakref__", "_hook", "_otherwise", "_test", "_variable")

    def __init__(self, hook: str, test: Test, variable: str, otherwise: Any) -> None:
        self._hook = hook
        self._test = test
        self._variable = variable
        self._otherwise = otherwise

    def _choose(self) -> Any:
        frame: Any = sys._getframe(1)
        first = read_local(frame, self._variable)
        while first is MISSING and frame.f_code.co_name in _COMPREHENSIONS and frame.f_back:
            frame = frame.f_back
            first = read_local(frame, self._variable)
        if first is MISSING:
            first = None  # the program deleted its argument
        return _hooks[self._hook] if self._test(first) else self._otherwise

    __call__ = property(_choose)
    # A type test of Dynamo's is all that keeps a hook from being looked through.
    __class__ = property(lambda self: FunctionType)

    def __getattr__(self, name: str) -> Any:
        """What a function has: programs that look for functions among all objects read their ``__code__``."""
        return getattr(_identity, name)


def _identity(value: Any, *_: Any) -> Any:
    return value


def _nothing(*_: Any) -> None:
    return None
