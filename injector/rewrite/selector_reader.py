"""Reading a selector: a scanner, and a parser that climbs ptera's operator precedences.

`f(x) > y` becomes the tokens `f ( x ) > y`, and these a tree::

    FunctionNode("f")
        captures    Element("x"), Element("y", focus=BEGIN)

Importing ptera costs 80 ms, so its parser reads only what this one refuses. `tests/rewrite/test_selector.py`
shows that both agree wherever both read.
"""

from __future__ import annotations

from .selector import (
    ABSENT,
    BEGIN,
    END,
    Element,
    FunctionNode,
    Selector,
    SelectorError,
    Unread,
    Value,
    calls,
    check_call,
    kind_of,
    number_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


def parse(text: str) -> Selector:
    """Read a selector. A lone variable `x` comes back as `* > x`.

    Raises SelectorError, with the place, if neither this reader nor ptera's can read it.
    """
    try:
        return _checked(SelectorReader(text).selector(), text)
    except Unread as error:
        # Our message has a caret and says what was expected: it is the one raised if ptera gives no tree, or
        # one whose names can be no names.
        refusal = SelectorError(error.message, error.text, error.offset)
        from . import ptera_tree

        try:
            tree = ptera_tree.read(text)
            if tree is not None:
                return _checked(tree, text)
        except SelectorError:
            pass
        raise refusal from None


def _checked(tree: Element | FunctionNode, text: str) -> Selector:
    """The tree of a selector, a lone variable put into `*`. Raises SelectorError for impossible names."""
    if isinstance(tree, Element):
        tree = FunctionNode("*", (tree.replace(focus=tree.focus | BEGIN),))
    for call in calls(tree):
        check_call(call, text)
    return tree


def matcher(value: Value, lookup: Callable[[str], Any]) -> Callable[[Any], Any]:
    """A test of whether a variable has the value that a selector demands.

    `lookup` gives the object that a name stands for.
    """
    wanted: Any = value.text
    if value.kind != "string":
        wanted = SelectorReader(value.text).constant(lookup)
    if value.kind == "match":
        test: Callable[[Any], Any] = wanted
        return test
    return lambda actual: wanted == actual


# --- text → tokens -------------------------------------------------------------------------------

_PUNCTUATION = "(){}[]>:,$=~"
_MARKS = "_#@*./-"

if TYPE_CHECKING:
    Token = tuple[str, str, int]
    """Its kind (word, string, op or end), its text, and the offset at which it begins."""


def _in_word(c: str) -> bool:
    # Characters such as combining marks may stand in an identifier, though not at its beginning.
    return c.isalnum() or c in _MARKS or (c > "\x7f" and ("a" + c).isidentifier())


def _end_of_run(text: str, start: int, belongs: Callable[[str], bool]) -> int:
    """Where the run of characters that begins at `start` ends."""
    end = start
    while end < len(text) and belongs(text[end]):
        end += 1
    return end


def _tokens(text: str) -> Iterator[Token]:
    """The tokens of a selector, the last one of the kind `end`. Raises Unread."""
    start = 0
    while start < len(text):
        char = text[start]
        if char.isspace():
            start += 1
            continue
        kind, end = "op", start + 1
        if char == "'":
            kind, end = "string", text.find("'", start + 1) + 1
            if not end:
                raise Unread("this string is never closed: expected '", text, start)
        elif char == "!":
            # `!` and `!!` are two operators; more of them are none, and are refused by the parser.
            end = _end_of_run(text, start, "!".__contains__)
        elif _in_word(char):
            kind, end = "word", _end_of_run(text, start, _in_word)
        elif char not in _PUNCTUATION:
            raise Unread(f"{char!r} means nothing in a selector", text, start)
        word = text[start:end]
        if word == "as":
            kind = "op"
        elif word.startswith("as") and not (word[2].isalnum() or word[2] == "_"):
            raise Unread("expected a blank after 'as'", text, start)
        yield kind, _folded(word) if kind == "word" else word, start
        start = end
    yield "end", "", len(text)


def _folded(word: str) -> str:
    """A word as Python folds identifiers (PEP 3131): the names in code objects are folded."""
    if word.isascii():
        return word
    # Imported here: few selectors need it, and all are read while the program starts.
    import unicodedata

    return unicodedata.normalize("NFKC", word)


# --- tokens → tree -------------------------------------------------------------------------------

# How strongly an operator binds the operand to its left, and the one to its right. `>` binds to the right a
# little weaker than to the left, so that `f > g > x` nests to the right.
_LEFT = {",": 10, ">": 100, "=": 120, "~": 120, "(": 200, ":": 300, "as": 350}
_RIGHT = {">": 99, ":": 301}


def _as_call(node: Element | FunctionNode) -> FunctionNode:
    """The operand of `>` or `(` as a function. The focus and the capture of a name are dropped."""
    if isinstance(node, FunctionNode):
        return node
    return FunctionNode(node.name or "*", category=node.category, at=node.at)


def _nest(parent: FunctionNode, child: Element | FunctionNode) -> FunctionNode:
    """`parent > child`: a function inside of a function, or the variable that triggers."""
    if isinstance(child, FunctionNode):
        return parent.replace(children=(*parent.children, child))
    child = child.replace(focus=child.focus | BEGIN)
    return parent.replace(captures=(*parent.captures, child))


class SelectorReader:
    """Parses one text in one pass over its tokens.

    `root` is true outside of parentheses, where a lone name is the focus.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.position = 0

    @property
    def now(self) -> Token:
        """The token that is to be taken next."""
        return self.tokens[self.position]

    def take(self) -> Token:
        self.position += 1
        return self.tokens[self.position - 1]

    def at_op(self, *ops: str) -> bool:
        return self.now[0] == "op" and self.now[1] in ops

    def unread(self, expected: str) -> Unread:
        """The error for a token where something else was `expected`."""
        kind, word, at = self.now
        seen = "the end" if kind == "end" else repr(word)
        return Unread(f"expected {expected}, not {seen}", self.text, at)

    def close(self, expected: str = "',' or ')'") -> None:
        """Take the closing parenthesis. Raises Unread if there is none."""
        if not self.at_op(")"):
            raise self.unread(expected)
        self.take()

    def selector(self) -> Element | FunctionNode:
        """The whole text as a tree. Raises SelectorError; Unread if another reader may try."""
        tree = self.expression(0, True)
        if self.at_op(","):
            raise SelectorError("several variables stand in a call: f(x, y)", *self.place())
        if self.now[0] != "end":
            raise self.unread("'>', '(', 'as', ':', '=' or the end")
        return tree

    def place(self) -> tuple[str, int]:
        """The text and the offset reached, as the errors take them."""
        return self.text, self.now[2]

    def expression(self, power: int, root: bool) -> Element | FunctionNode:
        """An operand, and the operators behind it that bind more strongly than `power`."""
        left = self.operand(power, root)
        # A comma belongs to the parentheses around it, never to an expression.
        while self.now[0] == "op" and _LEFT.get(self.now[1], 0) > max(power, 10):
            left = self.operation(left, root)
        return left

    def operand(self, power: int, root: bool) -> Element | FunctionNode:
        """A name, `*`, `!x`, `$x`, a group in parentheses, or the missing operand before `:` and `(`."""
        kind, word, at = self.now
        if kind == "word":
            self.take()
            if word == "*":
                return Element(None, at=at)
            return Element(word, word, focus=BEGIN if root else 0, at=at)
        if self.at_op("!", "!!"):
            self.take()
            element = self.bare(root)
            return element.replace(focus=element.focus | BEGIN if word == "!" else END)
        if self.at_op("$"):
            self.take()
            return self.word(root, "a name after '$'").replace(name=None, at=at)
        if self.at_op(":") and power < _LEFT[":"]:
            return Element(None, at=at)
        if self.at_op("(") and power < _LEFT["("]:
            return self.group(root)
        raise self.unread("a function or a variable")

    def bare(self, root: bool) -> Element:
        """The variable behind `!`: `x` or `$x`."""
        if self.at_op("$"):
            self.take()
            return self.word(root, "a name after '$'").replace(name=None)
        return self.word(root, "a variable after '!'", star=True)

    def word(self, root: bool, expected: str, star: bool = False) -> Element:
        """A name; `*` only where `star` allows it. Raises Unread, with what was `expected`."""
        kind, word, at = self.now
        if kind != "word" or (word == "*" and not star):
            raise self.unread(expected)
        self.take()
        if word == "*":
            return Element(None, at=at)
        return Element(word, word, focus=BEGIN if root else 0, at=at)

    def group(self, root: bool) -> Element | FunctionNode:
        """`(…)` around one operand."""
        self.take()
        inside = self.expression(0, root)
        if self.at_op(","):
            raise SelectorError("expected ')': a group holds one thing", *self.place())
        self.close("')'")
        return inside

    def operation(self, left: Element | FunctionNode, root: bool) -> Element | FunctionNode:
        """`left` with the next operator applied to it."""
        at = self.now[2]
        op = self.take()[1]
        if op == ">":
            if self.at_op(">"):
                raise self.unread("a function or a variable after '>'")
            parent = self.function(left, at)
            return _nest(parent, self.expression(_RIGHT[op], root))
        if op == "(":
            return self.arguments(self.function(left, at))
        if op == "as":
            return self.alias(left, root)
        if op == ":":
            return self.category(left, at)
        return self.compare(left, op)

    def function(self, node: Element | FunctionNode, at: int) -> FunctionNode:
        """The operand `node` of the operator at offset `at`, as a function."""
        if isinstance(node, Element) and node.value is not ABSENT:
            raise SelectorError("a function has no value to compare: f(x=1) > y", self.text, at)
        return _as_call(node)

    def arguments(self, call: FunctionNode) -> FunctionNode:
        """`call` with the variables and functions in the parentheses behind it."""
        inside: list[Element | FunctionNode] = []
        if not self.at_op(")"):
            inside.append(self.expression(0, False))
            while self.at_op(","):
                self.take()
                inside.append(self.expression(0, False))
        self.close()
        elements = tuple(x for x in inside if isinstance(x, Element))
        inner = tuple(x for x in inside if isinstance(x, FunctionNode))
        return call.replace(captures=call.captures + elements, children=call.children + inner)

    def alias(self, left: Element | FunctionNode, root: bool) -> Element | FunctionNode:
        """`left as name`. Of a function, this names its result."""
        mark = self.take()[1] if self.at_op("!", "!!") else ""
        name = self.word(root, "a name after 'as'")
        focus = {"": name.focus, "!": BEGIN, "!!": END}[mark]
        if self.at_op("as"):
            raise Unread("expected one 'as' only", *self.place())
        if isinstance(left, Element):
            return left.replace(capture=name.name, focus=left.focus | focus)
        result = Element("#value", name.name, focus=focus, at=name.at)
        return left.replace(captures=(*left.captures, result))

    def category(self, left: Element | FunctionNode, at: int) -> Element | FunctionNode:
        """`left:@Tag`."""
        if isinstance(left, FunctionNode):
            raise Unread("a tag belongs to a name: f:@Tag(x)", self.text, at)
        kind, word, _ = self.now
        if kind != "word":
            raise self.unread("a tag such as '@Tag' after ':'")
        self.take()
        if self.at_op("as"):
            raise self.unread("the tag after the alias (x as y:@Tag)")
        return left.replace(category=word)

    def compare(self, left: Element | FunctionNode, op: str) -> Element | FunctionNode:
        """`left=value` or `left~test`. Of a function, its result is compared."""
        value = self.value()
        if op == "~":
            value = Value(str(value)[1:], "match")
        if self.at_op("as", ":"):
            raise self.unread("the value last (x as y:@Tag=1)")
        if isinstance(left, Element):
            return left.replace(value=value)
        result = Element("#value", "#value", value, at=left.at)
        return left.replace(captures=(*left.captures, result))

    # Values: numbers, strings, names, calls of names. They are kept as text, since the names mean something
    # only where the selector is used.

    def value(self) -> Value:
        """The value to compare with, as text."""
        kind, word, _ = self.now
        if kind not in ("word", "string"):
            raise self.unread("a value (1, 'text' or a name)")
        self.take()
        value = Value(word[1:-1], "string") if kind == "string" else Value(word, kind_of(word))
        while self.at_op("("):
            self.take()
            value = Value(f"{str(value)[1:]}({', '.join(self.value_arguments())})", "call")
        return value

    def value_arguments(self) -> list[str]:
        """The arguments of a call among values, as text."""
        inside: list[str] = []
        while not self.at_op(")"):
            if inside:
                if not self.at_op(","):
                    raise self.unread("',' or ')'")
                self.take()
            first = self.value()
            text = str(first)[1:]
            if first.kind == "symbol" and self.at_op("="):
                self.take()
                text += str(self.value())
            inside.append(text)
        self.take()
        return inside

    def constant(self, lookup: Callable[[str], Any]) -> Any:
        """The object that a value's text stands for. `lookup` gives that of a name."""
        kind, word, _ = self.take()
        result: Any = word[1:-1] if kind == "string" else number_of(word)
        if result is None:
            result = lookup(word)
        while self.at_op("("):
            result = self.constant_call(result, lookup)
        return result

    def constant_call(self, function: Any, lookup: Callable[[str], Any]) -> Any:
        """The result of `function`, called with the arguments that follow."""
        args: list[Any] = []
        named: dict[str, Any] = {}
        self.take()
        while not self.at_op(")"):
            if self.at_op(","):
                self.take()
            if self.tokens[self.position + 1][1] == "=":
                key = self.take()[1]
                self.take()
                named[key] = self.constant(lookup)
            else:
                args.append(self.constant(lookup))
        self.take()
        return function(*args, **named)
