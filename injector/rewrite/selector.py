"""The selector language: text in, a small tree out.

The meaning is that of ptera's selectors, which stay the reference; `docs/selectors.md` is the
guide. What our own small reader cannot read is offered to ptera's parser before it is refused.
"""

from __future__ import annotations

from .reader import Reader, kind_of
from .selector_tree import (
    ABSENT,
    BEGIN,
    END,
    EVENTS,
    Call,
    Element,
    SelectorError,
    Unread,
    Value,
    check_call,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = [
    "ABSENT",
    "BEGIN",
    "END",
    "EVENTS",
    "Call",
    "Element",
    "Selector",
    "SelectorError",
    "Value",
    "all_elements",
    "calls",
    "captures",
    "focus",
    "matcher",
    "mode",
    "parse",
]

Selector = Call


def parse(text: str) -> Selector:
    """Read a selector. A lone variable `x` comes back as `* > x`.

    Raises SelectorError, with the place, if neither this reader nor ptera's can read it.
    """
    try:
        return _checked(Reader(text).selector(), text)
    except Unread as error:
        # Our own words are the better ones if ptera's tree makes no sense either.
        refusal = SelectorError(error.message, error.text, error.offset)
        try:
            found = ptera_tree(text)
            if found is not None:
                return _checked(found, text)
        except SelectorError:
            pass
        raise refusal from None


def _checked(tree: Element | Call, text: str) -> Selector:
    if isinstance(tree, Element):
        tree = Call("*", (tree.replace(focus=tree.focus | BEGIN),))
    for call in calls(tree):
        check_call(call, text)
    return tree


def calls(selector: Selector) -> Iterator[Call]:
    """Every function of a selector, outermost first."""
    yield selector
    for child in selector.children:
        yield from calls(child)


def all_elements(selector: Selector) -> list[Element]:
    """Every variable of a selector, those of the outermost function first."""
    return [element for call in calls(selector) for element in call.captures]


def captures(selector: Selector) -> list[str]:
    """The names under which values travel, in order, each once."""
    return list(dict.fromkeys(e.capture for e in all_elements(selector) if e.capture))


def focus(selector: Selector, bit: int = BEGIN) -> list[Element]:
    """The variables that trigger: those of `!x` and `f > x`; with `END` those of `!!x`."""
    return [e for e in all_elements(selector) if e.focus & bit]


def mode(selector: Selector) -> str:
    """How a selector fires.

    `immediate`: whenever the focus variable is set. `wrap`: at two focuses, `!x` and `!!y`, begin
    and end. `total`: there is no focus, so once, when the outermost function ends.
    """
    if not focus(selector):
        return "total"
    return "wrap" if focus(selector, END) else "immediate"


def matcher(value: Value, lookup: Callable[[str], Any]) -> Callable[[Any], Any]:
    """A test of whether a variable has the wanted value; `lookup` gives what a name stands for."""
    wanted: Any = value.text
    if value.kind != "string":
        wanted = Reader(value.text).constant(lookup)
    if value.kind == "match":
        test: Callable[[Any], Any] = wanted
        return test
    return lambda found: wanted == found


# --- ptera's own parser, for what our reader does not know ----------------------------------------


def ptera_tree(text: str) -> Element | Call | None:
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


def converted(node: Any) -> Element | Call:
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
