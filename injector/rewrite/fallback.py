"""ptera's own parser, for the selectors that our small reader does not know.

Imported only when the reader has refused a text: importing ptera costs more than starting a
program under injector does.
"""

from __future__ import annotations

from typing import Any

from .reader import kind_of
from .tree import ABSENT, BEGIN, END, Call, Element, Value


def read(text: str) -> Element | Call | None:
    """ptera's tree of `text` as ours; None if ptera cannot read it, or is not installed."""
    try:
        from ptera.selector import parse
    except ImportError:
        return None
    try:
        return convert(parse(text))
    except Exception:
        # It refuses with whatever breaks first: SyntaxError, TypeError, AssertionError, …
        return None


def convert(node: Any) -> Element | Call:
    """One node of ptera's tree. Raises TypeError for what our tree has no place for."""
    if hasattr(node, "element"):
        return _call(node)
    if hasattr(node, "tags"):
        return _element(node)
    raise TypeError(f"no selector: {node!r}")


def _call(node: Any) -> Call:
    element = node.element
    if _present(element.value):
        raise TypeError("a function has no value")
    children = [_call(child) for child in node.children]
    captures = [_element(capture) for capture in node.captures]
    target = "*" if element.name is None else _name(element.name)
    return Call(target, tuple(captures), tuple(children), _category(element.category))


def _element(node: Any) -> Element:
    value = _value(node.value) if _present(node.value) else ABSENT
    name = None if node.name is None else _name(node.name)
    focus = (BEGIN if 1 in node.tags else 0) | (END if 2 in node.tags else 0)
    return Element(name, node.capture, value, _category(node.category), focus)


def _present(value: Any) -> bool:
    return repr(value) != "ABSENT"


def _name(name: Any) -> str:
    return str(name)


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
