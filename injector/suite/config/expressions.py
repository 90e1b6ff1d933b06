"""Expressions: ``when``, ``requires_capabilities``, what stands in braces. Read once, evaluated often.

The grammar is Python's own, read by its :mod:`ast`, of whose nodes :func:`_build` allows a few. But a
name may have dashes, dots and subscripts here (``argv.--lr``, ``nodes[0].name``, ``..plan.n``), and
braces around it. Therefore operands are taken out first: each name, number and quoted text becomes an
identifier, so that no text of a user's reaches Python's parser but operators and brackets.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from .problems import Mistake, kind, meant
from .sizes import are_sizes, bytes_of

LONGEST_TEXT, DEEPEST, MOST_STEPS = 1000, 40, 100
LARGEST, LARGEST_POWER = 1e300, 1024
"""The greatest magnitude of a number, and of an exponent."""
CONTEXT_FUNCTIONS = ("auto", "auto_batch", "expr")
"""milabench's: the value of the first two depends on the machine."""


class Reference(NamedTuple):
    """A name that an expression uses."""

    keys: tuple[str | int, ...]
    up: int = 0
    """Leading dots: 0 from the top, 1 beside the key where it stands, 2 one above, …"""
    name: str = ""
    """The whole of it, as it was written."""

    def __str__(self) -> str:
        return self.name


class Names(Protocol):
    """What an expression is evaluated in."""

    def find(self, reference: Reference) -> Any:
        """The value of ``reference``; raises Mistake."""

    def call(self, name: str, values: list[Any]) -> Any:
        """The value of one of CONTEXT_FUNCTIONS; raises Mistake."""


Value = Callable[[Names], Any]


class Expression(NamedTuple):
    """An expression that has been read."""

    text: str
    value: Value
    """Raises Mistake."""
    references: tuple[Reference, ...]
    dynamic: bool = False
    """Whether it has a reference whose name is known only when it is evaluated."""
    alone: Reference | None = None
    """The reference, where it is one and nothing else."""


@lru_cache(maxsize=65536)
def compiled(text: str) -> Expression:
    """Read an expression.

    Raises:
        Mistake: it cannot be read; the text says where and what would be right.
    """
    if len(text) > LONGEST_TEXT:
        raise Mistake(f"an expression of more than {LONGEST_TEXT} characters")
    source = _Source(text)
    try:
        tree = ast.parse(source.whole(), mode="eval").body
    except SyntaxError as error:
        raise Mistake(f"cannot read {text!r}: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise Mistake(f"nested more than {DEEPEST} deep") from None
    steps = sum(
        not isinstance(each, ast.Name) for each in ast.walk(tree) if isinstance(each, ast.expr)
    )
    if steps > MOST_STEPS:
        raise Mistake(f"an expression of more than {MOST_STEPS} steps")
    alone = source.references.get(tree.id) if isinstance(tree, ast.Name) else None
    references = tuple(source.references.values())
    value = _build(tree, source)
    return Expression(text, value, references, bool(source.dynamic), alone)


# --- operands ---------------------------------------------------------------------------------------

_SEGMENT = r"(?:--?)?\w+(?:-\w+)*"
_FURTHER = rf"(?:\.{_SEGMENT}|\[\s*(?:\d+|'[^']*'|\"[^\"]*\")\s*\])*"
_TOKEN = re.compile(
    rf"""\s*(?:
        (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w.]))
      | (?P<text>'[^']*'|"[^"]*")
      | (?P<word>(?:and|or|not|in)(?!\w|-\w))
      | (?P<function>[A-Za-z_]\w*(?:-\w+)*)(?=\s*\()
      | (?P<name>(?:\.+{_SEGMENT}|(?:--)?[A-Za-z_]\w*(?:-\w+)*){_FURTHER})
      | (?P<opening>\$?{{|[(\[])
      | (?P<closing>[}}\])])
      | (?P<sign>\*\*|//|==|!=|<=|>=|[-+*/%<>,])
    )""",
    re.VERBOSE,
)
_KEYS = re.compile(rf"({_SEGMENT})|\[\s*(?:(\d+)|'([^']*)'|\"([^\"]*)\")\s*\]")
_REST = re.compile(_FURTHER)
_CONSTANTS = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}


