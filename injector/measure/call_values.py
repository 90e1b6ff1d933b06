"""Constants and functions that say what a call is: functions name the call's variables.

``of=lambda self: self.dataset`` is called with the variable ``self`` of the function that is hooked.
``result`` is what the function returns; a function that takes it is called when the call ends. A
parameter that has a default, or is called ``_``, is no variable.
"""

from __future__ import annotations

from ..probe import compiled

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Function = Callable[..., Any]

RESULT = "result"


class CallValue:
    """One constant or function: its ``names`` are the variables that it wants."""

    __slots__ = ("constant", "function", "names")

    def __init__(self, given: Any) -> None:
        self.function = given if callable(given) else None
        self.constant = None if callable(given) else given
        self.names = () if self.function is None else parameters(self.function)

    @property
    def late(self) -> bool:
        """Whether it needs the result."""
        return RESULT in self.names

    @property
    def unnamed(self) -> bool:
        """Whether it is a function that asks for no variable: what it tells may come of the call."""
        return self.function is not None and not set(self.names) - {"_"}

    @property
    def empty(self) -> bool:
        """Whether nothing was given."""
        return self.function is None and self.constant is None

    def over(self, captures: tuple[str, ...]) -> Function:
        """A function of all the variables ``captures``."""
        function, constant = self.function, self.constant
        if isinstance(function, VariablePath):
            return function.over(captures)
        if function is None:
            return lambda *_: constant
        if self.names == captures:
            whole: Function = function
            return whole
        return _picking(function, [captures.index(n) if n in captures else -1 for n in self.names])


class VariablePath:
    """Text for a part of a variable: ``self``, ``args[0]``, ``self.training``, ``bool(self._modules)``.

    An attribute is the object's own, in its ``__dict__``: nothing of the program is run to find it. Raises
    TypeError for any other text.
    """

    def __init__(self, text: str) -> None:
        self._truth = text.startswith("bool(") and text.endswith(")")
        inner = text[5:-1] if self._truth else text
        self.variable, dot, name = inner.partition(".")
        self._name = name if dot else None
        self._item = -1
        if self.variable.endswith("]") and not dot:
            self.variable, _, number = self.variable[:-1].partition("[")
            self._item = int(number) if number.isdecimal() else -1
        named = [self.variable, *([name] if dot else [])]
        if not all(map(str.isidentifier, named)) or (inner.endswith("]") and self._item < 0):
            raise TypeError(
                f"{text!r} is no part of a variable, as 'self.training' or 'args[0]' are"
            )

    def over(self, captures: tuple[str, ...]) -> Function:
        """The same as a function of all the variables ``captures``."""
        where = captures.index(self.variable)
        function: Function = compiled.Path(where, self._name, self._item, self._truth)
        return function

    def __call__(self, *values: Any) -> Any:
        """Of its variable alone. Raises AttributeError, KeyError or IndexError."""
        return self.over((self.variable,))(*values)


def _picking(function: Function, where: list[int]) -> Function:
    """``function`` of those among many values whose places are ``where``; -1 stands for None."""
    if not where:
        return lambda *values: function()
    if len(where) == 1 and where[0] >= 0:
        first = where[0]
        return lambda *values: function(values[first])
    if len(where) == 2 and min(where) >= 0:
        first, second = where
        return lambda *values: function(values[first], values[second])
    return lambda *values: function(*[None if at < 0 else values[at] for at in where])


def parameters(function: Function) -> tuple[str, ...]:
    """The names of the parameters that a function must be called with.

    Raises TypeError where it has none to be known by, as many that are written in C.
    """
    if isinstance(function, VariablePath):
        return (function.variable,)
    inner: Any = getattr(function, "__wrapped__", function) if _is_made(function) else function
    if not hasattr(inner, "__code__") and not hasattr(inner, "__func__"):
        inner = getattr(inner, "__call__", None)  # noqa: B004 - an object of a class of its own
    bound = hasattr(inner, "__func__")
    inner = getattr(inner, "__func__", inner)
    code = getattr(inner, "__code__", None)
    if code is None:
        raise TypeError(f"{function!r} does not say what its parameters are called")
    count = code.co_argcount - len(inner.__defaults__ or ())
    return tuple(code.co_varnames[bound:count])


def _is_made(function: Any) -> bool:
    """Whether it is in C, and may name the function of Python that it stands for."""
    return not (hasattr(function, "__code__") or hasattr(function, "__func__"))


def variables(answers: Iterable[CallValue]) -> tuple[str, ...]:
    """The variables that all of them want, each once, without the result."""
    names = dict.fromkeys(name for answer in answers for name in answer.names)
    return tuple(name for name in names if name not in (RESULT, "_"))
