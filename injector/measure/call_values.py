"""The constants and functions by which voirfiles describe calls, and their variables.

A function names the variables of the call as its parameters: ``of=lambda self: self.dataset`` is called with
the variable ``self`` of the hooked function. ``result`` is what that returns; a function that takes it is
called when the call ends. A parameter that has a default, or is called ``_``, is no variable.

A hook captures the variables that all of the functions need, as one tuple. :meth:`CallValue.over` adapts each
function to that tuple, without any work of its own where it takes all of them.
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
    """One constant or function; ``names`` are the variables that it takes."""

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
        """Whether it is a function without variables: what it returns may be a consequence of the call."""
        return self.function is not None and not set(self.names) - {"_"}

    @property
    def empty(self) -> bool:
        """Whether nothing was given."""
        return self.function is None and self.constant is None

    def over(self, captures: tuple[str, ...]) -> Function:
        """Return it as a function of all the variables ``captures``."""
        function, constant = self.function, self.constant
        if isinstance(function, VariablePath):
            return function.over(captures)
        if function is None:
            return lambda *_: constant
        if self.names == captures:
            itself: Function = function
            return itself
        return _picking(
            function, [captures.index(name) if name in captures else -1 for name in self.names]
        )


class VariablePath:
    """A part of a variable, given as text: ``self``, ``args[0]``, ``self.training``, ``bool(self._modules)``.

    It is read in C. An attribute is looked up in the object's own ``__dict__``, so that none of the program's
    code runs. Raises TypeError for any other text.
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
        """Return it as a function of all the variables ``captures``."""
        index = captures.index(self.variable)
        function: Function = compiled.Path(index, self._name, self._item, self._truth)
        return function

    def __call__(self, *values: Any) -> Any:
        """Read it from its variable alone. Raises AttributeError, KeyError or IndexError."""
        return self.over((self.variable,))(*values)


def _picking(function: Function, indices: list[int]) -> Function:
    """Return a function of many values that calls ``function`` with those at the indices ``where``.

    An index of -1 stands for None.
    """
    # The usual cases apart: this runs at each call of a region.
    if not indices:
        return lambda *values: function()
    if len(indices) == 1 and indices[0] >= 0:
        first = indices[0]
        return lambda *values: function(values[first])
    if len(indices) == 2 and min(indices) >= 0:
        first, second = indices
        return lambda *values: function(values[first], values[second])
    return lambda *values: function(*[None if index < 0 else values[index] for index in indices])


def parameters(function: Function) -> tuple[str, ...]:
    """Return the names of the parameters that ``function`` must be called with.

    Raises TypeError when they have no names, as those of many functions written in C.
    """
    if isinstance(function, VariablePath):
        return (function.variable,)
    inner: Any = getattr(function, "__wrapped__", function) if _is_native(function) else function
    if not hasattr(inner, "__code__") and not hasattr(inner, "__func__"):
        inner = getattr(inner, "__call__", None)  # noqa: B004 - an object of a class of its own
    bound = hasattr(inner, "__func__")
    inner = getattr(inner, "__func__", inner)
    code = getattr(inner, "__code__", None)
    if code is None:
        raise TypeError(f"{function!r} does not say what its parameters are called")
    count = code.co_argcount - len(inner.__defaults__ or ())
    return tuple(code.co_varnames[bound:count])


def _is_native(function: Any) -> bool:
    """Whether a callable is written in C, and may name the Python function that it wraps."""
    return not (hasattr(function, "__code__") or hasattr(function, "__func__"))


def variables(values: Iterable[CallValue]) -> tuple[str, ...]:
    """Return the variables that any of ``answers`` takes, each once, without the result."""
    names = dict.fromkeys(name for value in values for name in value.names)
    return tuple(name for name in names if name not in (RESULT, "_"))