class _Source:
    """A text as Python's parser is given it, and what its identifiers stand for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pieces: list[str] = []
        self.places: list[int] = []
        """Where in the text each piece begins."""
        self.constants: dict[str, Any] = {}
        self.references: dict[str, Reference] = {}
        self.dynamic: dict[str, tuple[str | int, ...]] = {}
        """Functions that stand for ``${…}.KEYS``: the keys."""
        self.open: list[tuple[str, int]] = []
        """Brackets that are not closed yet: which, and the number of its piece."""
        self.ended = False
        """Whether what has been read could end here."""
        at, end = 0, len(text.rstrip())
        while at < end:
            at = self.token(at)

    def token(self, at: int) -> int:
        """Take the token at ``at``; returns where the next one is looked for."""
        found = _TOKEN.match(self.text, at)
        if not found:
            raise self.unreadable(at)
        sort = str(found.lastgroup)
        token, start, end = found[sort], found.start(sort), found.end()
        self.follow(sort, token, start)
        piece = token
        if sort == "number":
            piece = self.operand(self.constants, int(token) if token.isdigit() else float(token))
        elif sort == "text":
            piece = self.operand(self.constants, token[1:-1])
        elif sort == "name":
            if self.text[end : end + 1] in (".", "["):
                raise self.unreadable(end)
            known = token in _CONSTANTS
            piece = (
                self.operand(self.constants, _CONSTANTS[token])
                if known
                else self.operand(self.references, _reference(token))
            )
        elif sort == "function" and token not in (*FUNCTIONS, *CONTEXT_FUNCTIONS):
            hint = meant(token, [*FUNCTIONS, *CONTEXT_FUNCTIONS])
            raise Mistake(f"no function {token}(){hint}")
        elif sort == "opening":
            self.open.append((token, len(self.pieces)))
            if len(self.open) > DEEPEST:
                raise Mistake(f"nested more than {DEEPEST} deep")
            piece = "[" if token == "[" else "("
        elif sort == "closing":
            piece, end = self.close(token, start, end)
        self.pieces.append(piece)
        self.places.append(start)
        return end

    def operand(self, table: dict[str, Any], value: Any) -> str:
        name = f"_{len(self.pieces)}"
        table[name] = value
        return name

    def close(self, token: str, start: int, end: int) -> tuple[str, int]:
        opening, index = self.open.pop() if self.open else ("", 0)
        if "([{".find(opening[-1:]) != ")]}".find(token) or not opening:
            raise self.unexpected(token, start)
        if token != "}":
            return token, end
        if self.text[end : end + 1] == ".":  # ${${a}.b}: the first name is another one's value
            rest = _REST.match(self.text, end)
            if not rest or not rest.group():
                raise self.unreadable(end)
            end = rest.end()
            self.pieces[index] = f"_{index}("
            self.dynamic[f"_{index}"] = _keys(rest.group())
        return ")", end

    def unreadable(self, at: int) -> Mistake:
        rest = self.text[at:].lstrip()
        place = f"at character {len(self.text) - len(rest) + 1} of {self.text!r}"
        if rest[:1] == ".":
            return Mistake(f"a name is missing after the dot {place}")
        if rest[:1] == "[":
            return Mistake(f"[…] takes a number or a quoted text, {place}")
        return Mistake(f"cannot read {rest[:20]!r} {place}")

    def unexpected(self, token: str, start: int) -> Mistake:
        return Mistake(f"{token!r} is not expected at character {start + 1} of {self.text!r}")

    def follow(self, sort: str, token: str, start: int) -> None:
        """Whether ``token`` may stand here: Python's own message for that differs by its version."""
        if self.ended:  # an operand stands before it
            fits = sort in ("sign", "closing", "word")
        elif sort == "closing":  # of what is empty
            fits = self.pieces[-1:] in (["("], ["["]) and token != "}"
        else:
            fits = (
                sort not in ("sign", "word") or token in ("-", "not") or self.pieces[-1:] == ["not"]
            )
        if not fits:
            raise self.unexpected(token, start)
        self.ended = sort not in ("sign", "word", "function", "opening")

    def whole(self) -> str:
        """The text for Python's parser."""
        if self.open:
            opening, index = self.open[-1]
            closing = ")]}"["([{".find(opening[-1])]
            where = f"for the {opening!r} at character {self.places[index] + 1}"
            raise Mistake(f"a {closing!r} is missing {where} of {self.text!r}")
        if not self.ended:
            raise Mistake(f"{self.text!r} ends too early")
        return " ".join(self.pieces)


def _reference(written: str) -> Reference:
    up = len(written) - len(written.lstrip("."))
    keys = _keys(written[up:])
    return Reference(keys, up, "." * up + ".".join(map(str, keys)))


def _keys(written: str) -> tuple[str | int, ...]:
    made: list[str | int] = []
    for name, index, single, double in _KEYS.findall(written):
        made.append(name or (int(index) if index else single or double))
    return tuple(made)


# --- nodes ------------------------------------------------------------------------------------------


