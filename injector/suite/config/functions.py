"""What expressions calculate: their operators and functions, and what counts as a number or a size.

A suite may come from anywhere, so that numbers and powers are limited: none takes seconds, or gigabytes.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .problems import Mistake, kind

LARGEST, LARGEST_POWER = 1e300, 1024
"""The greatest magnitude of a number, and of an exponent."""
_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12,
          "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}  # fmt: skip
_SIZE = re.compile(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?i?)[bo]?\s*", re.IGNORECASE)
_UNIT = re.compile(r"[kmgt]i?[bo]?\s*$", re.IGNORECASE)


def number(value: Any) -> int | float:
    """``value`` as a number, also if it is a text that YAML 1.1 does not take for one (``1e-4``, ``'8'``).

    Raises Mistake for what is no number; true and false are none, though Python calculates with them.
    """
    as_number = read_number(value) if isinstance(value, str) else value
    if isinstance(as_number, bool) or not isinstance(as_number, (int, float)):
        raise Mistake(f"{kind(value)} is not a number")
    return as_number


def read_number(text: str) -> int | float | None:
    """The finite number that ``text`` is; None if it is none."""
    for form in (int, float):
        try:
            value: int | float = form(text)
        except (ValueError, OverflowError):
            continue
        # Python reads 1_000 as a number; in a suite it is more likely a name.
        return value if math.isfinite(value) and "_" not in text else None
    return None


def read_numbers(value: Any) -> Any:
    """The list that a text of whole numbers stands for: ``0,2`` or ``0:1,2:3``, as swept variables have it.

    Any other value is returned as it is.
    """
    if not isinstance(value, str) or not _WHOLE_NUMBERS.fullmatch(value):
        return value
    return [int(digits) for digits in re.findall(r"\d+", value)]


_WHOLE_NUMBERS = re.compile(r"\s*(?:\d+(?:\s*[,:]\s*\d+)*\s*)?", re.ASCII)


def bytes_of(text: object) -> float:
    """``"4108.75 MiB"``, ``"8 GB"``, ``"80Go"`` or a number as bytes. Raises ValueError."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return float(text)
    match = _SIZE.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is no size; sizes are written as 4108.75 MiB, or 8 GB")
    return float(match[1]) * _UNITS[match[2].lower()]


def limited(value: Any) -> Any:
    """``value``, unless it is a number that is too large, or complex. Raises Mistake for these."""
    if isinstance(value, complex):  # a root of a negative number
        raise Mistake("has no real value")
    if isinstance(value, (int, float)) and not -LARGEST <= value <= LARGEST:
        raise Mistake("a number grew too large")
    return value


def _numbers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """``function`` for operands of a suite: both must be numbers, and the result not too large."""

    def calculate(left: Any, right: Any) -> Any:
        a, b = number(left), number(right)
        try:
            return limited(function(a, b))
        except ZeroDivisionError:
            raise Mistake("divided by zero") from None
        except OverflowError:
            raise Mistake("a number grew too large") from None

    return calculate


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > LARGEST_POWER:
        raise Mistake(f"a power of more than {LARGEST_POWER}")
    # Before it is calculated: a power of whole numbers may take minutes, and all of the memory.
    if abs(base) > 1 and exponent * math.log10(abs(base)) > 300:
        raise Mistake("a number grew too large")
    return base**exponent


