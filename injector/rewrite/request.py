"""Requests to the rewriter, and its answers.

These three records are all that the rewriter and the other rooms exchange: an overseer sends a
:class:`Request` for each part of a selector, and is sent a :class:`Match` for each place where it was met, or
one :class:`Unmatched`.
"""

from __future__ import annotations

from injector.named_tuple import NamedTuple

MAIN = "__main__"
"""The module that selectors starting with ``//`` name: the program itself."""

ANYWHERE = ("*",)
"""A path that means every function of the module and its top level."""


class Request(NamedTuple):
    """One hook, to be called at the places that one part of a selector names."""

    hook: str
    """Name of the hook in builtins, which is never a legal identifier."""
    module: str
    """Dotted module name, or :data:`MAIN`."""
    path: tuple[str, ...]
    """Qualified name inside the module, ``()`` for the module's own level."""
    variable: str | None
    """``"loss"``, ``"self.loss"``, ``"#enter"``, …; ``None`` for every variable. ``".to"`` stands for
    the calls of every method ``to``, whose hook is :func:`injector.rewrite.method_calls.hook_of`."""
    captures: tuple[str, ...] = ()
    """Other variables of the same function whose values travel with the event."""
    override: bool = False
    """Whether the hook's return value replaces the variable's."""
    category: str | None = None
    """Only variables annotated with this tag."""
    gate: str | None = None
    """Name of a callable in builtins without arguments. If it returns true, the function runs as it was
    written. It is used where all hooks of a function have the same gate, the function defines nothing and its
    body is short."""
    returns: str | None = None
    """Only functions whose result is annotated with this tag: ``def f() -> "@Tag"``."""


class Match(NamedTuple):
    """A place where a request was met."""

    request: Request
    module: str
    function: str
    """Qualified name of the function, ``""`` at module level."""
    file: str
    line: int
    source: str
    """The line of the program, stripped."""
    kind: str
    """``assignment argument loop return enter exit error yield receive import with except match
    definition comprehension read scope binding wrapped call``."""


class Unmatched(NamedTuple):
    """A request that found nothing, with the nearest names that exist."""

    request: Request
    reason: str
    nearest: tuple[str, ...] = ()