def _build(node: ast.expr, source: _Source) -> Value:
    """What evaluates a node; any other than these is refused."""

    def several(nodes: Sequence[ast.expr]) -> list[Value]:
        return [_build(each, source) for each in nodes]

    if isinstance(node, ast.Name) and node.id in source.references:
        reference = source.references[node.id]
        return lambda names: names.find(reference)
    if isinstance(node, ast.Name) and node.id in source.constants:
        constant = source.constants[node.id]
        return lambda names: constant
    if isinstance(node, ast.BinOp) and type(node.op) in CALCULATIONS:
        function, (left, right) = CALCULATIONS[type(node.op)], several([node.left, node.right])
        return lambda names: function(left(names), right(names))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        function, (left, right) = (
            COMPARISONS[type(node.ops[0])],
            several([node.left, *node.comparators]),
        )
        return lambda names: function(left(names), right(names))
    if isinstance(node, ast.BoolOp):
        values, decide = several(node.values), any if isinstance(node.op, ast.Or) else all
        return lambda names: decide(each(names) for each in values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        (one,) = several([node.operand])
        if isinstance(node.op, ast.Not):
            return lambda names: not one(names)
        return lambda names: -number(one(names))
    if isinstance(node, ast.List):
        values = several(node.elts)
        return lambda names: [each(names) for each in values]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _call(node.func.id, several(node.args), source)
    raise Mistake(f"{source.text!r} has more than expressions may have: {_NODES}")


_NODES = "names, numbers, texts, lists, + - * / // % **, one comparison, and or not in, functions"


def _call(name: str, arguments: list[Value], source: _Source) -> Value:
    if keys := source.dynamic.get(name):
        (first,) = arguments
        return lambda names: names.find(_dynamic(str(first(names)), keys))
    if name in CONTEXT_FUNCTIONS:
        return lambda names: names.call(name, [each(names) for each in arguments])
    return lambda names: call(name, [each(names) for each in arguments])


def _dynamic(first: str, keys: tuple[str | int, ...]) -> Reference:
    return Reference((first, *keys), 0, ".".join(map(str, (first, *keys))))


# --- values -----------------------------------------------------------------------------------------


def number(value: Any) -> int | float:
    """A number, also where YAML 1.1 takes one for text (``1e-4``, ``'8'``)."""
    read = read_number(value) if isinstance(value, str) else value
    if isinstance(read, bool) or not isinstance(read, (int, float)):
        raise Mistake(f"{kind(value)} is not a number")
    return read


def read_number(text: str) -> int | float | None:
    """The finite number that a text is, or None."""
    for form in (int, float):
        try:
            value: int | float = form(text)
        except (ValueError, OverflowError):
            continue
        return value if math.isfinite(value) and "_" not in text else None
    return None


def read_numbers(value: Any) -> Any:
    """The list that a text of whole numbers is, ``0,2`` or ``0:1,2:3``, as swept variables have it.

    Any other value is given back as it is.
    """
    if not isinstance(value, str) or not _WHOLE_NUMBERS.fullmatch(value):
        return value
    return [int(each) for each in re.findall(r"\d+", value)]


_WHOLE_NUMBERS = re.compile(r"\s*(?:\d+(?:\s*[,:]\s*\d+)*\s*)?", re.ASCII)


def limited(value: Any) -> Any:
    """``value`` if it is a number that is not too large."""
    if isinstance(value, complex):
        raise Mistake("has no real value")
    if isinstance(value, (int, float)) and not -LARGEST <= value <= LARGEST:
        raise Mistake("a number grew too large")
    return value


def _numbers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
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
    if abs(base) > 1 and exponent * math.log10(abs(base)) > 300:
        raise Mistake("a number grew too large")
    return base**exponent


def _ordered(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(left: Any, right: Any) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            sizes = are_sizes(left, right)
            return function(*map(bytes_of, (left, right))) if sizes else function(left, right)
        return function(number(left), number(right))

    return compare


def _contains(left: Any, right: Any) -> bool:
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
    found = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    if not found:
        raise Mistake("of an empty list")
    return [number(each) for each in found]


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
    found = []
    nothing = value is None or value == [""]  # what split() makes of an empty text
    for each in [] if nothing else value if isinstance(value, list) else [value]:
        whole = (
            int(each) if isinstance(each, str) and re.fullmatch(r"\d+", each, re.ASCII) else each
        )
        if isinstance(whole, bool) or not isinstance(whole, int) or whole < 0:
            raise Mistake(
                f"{kind(each)} is no whole number from 0; commas stand between several, '0,1'"
            )
        found.append(whole)
    return found


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
"""Name → function, fewest and most arguments, what it gives."""


def call(name: str, values: Sequence[Any]) -> Any:
    """A function's value; raises Mistake for a wrong number of arguments or a wrong one."""
    function, least, most, _ = FUNCTIONS[name]
    if not least <= len(values) <= most:
        takes = str(least) if least == most else f"{least} or more"
        raise Mistake(f"{name}() takes {takes} arguments, not {len(values)}")
    try:
        return limited(function(*values))
    except OverflowError:
        raise Mistake("a number grew too large") from None