def _ordered(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """``function`` for two texts, two sizes (``80 GiB`` is more than ``9 GiB``), or else two numbers."""

    def compare(left: Any, right: Any) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            # With a unit: these are compared as numbers of bytes, not as texts.
            sizes = all(_SIZE.fullmatch(text) and _UNIT.search(text) for text in (left, right))
            return function(*map(bytes_of, (left, right))) if sizes else function(left, right)
        return function(number(left), number(right))

    return compare


def _contains(left: Any, right: Any) -> bool:
    # YAML reads 100 as a number, where "100" in a device's name is meant.
    if isinstance(right, str) and not isinstance(left, str):
        left = str(left)
    if isinstance(right, (str, list, dict)):
        return left in right
    raise Mistake(f"`in` takes a list, a map or a text on its right, not {kind(right)}")


CALCULATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _numbers(operator.add),
    ast.Sub: _numbers(operator.sub),
    ast.Mult: _numbers(operator.mul),
    ast.Div: _numbers(operator.truediv),
    ast.FloorDiv: _numbers(operator.floordiv),
    ast.Mod: _numbers(operator.mod),
    ast.Pow: _numbers(_power),
}
COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: _ordered(operator.lt),
    ast.LtE: _ordered(operator.le),
    ast.Gt: _ordered(operator.gt),
    ast.GtE: _ordered(operator.ge),
    ast.In: _contains,
    ast.NotIn: lambda left, right: not _contains(left, right),
}


def _numbers_of(*values: Any) -> list[int | float]:
    """The arguments of ``min`` and ``max`` as numbers: several of them, or one list."""
    listed = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    if not listed:
        raise Mistake("of an empty list")
    return [number(value) for value in listed]


def _length(value: Any) -> int:
    if not isinstance(value, (str, list, dict)):
        raise Mistake(f"{kind(value)} has no length")
    return len(value)


def _split(text: Any, separator: Any = ",") -> list[str]:
    if not isinstance(separator, str) or not separator:
        raise Mistake("split takes a text and the text that separates its parts")
    whole = "" if text is None else str(text)
    parts = text if isinstance(text, list) else whole.split(separator)
    return [str(part).strip() for part in parts]


def _whole_numbers(value: Any) -> list[int]:
    if isinstance(value, str) and isinstance(listed := read_numbers(value), list):
        return listed
    numbers = []
    nothing = value is None or value == [""]  # what split() makes of an empty text
    for item in [] if nothing else value if isinstance(value, list) else [value]:
        whole = (
            int(item) if isinstance(item, str) and re.fullmatch(r"\d+", item, re.ASCII) else item
        )
        if isinstance(whole, bool) or not isinstance(whole, int) or whole < 0:
            raise Mistake(
                f"{kind(item)} is no whole number from 0; commas stand between several, '0,1'"
            )
        numbers.append(whole)
    return numbers


def _round(value: Any, digits: Any = None) -> Any:
    return round(number(value)) if digits is None else round(number(value), int(number(digits)))


FUNCTIONS: Mapping[str, tuple[Callable[..., Any], int, int, str]] = {
    "min": (lambda *values: min(_numbers_of(*values)), 1, 1000, "the least of numbers or of a list"),
    "max": (lambda *values: max(_numbers_of(*values)), 1, 1000, "the greatest of numbers or of a list"),
    "len": (_length, 1, 1, "the length of a list, a map or a text"),
    "round": (_round, 1, 2, "rounded, to a number of digits"),
    "int": (lambda value: int(number(value)), 1, 1, "without what follows the point"),
    "float": (lambda value: float(number(value)), 1, 1, "with a point"),
    "floor": (lambda value: math.floor(number(value)), 1, 1, "rounded down"),
    "ceil": (lambda value: math.ceil(number(value)), 1, 1, "rounded up"),
    "abs": (lambda value: abs(number(value)), 1, 1, "without its sign"),
    "split": (_split, 1, 2, "the parts of a text, separated by commas or by the second argument"),
    "numbers": (_whole_numbers, 1, 1, "the whole numbers of a text with commas or colons, of a list, or one"),
}  # fmt: skip
"""The functions of expressions by name: what computes them, the least and the most arguments, and what they
return, as docs/suites.md has it.
"""


def call(name: str, values: Sequence[Any]) -> Any:
    """The value of a function. Raises Mistake for a wrong number of arguments, or a wrong argument."""
    function, least, most, _ = FUNCTIONS[name]
    if not least <= len(values) <= most:
        takes = str(least) if least == most else f"{least} or more"
        raise Mistake(f"{name}() takes {takes} arguments, not {len(values)}")
    try:
        return limited(function(*values))
    except OverflowError:
        raise Mistake("a number grew too large") from None
