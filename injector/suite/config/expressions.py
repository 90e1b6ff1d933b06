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
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from .functions import CALCULATIONS, COMPARISONS, FUNCTIONS, call, number
from .problems import Mistake, meant

LONGEST_TEXT, DEEPEST, MOST_STEPS = 1000, 40, 100
"""The most characters of an expression, brackets within each other, and operations."""
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

    Expressions of a suite are read once, however many benchmarks its matrix makes: most texts recur. Raises
    Mistake if it cannot be read; the text says where and what would be right.
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
            if token in _CONSTANTS:
                piece = self._operand(self.constants, _CONSTANTS[token])
            else:
                up = len(token) - len(token.lstrip("."))
                piece = self._operand(self.references, _reference(_keys(token[up:]), up))
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


def _reference(keys: tuple[str | int, ...], up: int = 0) -> Reference:
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
        return lambda names: names.find(_reference((str(first(names)), *keys)))
    if name in CONTEXT_FUNCTIONS:
        return lambda names: names.call(name, [argument(names) for argument in arguments])
    return lambda names: call(name, [argument(names) for argument in arguments])


# --- on a node --------------------------------------------------------------------------------------

OF_DEVICES = (("gpu", "name"), ("gpu", "capacity"))
"""The names in conditions that only the node which a job gets knows the values of: Slurm does not. All else
that conditions use is looked up when the suite is planned, so that a node needs none of the suite's files.
"""


class NodeCondition(NamedTuple):
    """A condition of ``requires_capabilities`` that only a node can judge."""

    text: str
    values: Mapping[str, Any]
    """The values of the other names that it uses."""


def is_of_devices(reference: Reference) -> bool:
    """Whether ``reference`` is one of :data:`OF_DEVICES`."""
    return not reference.up and reference.keys[:2] in OF_DEVICES


class _NodeNames(NamedTuple):
    """The names that a condition is evaluated with on a node: ``values``, and ``gpu`` for its devices."""

    values: Mapping[str, Any]
    gpu: Mapping[str, Any]

    def find(self, reference: Reference) -> Any:
        """See :class:`Names`."""
        if is_of_devices(reference):
            return self.gpu[str(reference.keys[1])]
        return self.values[reference.name]

    def call(self, name: str, values: list[Any]) -> Any:
        """See :class:`Names`."""
        raise Mistake(f"{name}() is not known on a node")


def unmet_on_node(conditions: Iterable[NodeCondition], gpu: Mapping[str, Any]) -> list[str]:
    """The conditions that do not hold on a node, as text.

    ``gpu`` has the ``name`` and the ``capacity`` of its devices: ``81920 MiB``.
    """
    unmet = []
    for condition in conditions:
        try:
            if not compiled(condition.text).value(_NodeNames(condition.values, gpu)):
                unmet.append(condition.text)
        except Mistake as error:
            unmet.append(f"{condition.text} ({error})")
    return unmet
