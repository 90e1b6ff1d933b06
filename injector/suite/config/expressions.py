"""Expressions: references, numbers, comparisons. Read once into functions of a scope.

::

    or:         and ("or" and)*
    and:        not ("and" not)*
    not:        "not" not | comparison
    comparison: sum (("==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not" "in") sum)?
    sum:        term (("+" | "-") term)*
    term:       factor (("*" | "/" | "//" | "%") factor)*
    factor:     "-" factor | atom ("**" factor)?
    atom:       number | 'text' | true | false | null | "(" or ")" | "[" or, … "]"
                | function "(" or, … ")" | reference | "{" or "}" | "${" or "}"
    reference:  name ("." name | "[" number or text "]")*, or with leading dots as OmegaConf has it,
                or "${" or "}" ("." name)+, whose first name another reference gives

A name may have dashes inside (``batch-size``), so a minus between names wants spaces around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from .arithmetic import CALCULATIONS, COMPARISONS, FUNCTIONS, Wrong, call, number

LONGEST_TEXT, DEEPEST, MOST_STEPS = 1000, 40, 100

CONTEXT_FUNCTIONS = ("auto", "auto_batch", "expr")
"""milabench's: what the first two give depends on who asks."""


class Reference(NamedTuple):
    """A name that an expression uses."""

    keys: tuple[str | int, ...]
    up: int = 0
    """Leading dots: 0 from the top, 1 beside the key where it stands, 2 one above, …"""
    name: str = ""
    """The whole of it, as it was written."""

    def __str__(self) -> str:
        return self.name


def reference(keys: tuple[str | int, ...], up: int = 0) -> Reference:
    """A reference; a first key with dots is several."""
    return Reference(keys, up, "." * up + ".".join(map(str, keys)))


class Scope(Protocol):
    """What an expression is evaluated in."""

    def find(self, reference: Reference) -> Any:
        """The value that ``reference`` means; raises Wrong."""

    def call(self, name: str, values: list[Any]) -> Any:
        """The value of one of CONTEXT_FUNCTIONS; raises Wrong."""


Value = Callable[[Scope], Any]


class Expression(NamedTuple):
    """An expression that has been read."""

    text: str
    value: Value
    """Raises Wrong."""
    references: tuple[Reference, ...]
    calls: frozenset[str]
    """The context functions that it uses."""
    dynamic: bool
    """Whether it has a reference whose name is known only when it is evaluated."""
    alone: Reference | None = None
    """The reference, where it is one and nothing else."""


