"""What an expression may calculate: numbers within limits, and a few functions. No code."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ..words import kind

LARGEST = 1e300
"""No number's magnitude is more than this."""
LARGEST_POWER = 1024
LONGEST = 10_000
"""No list or text that an expression makes is longer."""


class Wrong(Exception):
    """An expression that cannot be read, or has no value: says why."""


def number(value: Any, what: str = "a number") -> int | float:
    """A number, also where YAML 1.1 takes one for text (``1e-4``, ``'8'``)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise Wrong(f"{kind(value)} is not {what}")
    if isinstance(value, str):
        read = read_number(value)
        if read is None:
            raise Wrong(f"{kind(value)} is not {what}")
        return read
    return value


def read_number(text: str) -> int | float | None:
    """The finite number that a text is, or None."""
    if "_" in text:
        return None
    for form in (int, float):
        try:
            value: int | float = form(text)
        except (ValueError, OverflowError):
            continue
        return value if math.isfinite(value) else None
    return None


def limited(value: Any) -> Any:
    """``value`` if it is a number that is not too large."""
    if isinstance(value, complex):
        raise Wrong("has no real value")
    if isinstance(value, (int, float)) and not -LARGEST <= value <= LARGEST:
        raise Wrong("a number grew too large")
    return value


def _numbers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def calculate(left: Any, right: Any) -> Any:
        a, b = number(left), number(right)
        try:
            return limited(function(a, b))
        except ZeroDivisionError:
            raise Wrong("divided by zero") from None
        except OverflowError:
            raise Wrong("a number grew too large") from None

    return calculate


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > LARGEST_POWER:
        raise Wrong(f"a power of more than {LARGEST_POWER}")
    if abs(base) > 1 and exponent * math.log10(abs(base)) > 300:
        raise Wrong("a number grew too large")
    return base**exponent


def _ordered(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(left: Any, right: Any) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            return function(left, right)
        return function(number(left), number(right))

    return compare


def _contains(left: Any, right: Any) -> bool:
    if isinstance(right, str) and not isinstance(left, str):
        left = str(left)
    if isinstance(right, (str, list, dict)):
        return left in right
    raise Wrong(f"{kind(right)} contains nothing: `in` wants a list, a map or a text")


CALCULATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": _numbers(operator.add),
    "-": _numbers(operator.sub),
    "*": _numbers(operator.mul),
    "/": _numbers(operator.truediv),
    "//": _numbers(operator.floordiv),
    "%": _numbers(operator.mod),
    "**": _numbers(_power),
}

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "in": _contains,
    "not in": lambda left, right: not _contains(left, right),
}


def _least(*values: Any) -> Any:
    return min(map(number, _several(values)))


def _most(*values: Any) -> Any:
    return max(map(number, _several(values)))


def _several(values: Sequence[Any]) -> Sequence[Any]:
    found = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    if not found:
        raise Wrong("of an empty list")
    return found


def _length(value: Any) -> int:
    if not isinstance(value, (str, list, dict)):
        raise Wrong(f"{kind(value)} has no length")
    return len(value)


def _split(text: Any, separator: Any = ",") -> list[str]:
    if not isinstance(separator, str) or not separator:
        raise Wrong("split wants a text and what separates its parts")
    return [part.strip() for part in str(text).split(separator)]


def _round(value: Any, digits: Any = None) -> Any:
    return round(number(value)) if digits is None else round(number(value), int(number(digits)))


FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int, str]] = {
    "min": (_least, 1, LONGEST, "the least of numbers or of a list"),
    "max": (_most, 1, LONGEST, "the greatest of numbers or of a list"),
    "len": (_length, 1, 1, "how long a list, a map or a text is"),
    "round": (_round, 1, 2, "rounded, to so many digits"),
    "int": (lambda value: int(number(value)), 1, 1, "without what follows the point"),
    "float": (lambda value: float(number(value)), 1, 1, "with a point"),
    "floor": (lambda value: math.floor(number(value)), 1, 1, "rounded down"),
    "ceil": (lambda value: math.ceil(number(value)), 1, 1, "rounded up"),
    "abs": (lambda value: abs(number(value)), 1, 1, "without its sign"),
    "split": (_split, 1, 2, "the parts of a text, separated by commas or what is said"),
}
"""Name → function, fewest and most arguments, what it gives."""


def call(name: str, values: Sequence[Any]) -> Any:
    """A function's value.

    Raises:
        Wrong: a wrong number of arguments, or none that it has a value for.
    """
    function, least, most, _ = FUNCTIONS[name]
    if not least <= len(values) <= most:
        wanted = str(least) if least == most else f"{least} or more"
        raise Wrong(f"{name}() wants {wanted} arguments, not {len(values)}")
    try:
        return limited(function(*values))
    except OverflowError:
        raise Wrong("a number grew too large") from None
