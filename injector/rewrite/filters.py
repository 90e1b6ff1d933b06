"""Hooks that act for some callers only: one object's bound method, one class's inherited method."""

from __future__ import annotations

import builtins
import sys
import weakref
from collections.abc import Callable
from itertools import count
from types import FunctionType
from typing import Any

from ..variables import MISSING, read_local

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


def _identity(value: Any, *_: Any) -> Any:
    return value


def _nothing(*_: Any) -> None:
    return None