_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w.]))
      | (?P<text>'[^']*'|"[^"]*")
      | (?P<name>(?:--)?[A-Za-z_]\w*(?:-\w+)*)
      | (?P<sign>\$\{|\*\*|//|==|!=|<=|>=|[-+*/%<>()\[\]{},.])
    )""",
    re.VERBOSE,
)
_SEGMENT = re.compile(r"(?:--?)?\w+(?:-\w+)*")
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_KEYWORDS = {"and", "or", "not", "in"}


@lru_cache(maxsize=65536)
def compiled(text: str) -> Expression:
    """Read an expression.

    Raises:
        Wrong: it cannot be read; says where and what would be right.
    """
    if len(text) > LONGEST_TEXT:
        raise Wrong(f"an expression of more than {LONGEST_TEXT} characters")
    return _Reader(text).whole()


class _Reader:
    """One expression being read: recursive descent, a character position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = self.steps = 0
        self.dynamic = False
        self.references: list[Reference] = []
        self.calls: set[str] = set()
        self.last: Value | None = None
        self.kind, self.token = "", ""
        self.start = 0
        self.next()

    def whole(self) -> Expression:
        value = self.either()
        if self.kind:
            raise self.unexpected()
        calls, references = frozenset(self.calls), tuple(self.references)
        alone = references[0] if value is self.last and not self.dynamic else None
        return Expression(self.text, value, references, calls, self.dynamic, alone)

    # tokens

    def next(self) -> None:
        if not self.text[self.at :].strip():
            self.kind, self.token, self.start = "", "", len(self.text)
            return
        found = _TOKEN.match(self.text, self.at)
        if not found:
            rest = self.text[self.at :].lstrip()
            raise Wrong(f"cannot read {rest[:20]!r} in {self.text!r}")
        self.kind = str(found.lastgroup)
        self.token = found.group(self.kind)
        self.start, self.at = found.start(self.kind), found.end()
        if self.kind == "name" and self.token in _KEYWORDS:
            self.kind = "sign"

    def has(self, *signs: str) -> str:
        """The sign that stands here, if it is one of these; read past it."""
        if self.kind == "sign" and self.token in signs:
            token = self.token
            self.next()
            return token
        return ""

    def need(self, sign: str) -> None:
        if not self.has(sign):
            raise self.unexpected(f"{sign!r} is missing")

    def unexpected(self, why: str = "") -> Wrong:
        if not self.kind:
            return Wrong(f"{self.text!r} ends too early" + (f": {why}" if why else ""))
        said = why or f"{self.token!r} is not expected here"
        return Wrong(f"{said}, at character {self.start + 1} of {self.text!r}")

    def step(self, function: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
        self.count()
        return lambda scope: function(left(scope), right(scope))

    def count(self) -> None:
        """Each step nests a call in another: Python's stack is not for a text to fill."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Wrong(f"an expression of more than {MOST_STEPS} steps")

    # the grammar, loosest first

    def either(self) -> Value:
        self.depth += 1
        if self.depth > DEEPEST:
            raise Wrong(f"nested more than {DEEPEST} deep")
        value = self.both()
        while self.has("or"):
            self.count()
            value = _either(value, self.both())
        self.depth -= 1
        return value

    def both(self) -> Value:
        value = self.negated()
        while self.has("and"):
            self.count()
            value = _both(value, self.negated())
        return value

    def negated(self) -> Value:
        turns = 0
        while self.has("not"):
            turns += 1
        value = self.comparison()
        if not turns:
            return value
        return lambda scope: bool(value(scope)) == (turns % 2 == 0)

    def comparison(self) -> Value:
        left = self.sum()
        sign = self.has("==", "!=", "<", "<=", ">", ">=", "in")
        if not sign and self.has("not"):
            self.need("in")
            sign = "not in"
        if not sign:
            return left
        return self.step(COMPARISONS[sign], left, self.sum())

    def sum(self) -> Value:
        value = self.term()
        while sign := self.has("+", "-"):
            value = self.step(CALCULATIONS[sign], value, self.term())
        return value

    def term(self) -> Value:
        value = self.factor()
        while sign := self.has("*", "/", "//", "%"):
            value = self.step(CALCULATIONS[sign], value, self.factor())
        return value

    def factor(self) -> Value:
        self.count()
        minus = False
        while self.has("-"):
            minus = not minus
        value = self.atom()
        if self.has("**"):
            value = self.step(CALCULATIONS["**"], value, self.factor())
        return (lambda scope: -number(value(scope))) if minus else value

    def atom(self) -> Value:
        if self.kind == "number":
            return self.constant(_number(self.token))
        if self.kind == "text":
            return self.constant(self.token[1:-1])
        if self.kind == "name":
            return self.named()
        if self.kind == "sign" and self.token == ".":
            return self.reference()
        return self.enclosed()

    def enclosed(self) -> Value:
        opened = self.has("(", "[", "{", "${")
        if not opened:
            raise self.unexpected()
        if opened == "[":
            return _list(self.several("]"))
        value = self.either()
        if opened == "(":
            self.need(")")
            return value
        end = self.at
        self.need("}")
        return self.dynamic_reference(value, end) if self.token == "." else value

    def several(self, end: str) -> list[Value]:
        """Values with commas between, up to ``end``."""
        values: list[Value] = []
        while not self.has(end):
            if values:
                self.need(",")
            values.append(self.either())
        return values

    def constant(self, value: Any) -> Value:
        self.next()
        return lambda scope: value

    def named(self) -> Value:
        name, end = self.token, self.at
        if name in _WORDS:
            return self.constant(_WORDS[name])
        if not self.text[end:].lstrip().startswith("("):
            return self.reference()
        self.next()
        self.need("(")
        values = self.several(")")
        if name in CONTEXT_FUNCTIONS:
            self.calls.add(name)
            return lambda scope: scope.call(name, [each(scope) for each in values])
        if name not in FUNCTIONS:
            from ..words import meant

            raise Wrong(f"no function {name}(){meant(name, [*FUNCTIONS, *CONTEXT_FUNCTIONS])}")
        return lambda scope: call(name, [each(scope) for each in values])

    # references are read by character: after a dot, words have other rules

    def reference(self) -> Value:
        self.at = self.start
        dots = re.compile(r"\.*").match(self.text, self.at)
        up = len(dots.group()) if dots else 0
        self.at += up
        first = self.segment()
        found = reference((first, *self.further()), up)
        self.references.append(found)
        self.last = value = lambda scope: scope.find(found)
        return value

    def dynamic_reference(self, first: Value, at: int) -> Value:
        self.at, self.dynamic = at, True
        keys = self.further()
        return lambda scope: scope.find(reference((str(first(scope)), *keys)))

    def further(self) -> list[str | int]:
        """The rest of a reference; reads on to the next token."""
        keys: list[str | int] = []
        while self.at < len(self.text) and self.text[self.at] in ".[":
            keys.append(self.subscript() if self.text[self.at] == "[" else self.dotted())
        self.next()
        return keys

    def dotted(self) -> str:
        self.at += 1
        return self.segment()

    def segment(self) -> str:
        found = _SEGMENT.match(self.text, self.at)
        if not found:
            raise Wrong(f"a name is missing at character {self.at + 1} of {self.text!r}")
        self.at = found.end()
        return found.group()

    def subscript(self) -> str | int:
        found = re.compile(r"\[\s*(?:(\d+)|'([^']*)'|\"([^\"]*)\")\s*\]").match(self.text, self.at)
        if not found:
            raise Wrong(f"[…] wants a number or a quoted text in {self.text!r}")
        self.at = found.end()
        index, single, double = found.groups()
        return int(index) if index else single if single is not None else double


def _number(token: str) -> int | float:
    return int(token) if token.isdigit() else float(token)


def _either(left: Value, right: Value) -> Value:
    return lambda scope: bool(left(scope)) or bool(right(scope))


def _both(left: Value, right: Value) -> Value:
    return lambda scope: bool(left(scope)) and bool(right(scope))


def _list(values: list[Value]) -> Value:
    return lambda scope: [each(scope) for each in values]
