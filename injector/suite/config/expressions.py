"""Expressions: ``when``, ``requires_capabilities``, and what stands in braces. Read once, evaluated often.

The grammar is Python's own, read by its :mod:`ast`, of whose nodes :func:`_build` allows a few. But a
name may have dashes, dots and subscripts here (``argv.--lr``, ``nodes[0].name``, ``..plan.n``), and
braces around it. Therefore operands are taken out first: each name, number and quoted text becomes an
identifier, so that no text of a user's reaches Python's parser but operators and brackets::

    {argv.--lr} * 2 > 1e-3    what is written
    ( _1 ) * _4 > _6          what Python parses; _1 is a reference, _4 and _6 are constants

From the tree :func:`_build` makes a function of one argument, the names' values. Nothing is ever passed to
``eval``. A suite may come from anywhere, so that length, depth, numbers and powers are limited as well:
evaluating an expression takes neither seconds nor gigabytes, whatever it says.
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
"""The most characters of an expression, brackets within each other, and operations."""
LARGEST, LARGEST_POWER = 1e300, 1024
"""The greatest magnitude of a number, and of an exponent."""
CONTEXT_FUNCTIONS = ("auto", "auto_batch", "expr")
"""Functions of milabench that need the context of a benchmark: see :meth:`Names.call`."""


class Reference(NamedTuple):
    """A name that an expression uses."""

    keys: tuple[str | int, ...]
    up: int = 0
    """How many dots lead: 0 for a name from the top, 1 for one beside the key where the expression stands, 2
    for one a level above, …"""
    name: str = ""
    """The whole reference as text."""

    def __str__(self) -> str:
        return self.name


class Names(Protocol):
    """The names that an expression is evaluated with."""

    def find(self, reference: Reference) -> Any:
        """The value of ``reference``. Raises Mistake if it has none."""

    def call(self, name: str, values: list[Any]) -> Any:
        """The value of one of :data:`CONTEXT_FUNCTIONS`. Raises Mistake if it has none."""


Value = Callable[[Names], Any]
"""Evaluates an expression, or a part of one. Raises Mistake."""


class Expression(NamedTuple):
    """An expression that has been read."""

    text: str
    value: Value
    references: tuple[Reference, ...]
    dynamic: bool = False
    """Whether it has a reference whose name is known only when it is evaluated: ``${${a}.b}``."""
    alone: Reference | None = None
    """The reference, if the expression is one and nothing else."""


@lru_cache(maxsize=65536)
def compiled(text: str) -> Expression:
    """Read an expression.

    Expressions of a suite are read once, however many benchmarks its matrix makes: most texts recur.

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
        not isinstance(node, ast.Name) for node in ast.walk(tree) if isinstance(node, ast.expr)
    )
    if steps > MOST_STEPS:
        raise Mistake(f"an expression of more than {MOST_STEPS} steps")
    alone = source.references.get(tree.id) if isinstance(tree, ast.Name) else None
    references = tuple(source.references.values())
    value = _build(tree, source)
    return Expression(text, value, references, bool(source.dynamic), alone)


# --- operands ---------------------------------------------------------------------------------------

