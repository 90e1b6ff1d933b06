"""A selector that has been read: a small tree of functions and variables.

`train(lr) > loss` is the function `train` with two variables: `lr` travels with each event, and `loss`, in
focus, triggers one. The meaning is that of ptera's selectors, which stay the reference; `docs/selectors.md`
is the guide.

Selectors are read while a program starts, so these are plain classes with slots that need no imports.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from typing_extensions import Self

ABSENT = None
"""`Element.value` of a variable that is compared with nothing."""

BEGIN = 1
"""Bit of `Element.focus` for `!x`, and for the variable that a selector ends in."""
END = 2
"""Bit of `Element.focus` for `!!x`."""

EVENTS = ("#enter", "#error", "#exit", "#receive", "#value", "#yield", "#loop", "#endloop")
_LOOPS = ("#loop_", "#endloop_")


class SelectorError(ValueError):
    """A text that is no selector. `str` shows the text with a caret under the wrong place."""

    def __init__(self, message: str, text: str = "", offset: int = 0) -> None:
        super().__init__(message, text, offset)
        self.message = message
        self.text = text
        self.offset = offset

    def __str__(self) -> str:
        if not self.text.strip():
            return self.message
        # With a tab or a line break in the text, the caret would stand under another character.
        shown = "".join(" " if c.isspace() else c for c in self.text)
        return f"{self.message}\n    {shown}\n    {' ' * self.offset}^"


class Unread(SelectorError):
    """Refused by our reader. ptera's may still read it."""


class _Node:
    """A node that equals another by the values of its `_fields`.

    The offset `at` in the text is kept for error messages, and has no part in the comparison.
    """

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({inside})"

    def replace(self, **changes: Any) -> Self:
        """The same node with some of its fields changed."""
        # Without calling the constructor, whose arguments differ from class to class.
        new = object.__new__(type(self))
        names: tuple[str, ...] = type(self).__slots__
        for name in names:
            setattr(new, name, changes.get(name, getattr(self, name)))
        return new


class Value(_Node):
    """The value that a variable is compared with: `x=1`, `x='s'`, `x=name`, `x=make(2)`, `x~test`.

    `kind` is number, string, symbol, call or match. `text` of a string is without quotes; of a match it is
    the symbol or call that gives the test.
    """

    __slots__ = ("kind", "text")
    _fields = ("text", "kind")

    def __init__(self, text: str, kind: str) -> None:
        self.text = text
        self.kind = kind

    def __str__(self) -> str:
        text = f"'{self.text}'" if self.kind == "string" else self.text
        return ("~" if self.kind == "match" else "=") + text


def number_of(word: str) -> int | float | None:
    """The number that a word writes, or None. `.1e5` and `-1` are some, `infinity` and `nan` are names."""
    if not any(c.isdigit() for c in word) or not (word[0].isdigit() or word[0] in "-."):
        return None
    try:
        return float(word) if "." in word or "e" in word.lower() else int(word)
    except ValueError:
        return None


def kind_of(word: str) -> str:
    """`number` for a word that writes one, else `symbol`."""
    return "symbol" if number_of(word) is None else "number"


class Element(_Node):
    """One variable. With `name` None it is any variable; its value travels under the name `capture`."""

    __slots__ = ("at", "capture", "category", "focus", "name", "value")
    _fields = ("name", "capture", "value", "category", "focus")

    def __init__(
        self,
        name: str | None,
        capture: str | None = None,
        value: Value | None = ABSENT,
        category: str | None = None,
        focus: int = 0,
        at: int = 0,
    ) -> None:
        self.name = name
        self.capture = capture
        self.value = value
        self.category = category
        self.focus = focus
        """0, or `BEGIN`, `END`, or both."""
        self.at = at

    @property
    def tag(self) -> str | None:
        """The last part of the category: `Tag` for `x:@Tag` and for `x:pkg.Tag`."""
        return self.category and _last(self.category)

    def __str__(self) -> str:
        return _element_text(self, self.focus)


class FunctionNode(_Node):
    """One function, the variables to capture in it, and the functions called inside of it."""

    __slots__ = ("at", "captures", "category", "children", "target")
    _fields = ("target", "captures", "children", "category")

    def __init__(
        self,
        target: str,
        captures: tuple[Element, ...] = (),
        children: tuple[FunctionNode, ...] = (),
        category: str | None = None,
        at: int = 0,
    ) -> None:
        self.target = target
        """`f`, `pkg.f` (a name where the selector is used), `/pkg.mod/f`, `//f`, `//` or `*`."""
        self.captures = captures
        self.children = children
        self.category = category
        self.at = at

    @property
    def tag(self) -> str | None:
        """The last part of the category, as for a variable."""
        return self.category and _last(self.category)

    @property
    def module(self) -> str | None:
        """The module of `/pkg.mod/f`; `__main__` for `//f`; None for a bare name and for `*`."""
        if not self.target.startswith("/"):
            return None
        return self.target[1:].partition("/")[0] or "__main__"

    @property
    def path(self) -> tuple[str, ...]:
        """The qualified name inside of `module`; `()` for the level of the module itself."""
        if not self.target.startswith("/"):
            return ()
        inside = self.target[1:].partition("/")[2]
        return tuple(inside.replace(".", "/").split("/")) if inside else ()

    def __str__(self) -> str:
        return _call_text(self)


