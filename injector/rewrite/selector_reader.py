"""Reading a selector: a hand-written scanner and a precedence parser, with ptera's precedences.

Importing ptera costs 80 ms, so its own parser only reads what this one cannot.
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
        # Our own message is the better one if ptera's tree makes no sense either.
        refusal = SelectorError(error.message, error.text, error.offset)
        try:
            found = ptera_tree(text)
            if found is not None:
                return _checked(found, text)
        except SelectorError:
            pass
        raise refusal from None


def _checked(tree: Element | FunctionNode, text: str) -> Selector:
    if isinstance(tree, Element):
        tree = FunctionNode("*", (tree.replace(focus=tree.focus | BEGIN),))
    for call in calls(tree):
        check_call(call, text)
    return tree


def matcher(value: Value, lookup: Callable[[str], Any]) -> Callable[[Any], Any]:
    """A test of whether a variable has the wanted value; `lookup` gives what a name stands for."""
    wanted: Any = value.text
    if value.kind != "string":
        wanted = SelectorReader(value.text).constant(lookup)
    if value.kind == "match":
        test: Callable[[Any], Any] = wanted
        return test
    return lambda found: wanted == found


# --- text → tokens -------------------------------------------------------------------------------

_PUNCTUATION = "(){}[]>:,$=~"
_MARKS = "_#@*./-"

if TYPE_CHECKING:
    Token = tuple[str, str, int]  # kind (word, string, op or end), text, offset


def _in_word(c: str) -> bool:
    return c.isalnum() or c in _MARKS or (c > "\x7f" and ("a" + c).isidentifier())


def _run(text: str, start: int, belongs: Callable[[str], bool]) -> int:
    end = start
    while end < len(text) and belongs(text[end]):
        end += 1
    return end


def _scan(text: str) -> Iterator[Token]:
    i = 0
    while i < len(text):
        c = text[i]
        if c.isspace():
            i += 1
            continue
        kind, end = "op", i + 1
        if c == "'":
            kind, end = "string", text.find("'", i + 1) + 1
            if not end:
                raise Unread("this string is never closed: expected '", text, i)
        elif c == "!":
            end = _run(text, i, "!".__contains__)
        elif _in_word(c):
            kind, end = "word", _run(text, i, _in_word)
        elif c not in _PUNCTUATION:
            raise Unread(f"{c!r} means nothing in a selector", text, i)
        word = text[i:end]
        if word == "as":
            kind = "op"
        elif word.startswith("as") and not (word[2].isalnum() or word[2] == "_"):
            raise Unread("expected a blank after 'as'", text, i)
        yield kind, _normal(word) if kind == "word" else word, i
        i = end
    yield "end", "", len(text)


def _normal(word: str) -> str:
    if word.isascii():
        return word
    # Python folds identifiers so, and the program's names are compared with these.
    import unicodedata

    return unicodedata.normalize("NFKC", word)


# --- tokens → tree -------------------------------------------------------------------------------

# How strongly an operator draws what stands to its left, and what stands to its right.
_LEFT = {",": 10, ">": 100, "=": 120, "~": 120, "(": 200, ":": 300, "as": 350}
_RIGHT = {">": 99, ":": 301}


def _as_call(node: Element | FunctionNode) -> FunctionNode:
    """What stands before `>` or `(` is a function: its focus and capture are dropped."""
    if isinstance(node, FunctionNode):
        return node
    return FunctionNode(node.name or "*", category=node.category, at=node.at)


def _nest(parent: FunctionNode, child: Element | FunctionNode) -> FunctionNode:
    if isinstance(child, FunctionNode):
        return parent.replace(children=(*parent.children, child))
    child = child.replace(focus=child.focus | BEGIN)
    return parent.replace(captures=(*parent.captures, child))


class SelectorReader:
    """One pass over the tokens.

    `root` says that a lone name is the focus, as it is outside of parentheses.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_scan(text))
        self.i = 0

    @property
    def now(self) -> Token:
        return self.tokens[self.i]

    def take(self) -> Token:
        self.i += 1
        return self.tokens[self.i - 1]

    def at_op(self, *ops: str) -> bool:
        return self.now[0] == "op" and self.now[1] in ops

    def unread(self, expected: str) -> Unread:
        kind, found, at = self.now
        seen = "the end" if kind == "end" else repr(found)
        return Unread(f"expected {expected}, not {seen}", self.text, at)

    def close(self, expected: str = "',' or ')'") -> None:
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
        return self.text, self.now[2]

    def expression(self, power: int, root: bool) -> Element | FunctionNode:
        left = self.operand(power, root)
        while self.now[0] == "op" and _LEFT.get(self.now[1], 0) > max(power, 10):
            left = self.operation(left, root)
        return left

    def operand(self, power: int, root: bool) -> Element | FunctionNode:
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
        """What `!` stands before: `x` or `$x`."""
        if self.at_op("$"):
            self.take()
            return self.word(root, "a name after '$'").replace(name=None)
        return self.word(root, "a variable after '!'", star=True)

    def word(self, root: bool, expected: str, star: bool = False) -> Element:
        kind, word, at = self.now
        if kind != "word" or (word == "*" and not star):
            raise self.unread(expected)
        self.take()
        if word == "*":
            return Element(None, at=at)
        return Element(word, word, focus=BEGIN if root else 0, at=at)

    def group(self, root: bool) -> Element | FunctionNode:
        self.take()
        inside = self.expression(0, root)
        if self.at_op(","):
            raise SelectorError("expected ')': a group holds one thing", *self.place())
        self.close("')'")
        return inside

    def operation(self, left: Element | FunctionNode, root: bool) -> Element | FunctionNode:
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
        if isinstance(node, Element) and node.value is not ABSENT:
            raise SelectorError("a function has no value to compare: f(x=1) > y", self.text, at)
        return _as_call(node)

    def arguments(self, call: FunctionNode) -> FunctionNode:
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
        value = self.value()
        if op == "~":
            value = Value(str(value)[1:], "match")
        if self.at_op("as", ":"):
            raise self.unread("the value last (x as y:@Tag=1)")
        if isinstance(left, Element):
            return left.replace(value=value)
        result = Element("#value", "#value", value, at=left.at)
        return left.replace(captures=(*left.captures, result))

    # Values: numbers, strings, names, calls of names.

    def value(self) -> Value:
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
        """What a value stands for: the reader's second use, on the text of a `Value`."""
        kind, word, _ = self.take()
        found: Any = word[1:-1] if kind == "string" else _number(word)
        if found is None:
            found = lookup(word)
        while self.at_op("("):
            found = self.constant_call(found, lookup)
        return found

    def constant_call(self, function: Any, lookup: Callable[[str], Any]) -> Any:
        args: list[Any] = []
        named: dict[str, Any] = {}
        self.take()
        while not self.at_op(")"):
            if self.at_op(","):
                self.take()
            if self.tokens[self.i + 1][1] == "=":
                key = self.take()[1]
                self.take()
                named[key] = self.constant(lookup)
            else:
                args.append(self.constant(lookup))
        self.take()
        return function(*args, **named)


