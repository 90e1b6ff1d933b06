"""What a selector is about: its functions, from the outermost to the one that fires, and their requests."""

from __future__ import annotations

import builtins
from itertools import pairwise

from ..errors import UserError
from ..rewrite import selector as language
from ..rewrite import selector_reader
from ..rewrite.request import Request

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import MethodType
    from typing import Any

    from ..rewrite.selector import FunctionNode


class ProbeTarget:
    """A request, and the object it is for when the selector named one through the voirfile."""

    __slots__ = ("found", "request")

    def __init__(self, request: Request, found: Any = None) -> None:
        self.request = request
        self.found = found


def parsed(selector: str, place: tuple[str, int]) -> FunctionNode:
    """The tree of a selector that stands at ``place`` in a voirfile. Raises UserError."""
    try:
        return selector_reader.parse(selector)
    except language.SelectorError as error:
        raise UserError(f"{place[0]}:{place[1]}: {error}") from None


def shown(where: Any, variable: str | None) -> str:
    """The selector's text; for an object, what a selector for it would look like."""
    if not isinstance(where, str):
        variable = variable or "#value"
    return named(where) if variable is None else f"{named(where)} > {variable}"


def named(where: Any) -> str:
    if isinstance(where, str):
        return where
    return f"{getattr(where, '__module__', '')}.{getattr(where, '__qualname__', repr(where))}"


def request_for(
    found: Any, target: str, hook: str, variable: str | None, override: bool
) -> Request:
    """A request for a function that is there already."""
    name = getattr(found, "__qualname__", target)
    module = getattr(found, "__module__", None) or ""
    return Request(hook, module, tuple(name.split(".")), variable, (), override)


def resolved(dotted: str, env: Mapping[str, Any], error: Callable[[str], UserError]) -> Any:
    """What a name means in the voirfile. Raises what ``error`` makes of a message."""
    custom = env.get("__ptera_resolver__")
    if custom is not None:
        try:
            return custom(dotted)
        except Exception as problem:
            raise error(f"__ptera_resolver__({dotted!r}) raised {problem!r}") from problem
    first, *rest = dotted.split(".")
    if first in env:
        value = env[first]
    elif hasattr(builtins, first):
        value = getattr(builtins, first)
    else:
        raise error(
            f"{first!r} is no name of the voirfile; write '//{dotted.replace('.', '/')}' for a "
            "function of the program, '/pkg.mod/f' for one of a module"
        )
    for attribute in rest:
        if not hasattr(value, attribute):
            raise error(f"{type(value).__name__} {first!r} has no attribute {attribute!r}")
        value = getattr(value, attribute)
    return value


def own_name(method: MethodType) -> str | None:
    """What a method calls the object that it is bound to."""
    code = getattr(method.__func__, "__code__", None)
    return code.co_varnames[0] if code is not None and code.co_argcount else None


def one_focus_each(tree: FunctionNode) -> list[FunctionNode]:
    """The tree once for each of its functions beside each other in which something fires.

    What fires in one of them comes without the variables of the others that fire.
    """
    below = [child for child in tree.children if language.focus(child)]
    if any(element.focus for element in tree.captures) or not below:
        return [tree]
    beside = tuple(child for child in tree.children if child not in below)
    return [
        tree.replace(children=(*beside, one)) for child in below for one in one_focus_each(child)
    ]


def chain_to_focus(tree: FunctionNode, text: str) -> list[FunctionNode]:
    """The functions from the outermost one down to that which holds the focus."""
    chain = [tree]
    while not any(e.focus for e in chain[-1].captures):
        below = [c for c in chain[-1].children if language.focus(c)]
        if not below:
            raise UserError(f"selector {text!r} has no variable that fires")
        chain.append(below[0])
    return chain


def recurses(chain: list[FunctionNode]) -> bool:
    """Whether a function stands directly inside itself."""
    return any(one.target == other.target for one, other in pairwise(chain))


def is_module_level(call: FunctionNode) -> bool:
    return call.module is not None and not call.path
