"""ptera's tree of a selector in our classes, for what :mod:`.selector_reader` does not know."""

from __future__ import annotations

from .selector import ABSENT, BEGIN, END, Element, FunctionNode, Value, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def read(text: str) -> Element | FunctionNode | None:
    """The tree of `text` by ptera's parser; None if that cannot read it, or is not installed."""
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
    """A node of ptera's tree in our classes. Raises TypeError for what they cannot express."""
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
    """Whether a value is given. ptera has an object of its own for none, known only by its repr."""
    return repr(value) != "ABSENT"


def _category(category: Any) -> str | None:
    return None if category is None else _text(category)


def _value(value: Any) -> Value:
    """A value of ptera's tree as ours.

    Of its classes, calls have `fn`, and a match `x~test` has the class MatchFunction there instead.
    """
    if not hasattr(value, "fn"):
        text = _text(value)
        return Value(text[1:-1], "string") if text.startswith("'") else Value(text, kind_of(text))
    if isinstance(value.fn, type):
        return Value(_text(value.args[0]), "match")
    return Value(_text(value), "call")


def _text(value: Any) -> str:
    """The text that a value of ptera's tree was read from."""
    if hasattr(value, "fn"):
        return f"{_text(value.fn)}({', '.join(map(_text, value.args))})"
    if hasattr(value, "key"):
        return f"{_text(value.key)}={_text(value.value)}"
    return str(value.value)
