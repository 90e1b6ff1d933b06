"""Where a dotted name leads on live objects, and hooks that act for some of them only.

An :class:`Attribute` is found without running code of the program where that is possible, and :func:`inside`
looks through descriptors and decorators for the Python function behind it. A method bound to one object, or
inherited by one class, shares its code with others: :func:`filtered` defines a hook that passes events on for
that object or class only.
"""

from __future__ import annotations

import builtins
import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from types import FunctionType, MethodType, ModuleType
from typing import Any

from ..named_tuple import NamedTuple
from ..variables import MISSING, read_local
from . import wrapping

_ABSENT: Any = object()
_DEPTH = 50
"""How many decorators are looked through at most: a chain of ``__wrapped__`` may be circular."""


class Attribute(NamedTuple):
    """An attribute of a module, a class or an instance."""

    holder: Any
    name: str
    raw: Any
    """The object as it is stored: a staticmethod, a property or a function, not what access returns."""
    owner: type | None
    """The class in whose own namespace it stands, when the holder is a class."""

    def put(self, value: object) -> None:
        """Store ``value`` there. Raises TypeError or AttributeError where nothing can be stored."""
        # Past a `__setattr__` that the module or the metaclass may have.
        if isinstance(self.holder, ModuleType):
            vars(self.holder)[self.name] = value
        elif isinstance(self.holder, type):
            type.__setattr__(self.holder, self.name, value)
        else:
            setattr(self.holder, self.name, value)


def find(holder: Any, name: str) -> Attribute | None:
    """The attribute ``name`` of ``holder``, or None. Of a class, no descriptor is run."""
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
    """The Python function that does the work of ``thing``, behind descriptors and decorators."""
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
    """The function :func:`inside` of ``place``; of a decorator's closure, the decorated one.

    If the decorator does not say what it wraps, that is found by its name among what the closure holds.
    """
    outermost = inside(place.raw)
    qualified_name = f"{place.owner.__qualname__}.{place.name}" if place.owner else place.name
    queue = [outermost]
    for candidate in queue:
        if isinstance(candidate, FunctionType) and candidate.__qualname__ == qualified_name:
            return candidate
        if len(queue) < _DEPTH:
            queue += _held(candidate)
    return outermost


def _held(thing: Any) -> Iterator[Any]:
    """The functions that a closure or a partial holds."""
    for cell in (
        getattr(thing, "__closure__", None) or () if isinstance(thing, FunctionType) else ()
    ):
        try:
            content = inside(cell.cell_contents)
        except ValueError:  # the cell is empty
            continue
        if isinstance(content, (FunctionType, functools.partial)):
            yield content
    if isinstance(thing, functools.partial):
        yield inside(thing.func)


def called_at(cls: type) -> Attribute | None:
    """The Python method that runs when a class is called: ``__init__``, else ``__new__``; None without."""
    for name in ("__init__", "__new__"):
        place = find(cls, name)
        if place is not None and isinstance(inside(place.raw), FunctionType):
            return place
    return None


def called(thing: Any) -> FunctionType | None:
    """The Python function that runs when ``thing`` is called, or None."""
    function = inside(thing)
    if isinstance(function, type):
        place = called_at(function)
        function = None if place is None else inside(place.raw)
    elif not isinstance(function, FunctionType) and callable(function):
        function = inside(type(function).__call__)
    return function if isinstance(function, FunctionType) else None


def close(name: str, names: Iterable[object]) -> tuple[str, ...]:
    """Up to three of ``names`` that look most like ``name``."""
    from difflib import get_close_matches

    return tuple(get_close_matches(name, [n for n in names if isinstance(n, str)], 3, 0.5))


Test = Callable[[Any], bool]

_hooks = builtins.__dict__
_numbers = count(1)
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


class OneObject:
    """A test that is true for one object. It holds a weak reference to it, if it can."""

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
    """A test that is true for a class, its subclasses, and the instances of all of these."""

    def __init__(self, wanted: type) -> None:
        self._wanted = wanted

    def __eq__(self, other: object) -> bool:
        return type(other) is OneClass and other._wanted is self._wanted

    def __hash__(self) -> int:
        return id(self._wanted)

    def __call__(self, first: Any) -> bool:
        # Not issubclass, which may run code of the program (`__subclasscheck__`).
        return self._wanted in type.mro(first if isinstance(first, type) else type(first))


def filtered(hook: str, test: Test, variable: str, define: Callable[[Any], None]) -> str:
    """Define a hook that passes on to ``hook`` the events where ``test(variable)`` is true. Returns its name.

    It has to be called with ``variable``, the function's first argument, as its last capture. ``define`` is
    called with each callable of the new hook.
    """
    name = f"{hook}|{next(_numbers)}"

    def pass_on(value: Any, *rest: Any) -> Any:
        return _hooks[hook](value, *rest[:-1]) if test(rest[-1]) else value

    define(pass_on)
    _hooks[name] = pass_on
    # The other forms of a hook (transform) get no captures, and look at the frame that calls them.
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
    """Calls a hook where the test passes, and otherwise a function that does nothing.

    It adds no frame of its own, since these forms of a hook look at the frame that calls them: Python looks
    ``__call__`` up, which runs the getter ``_choose`` to its end, and then calls what that returned.
    """

    __slots__ = ("__weakref__", "_hook", "_otherwise", "_test", "_variable")

    def __init__(self, hook: str, test: Test, variable: str, otherwise: Any) -> None:
        self._hook = hook
        self._test = test
        self._variable = variable
        self._otherwise = otherwise

    def _choose(self) -> Any:
        frame: Any = sys._getframe(1)
        first = read_local(frame, self._variable)
        # In a comprehension with a frame of its own, the argument is a variable of the frame around it.
        while first is MISSING and frame.f_code.co_name in _COMPREHENSIONS and frame.f_back:
            frame = frame.f_back
            first = read_local(frame, self._variable)
        if first is MISSING:
            first = None  # the program deleted its argument
        return _hooks[self._hook] if self._test(first) else self._otherwise

    __call__ = property(_choose)
    # Dynamo looks through a hook only if it passes for a function (originals).
    __class__ = property(lambda self: FunctionType)

    def __getattr__(self, name: str) -> Any:
        """Attributes of a function: programs that search all objects for functions read ``__code__``."""
        return getattr(_identity, name)


def _identity(value: Any, *_: Any) -> Any:
    return value


def _nothing(*_: Any) -> None:
    return None