_SEGMENT = r"(?:--?)?\w+(?:-\w+)*"
"""One key of a name, which may be a flag: ``lr``, ``--batch-size``."""
_FURTHER = rf"(?:\.{_SEGMENT}|\[\s*(?:\d+|'[^']*'|\"[^\"]*\")\s*\])*"
"""The keys after the first one: ``.--lr``, ``[0]``, ``['a key']``."""
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
    """An expression as Python's parser is given it, and what the identifiers in it stand for.

    Raises Mistake for what cannot be an expression. Python would find most of it too, but its messages quote
    text that the user has not written, and differ by version.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.pieces: list[str] = []
        """What Python's parser is given for each token."""
        self.places: list[int] = []
        """Where in the text each piece begins."""
        self.constants: dict[str, Any] = {}
        """By identifier; so are the two after it."""
        self.references: dict[str, Reference] = {}
        self.dynamic: dict[str, tuple[str | int, ...]] = {}
        """The KEYS of ``${…}.KEYS``, for which a call stands: what is in the braces is its argument."""
        self.open: list[tuple[str, int]] = []
        """The brackets that are not closed yet, each with the number of its piece."""
        self.ended = False
        """Whether the expression could end after what has been read."""
        at, end = 0, len(text.rstrip())
        while at < end:
            at = self._read_token(at)

    def _read_token(self, at: int) -> int:
        """Read the token at ``at``, and return where the next one begins."""
        match = _TOKEN.match(self.text, at)
        if not match:
            raise self._unreadable(at)
        sort = str(match.lastgroup)
        token, start, end = match[sort], match.start(sort), match.end()
        self._check_order(sort, token, start)
        piece = token
        if sort == "number":
            piece = self._operand(self.constants, int(token) if token.isdigit() else float(token))
        elif sort == "text":
            piece = self._operand(self.constants, token[1:-1])
        elif sort == "name":
            # The pattern takes as many keys as it can: what is left over is no key.
            if self.text[end : end + 1] in (".", "["):
                raise self._unreadable(end)
            known = token in _CONSTANTS
            piece = (
                self._operand(self.constants, _CONSTANTS[token])
                if known
                else self._operand(self.references, _reference(token))
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
            piece, end = self._close(token, start, end)
        self.pieces.append(piece)
        self.places.append(start)
        return end

    def _operand(self, table: dict[str, Any], value: Any) -> str:
        """The identifier that stands for ``value``, which is put into ``table``."""
        name = f"_{len(self.pieces)}"
        table[name] = value
        return name

    def _close(self, token: str, start: int, end: int) -> tuple[str, int]:
        """The piece for a closing bracket, and where what belongs to it ends."""
        opening, index = self.open.pop() if self.open else ("", 0)
        if "([{".find(opening[-1:]) != ")]}".find(token) or not opening:
            raise self._unexpected(token, start)
        if token != "}":
            return token, end
        if self.text[end : end + 1] == ".":
            # ${${a}.b}: the value of a is the first key of the name. The opening brace becomes a call.
            rest = _REST.match(self.text, end)
            if not rest or not rest.group():
                raise self._unreadable(end)
            end = rest.end()
            self.pieces[index] = f"_{index}("
            self.dynamic[f"_{index}"] = _keys(rest.group())
        return ")", end

    def _unreadable(self, at: int) -> Mistake:
        rest = self.text[at:].lstrip()
        place = f"at character {len(self.text) - len(rest) + 1} of {self.text!r}"
        if rest[:1] == ".":
            return Mistake(f"a name is missing after the dot {place}")
        if rest[:1] == "[":
            return Mistake(f"[…] takes a number or a quoted text, {place}")
        return Mistake(f"cannot read {rest[:20]!r} {place}")

    def _unexpected(self, token: str, start: int) -> Mistake:
        return Mistake(f"{token!r} is not expected at character {start + 1} of {self.text!r}")

    def _check_order(self, sort: str, token: str, start: int) -> None:
        """Raise Mistake if a token of this ``sort`` may not follow what has been read."""
        if self.ended:  # an operand stands before it
            fits = sort in ("sign", "closing", "word")
        elif sort == "closing":  # only an empty list, or a call without arguments
            fits = self.pieces[-1:] in (["("], ["["]) and token != "}"
        else:
            # An operand is due, or what may come before one. After "not" follows "in", if no operand does.
            fits = (
                sort not in ("sign", "word") or token in ("-", "not") or self.pieces[-1:] == ["not"]
            )
        if not fits:
            raise self._unexpected(token, start)
        self.ended = sort not in ("sign", "word", "function", "opening")

    def whole(self) -> str:
        """The text for Python's parser. Raises Mistake if the expression is not complete."""
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
    """The keys of a name: ``nodes[0].name`` has ``nodes``, 0 and ``name``."""
    keys: list[str | int] = []
    for name, index, single, double in _KEYS.findall(written):
        keys.append(name or (int(index) if index else single or double))
    return tuple(keys)


# --- nodes ------------------------------------------------------------------------------------------


def _build(node: ast.expr, source: _Source) -> Value:
    """The function that evaluates ``node``. Raises Mistake for any node that is not listed here."""

    def several(nodes: Sequence[ast.expr]) -> list[Value]:
        return [_build(part, source) for part in nodes]

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
        # True or false, not the deciding operand as in Python: conditions are all that and and or serve.
        values, decide = several(node.values), any if isinstance(node.op, ast.Or) else all
        return lambda names: decide(value(names) for value in values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        (operand,) = several([node.operand])
        if isinstance(node.op, ast.Not):
            return lambda names: not operand(names)
        return lambda names: -number(operand(names))
    if isinstance(node, ast.List):
        values = several(node.elts)
        return lambda names: [value(names) for value in values]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _call(node.func.id, several(node.args), source)
    raise Mistake(f"{source.text!r} has more than expressions may have: {_NODES}")


_NODES = "names, numbers, texts, lists, + - * / // % **, one comparison, and or not in, functions"


def _call(name: str, arguments: list[Value], source: _Source) -> Value:
    """What evaluates a call: of a name whose first key is computed, or of a function."""
    if keys := source.dynamic.get(name):
        (first,) = arguments
        return lambda names: names.find(_dynamic_reference(str(first(names)), keys))
    if name in CONTEXT_FUNCTIONS:
        return lambda names: names.call(name, [argument(names) for argument in arguments])
    return lambda names: call(name, [argument(names) for argument in arguments])


def _dynamic_reference(first: str, keys: tuple[str | int, ...]) -> Reference:
    return Reference((first, *keys), 0, ".".join(map(str, (first, *keys))))


# --- values -----------------------------------------------------------------------------------------


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
            sizes = are_sizes(left, right)
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