def _number(word: str) -> int | float | None:
    if not any(c.isdigit() for c in word) or not (word[0].isdigit() or word[0] in "-."):
        return None
    try:
        return float(word) if "." in word or "e" in word.lower() else int(word)
    except ValueError:
        return None


def kind_of(word: str) -> str:
    """Whether a word among values is a number or stands for something else."""
    return "symbol" if _number(word) is None else "number"


# --- ptera's own parser, for what our reader does not know ----------------------------------------


def ptera_tree(text: str) -> Element | FunctionNode | None:
    """ptera's tree of `text` as ours; None if ptera cannot read it, or is not installed."""
    try:
        from ptera.selector import parse
    except ImportError:
        return None
    try:
        return converted(parse(text))
    except Exception:
        # It refuses with whatever breaks first: SyntaxError, TypeError, AssertionError, …
        return None


def converted(node: Any) -> Element | FunctionNode:
    """One node of ptera's tree. Raises TypeError for what our tree has no place for."""
    if hasattr(node, "element"):
        return _call(node)
    if hasattr(node, "tags"):
        return _element(node)
    raise TypeError(f"no selector: {node!r}")


def _call(node: Any) -> FunctionNode:
    element = node.element
    if _present(element.value):
        raise TypeError("a function has no value")
    children = [_call(child) for child in node.children]
    captures = [_element(capture) for capture in node.captures]
    target = "*" if element.name is None else str(element.name)
    return FunctionNode(target, tuple(captures), tuple(children), _category(element.category))


def _element(node: Any) -> Element:
    value = _value(node.value) if _present(node.value) else ABSENT
    name = None if node.name is None else str(node.name)
    focus = (BEGIN if 1 in node.tags else 0) | (END if 2 in node.tags else 0)
    return Element(name, node.capture, value, _category(node.category), focus)


def _present(value: Any) -> bool:
    return repr(value) != "ABSENT"


def _category(category: Any) -> str | None:
    return None if category is None else _text(category)


def _value(value: Any) -> Value:
    if not hasattr(value, "fn"):
        text = _text(value)
        return Value(text[1:-1], "string") if text.startswith("'") else Value(text, kind_of(text))
    if isinstance(value.fn, type):  # ptera's MatchFunction, around what gives the test
        return Value(_text(value.args[0]), "match")
    return Value(_text(value), "call")


def _text(value: Any) -> str:
    if hasattr(value, "fn"):
        return f"{_text(value.fn)}({', '.join(map(_text, value.args))})"
    if hasattr(value, "key"):
        return f"{_text(value.key)}={_text(value.value)}"
    return str(value.value)