Selector = FunctionNode


def calls(selector: Selector) -> Iterator[FunctionNode]:
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
    """The variables that trigger an event: those of `!x` and `f > x`; with `END`, those of `!!x`."""
    return [e for e in all_elements(selector) if e.focus & bit]


def mode(selector: Selector) -> str:
    """When a selector fires.

    `immediate`: whenever the variable in focus is set. `wrap`: there are two in focus, `!x` and `!!y`, which
    begin and end something. `total`: none is in focus, so it fires once, when the outermost function ends.
    """
    if not focus(selector):
        return "total"
    return "wrap" if focus(selector, END) else "immediate"


# --- tree → text ---------------------------------------------------------------------------------


def _element_text(element: Element, bits: int) -> str:
    """`element` as it is written with these bits of `focus`."""
    name, capture = element.name, element.capture
    text = name or (f"${capture}" if capture else "*")
    if bits == BEGIN | END:
        # Two focuses on one variable can be written only on the two sides of an `as`.
        text = f"!{text} as !!{capture}"
    else:
        text = "!" * bits + text
        if name is not None and capture != name:
            text += f" as {capture or '*'}"
    return text + (f":{element.category}" if element.category else "") + str(element.value or "")


def _call_text(call: FunctionNode) -> str:
    """A function as it is written. What comes last inside of it stands behind `>` if it may."""
    arguments: list[str] = [str(element) for element in call.captures]
    arguments += [str(child) for child in call.children]
    tail = ""
    if call.children:
        tail = " > " + arguments.pop()
    elif call.captures and call.captures[-1].focus & BEGIN:
        arguments.pop()
        last = call.captures[-1]
        tail = " > " + _element_text(last, last.focus & ~BEGIN)
    head = call.target + (f":{call.category}" if call.category else "")
    return head + (f"({', '.join(arguments)})" if arguments or not tail else "") + tail


# --- what a name may be --------------------------------------------------------------------------


def _dotted(word: str) -> bool:
    return all(part.isidentifier() for part in word.split("."))


def _last(word: str) -> str:
    """The last name in a category: `@Tag`, `pkg.Tag`, `/pkg/Tag`."""
    return word.replace("@", ".").replace("/", ".").rpartition(".")[2]


def check_call(call: FunctionNode, text: str) -> None:
    """Check the names in one function, the functions inside of it aside. Raises SelectorError."""
    problem = _target_problem(call.target)
    if problem:
        raise SelectorError(problem, text, call.at)
    _check_category(call.category, text, call.at)
    for element in call.captures:
        _check_variable(element.name, "a variable's name", text, element.at)
        _check_variable(element.capture, "a name after 'as'", text, element.at)
        _check_category(element.category, text, element.at)


def _target_problem(target: str) -> str | None:
    """Why `target` can be no function, or None if it can."""
    if target == "*" or _dotted(target):
        return None
    if not target.startswith("/"):
        return f"expected a function's name, not {target!r}"
    module, slash, inside = target[1:].partition("/")
    if module and not _dotted(module):
        return f"expected a module's name, not {module!r}"
    if not slash:
        return (
            f"{target!r} names only a module: write '{target}/' for its own level, "
            f"'{target}/f' for a function in it, '/{target}' for a function of the program"
        )
    if inside and not all(_dotted(part) for part in inside.split("/")):
        return f"expected a function's name after the module, not {inside!r}"
    return None


def _check_variable(name: str | None, what: str, text: str, at: int) -> None:
    if name is None or _dotted(name) or name in EVENTS:
        return
    if any(name.startswith(loop) and name[len(loop) :].isidentifier() for loop in _LOOPS):
        return
    if name.startswith("#"):
        known = " ".join((*EVENTS[:6], "#loop_x", "#endloop_x"))
        raise SelectorError(f"{name!r} is no event; known are {known}", text, at)
    raise SelectorError(f"expected {what}, not {name!r}", text, at)


def _check_category(category: str | None, text: str, at: int) -> None:
    if category and not (_dotted(category.removeprefix("@")) or category.startswith("/")):
        raise SelectorError(f"expected a tag such as '@Tag', not {category!r}", text, at)
