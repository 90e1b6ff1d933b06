"""The requests and hooks of one selector, for its functions and for what is recorded before it fires.

A selector such as ``f(x) > g(y) > z`` is about a chain of functions, from the outermost to the one that
fires. Beside what fires, for which :mod:`.probes` makes the hooks, it may need the activations of outer
functions (:class:`EnclosingFunctions`) and values that cannot be read when it fires. A *request* has the
rewriter put calls of one hook into one function.
"""

from __future__ import annotations

import builtins
from itertools import pairwise

from ..errors import UserError
from ..probe.points import define
from ..rewrite import selector as language
from ..rewrite import selector_reader
from ..rewrite.request import Request
from ..rewrite.selector import Element, FunctionNode
from .activations import Activations, calling_frame, chains
from .context import EVENTS_OF_TAG, READ, LastSet, comes_with, is_recorded

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import MethodType
    from typing import Any

    from .activations import Activation
    from .context import Test, ValueSource


class ProbeTarget:
    """A request, and the function that it is for if the selector names one of the voirfile."""

    __slots__ = ("found", "request")

    def __init__(self, request: Request, found: Any = None) -> None:
        self.request = request
        self.found = found


def parsed(selector: str, place: tuple[str, int]) -> FunctionNode:
    """Return the tree of a selector at ``place``, the file and line of a voirfile. Raises UserError."""
    try:
        return selector_reader.parse(selector)
    except language.SelectorError as error:
        raise UserError(f"{place[0]}:{place[1]}: {error}") from None


def shown(where: Any, variable: str | None) -> str:
    """Return the text of a selector; of an object, that of a selector for it."""
    if not isinstance(where, str):
        variable = variable or "#value"
    return named(where) if variable is None else f"{named(where)} > {variable}"


def named(where: Any) -> str:
    """Return a selector as it is; of an object, its module and qualified name."""
    if isinstance(where, str):
        return where
    return f"{getattr(where, '__module__', '')}.{getattr(where, '__qualname__', repr(where))}"


def request_for(
    found: Any, target: str, hook: str, variable: str | None, override: bool
) -> Request:
    """Return a request for ``found``, a function that exists already; the selector calls it ``target``."""
    name = getattr(found, "__qualname__", target)
    module = getattr(found, "__module__", None) or ""
    return Request(hook, module, tuple(name.split(".")), variable, (), override)


def resolved(dotted: str, env: Mapping[str, Any], error: Callable[[str], UserError]) -> Any:
    """Return the object that a name means in a voirfile, whose names are ``env``.

    Raises what ``error`` makes of a message where there is none.
    """
    # ptera lets a module resolve names itself, and so may voirfiles that were written for it.
    custom = env.get("__ptera_resolver__")
    if custom is not None:
        try:
            return custom(dotted)
        except Exception as problem:
            raise error(f"__ptera_resolver__({dotted!r}) raised {problem!r}") from problem
    first, *rest = dotted.split(".")
    if first in env:
        value = env[first]
    elif first in vars(builtins):  # not what every module has, such as `__init__`
        value = vars(builtins)[first]
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


def can_resolve(name: str, env: Mapping[str, Any]) -> bool:
    """Whether :func:`resolved` may find what ``name``, without dots, means."""
    return "__ptera_resolver__" in env or name in env or name in vars(builtins)


def own_name(method: MethodType) -> str | None:
    """Return what a method calls the object that it is bound to: ``self``, as a rule."""
    code = getattr(method.__func__, "__code__", None)
    return code.co_varnames[0] if code is not None and code.co_argcount else None


def one_focus_each(tree: FunctionNode) -> list[FunctionNode]:
    """Return the tree once for each of the functions side by side in which something fires.

    An event of one of them comes without the variables of the others that fire.
    """
    below = [child for child in tree.children if language.focus(child)]
    if any(element.focus for element in tree.captures) or not below:
        return [tree]
    beside = tuple(child for child in tree.children if child not in below)
    return [
        tree.replace(children=(*beside, one)) for child in below for one in one_focus_each(child)
    ]


def chain_to_focus(tree: FunctionNode, text: str) -> list[FunctionNode]:
    """Return the functions from the outermost one down to the one that holds the focus. Raises UserError."""
    chain = [tree]
    while not any(e.focus for e in chain[-1].captures):
        below = [c for c in chain[-1].children if language.focus(c)]
        if not below:
            raise UserError(f"selector {text!r} has no variable that fires")
        chain.append(below[0])
    return chain


def recurses(chain: list[FunctionNode]) -> bool:
    """Whether a function stands directly inside itself."""
    return any(outer.target == inner.target for outer, inner in pairwise(chain))


def is_module_level(call: FunctionNode) -> bool:
    """Whether the node stands for the code of a module itself."""
    return call.module is not None and not call.path


class EnclosingFunctions:
    """The functions around a place that fires: their activations, and the values that they contribute."""

    def __init__(self, recursive: bool = False) -> None:
        self.scopes: list[Activations] = []
        """The activations of each, from the outermost on, without the function that fires."""
        self.own: Activations | None = None
        """Those of the function that fires, where they are needed."""
        self.captured: list[tuple[int, ValueSource, Element]] = []
        """The elements whose values come along: index of the scope (-1: its own), source, element."""
        self.late: list[tuple[Element, Callable[..., None]]] = []
        """What is recorded at ``#exit`` of the function that fires. Of several hooks at one place the last
        one defined is called first, so these are defined after all others."""
        self.recursive = recursive

    @property
    def active(self) -> Callable[[], Any] | None:
        """A function that says whether the place is inside of all of them now; None where there are none."""
        return self.scopes[-1].active if self.scopes else None

    def chains(self) -> Iterator[list[Activation]]:
        """Yield the activations for each event to give: several of a recursive function, if they differ."""
        several = self.recursive or any(number >= 0 for number, _, _ in self.captured)
        if not several and self.own is None:
            yield []
            return
        own = [] if self.own is None else [next(self.own.activations(), (None, 0))]
        if not several:
            yield own
            return
        for outer in chains(self.scopes, calling_frame()):
            yield [*outer, *own]


class HookRequests:
    """What a selector requests of the rewriter, and the hooks that it defines for that.

    ``selector`` stands at ``place`` in a voirfile, whose names are ``env``. ``number()`` gives a new number
    for a hook. ``override`` says that hooks replace values.
    """

    def __init__(
        self,
        selector: str,
        place: tuple[str, int],
        env: Mapping[str, Any],
        number: Callable[[], int],
        override: bool,
    ) -> None:
        self.selector = selector
        self.place = place
        self.override = override
        self.targets: list[ProbeTarget] = []
        self._optional: set[str] = set()
        self._env = env
        self._number = number

    def _request_around(self, chain: list[FunctionNode]) -> EnclosingFunctions:
        """Request what the functions around the last one of ``chain`` give, and what that one records."""
        around = EnclosingFunctions(recurses(chain))
        scope: Activations | None = None
        for number, (call, below) in enumerate(zip(chain, [*chain[1:], None], strict=True)):
            beside = [child for child in call.children if child is not below]
            last = below is None  # the function that fires
            recorded = _recorded(call) if last else [e for e in call.captures if is_recorded(e)]
            if last and not (beside or recorded):
                break
            scope = self._request_scope(call, scope)
            number = -1 if last else number
            if last:
                around.own = scope
            else:
                around.scopes.append(scope)
                plain = [e for e in call.captures if e not in recorded]
                around.captured += [(number, READ, element) for element in plain]
            if beside or recorded:
                # What fires at `#exit` may come with what another element has there: see `late`.
                late = [e for e in recorded if last and e.name == "#exit"]
                early = [e for e in recorded if e not in late]
                last_set = self._request_recorded(call, early, beside, scope)
                around.late += [(element, last_set.add) for element in late]
                around.captured += [(number, last_set, element) for element in recorded]
                inside = [
                    e for child in beside for node in language.calls(child) for e in node.captures
                ]
                around.captured += [(number, last_set, element) for element in inside]
        return around

    def _request_scope(self, call: FunctionNode, outer: Activations | None) -> Activations:
        """Request where a function begins and ends, and return its activations."""
        if is_module_level(call):
            return Activations(outer, call.module)
        scope, hook = Activations(outer), self._hook()
        scope.publish(hook)
        self._target(call, hook, "#scope")
        return scope

    def _request_recorded(
        self,
        call: FunctionNode,
        elements: list[Element],
        beside: list[FunctionNode],
        scope: Activations,
    ) -> LastSet:
        """Request what happens in a function, and in those ``beside`` it, before something else fires."""
        last_set = LastSet(scope)
        if not is_module_level(call):
            end = self._hook()
            define(end, last_set.end)
            self._target(call, end, "#exit")
        for element in elements:
            self._request_collected(call, element, last_set.add)
        for child in beside:
            self._request_below(child, last_set.add_below, scope)
        return last_set

    def _request_below(
        self, call: FunctionNode, add: Callable[..., None], scope: Activations
    ) -> None:
        """Request all values of a function, and of those inside of it, that is not around what fires."""
        if any(element.focus for element in call.captures):
            raise self._error("write a probe for each variable that fires")
        for element in call.captures:
            self._request_collected(call, element, add, scope.active)
        inside = self._request_scope(call, scope) if call.children else scope
        for child in call.children:
            self._request_below(child, add, inside)

    def _request_collected(
        self,
        call: FunctionNode,
        element: Element,
        add: Callable[..., None],
        active: Callable[[], Any] | None = None,
    ) -> None:
        """Request each value of an element that is remembered and does not fire."""

        for hook, variable in self._hooks_for(element):

            def collect(value: Any, name: str | None = variable) -> None:
                add(element, value, name)

            wild, receives = variable is None, variable == "#receive"
            define(hook, collect, wildcard=wild, receives=receives, active=active)
            self._target(
                call, hook, variable, (), element.tag if variable == element.name else None
            )

    # --- helpers -----------------------------------------------------------------------------------

    def _hook(self) -> str:
        return f"injector:{self._number()}"

    def _hooks_for(self, element: Element) -> Iterator[tuple[str, str | None]]:
        """Yield a hook for each variable or event that an element is about. Only the first has to exist."""
        for number, variable in enumerate(_variables(element)):
            hook = self._hook()
            if number:
                self._optional.add(hook)
            yield hook, variable

    def _target(
        self,
        call: FunctionNode,
        hook: str,
        variable: str | None,
        captures: tuple[str, ...] = (),
        category: str | None = None,
    ) -> None:
        """Add a request to have ``hook`` called at ``variable`` of a function. Raises UserError."""
        # `/pkg.mod/f` names a function of the program, found when its module is loaded; `f` an object that
        # the voirfile has already.
        if call.module is not None:
            request = Request(
                hook,
                call.module,
                call.path,
                variable,
                captures,
                self.override,
                category,
                returns=call.tag,
            )
            self.targets.append(ProbeTarget(request))
        else:
            function = self._resolve(call.target)
            request = request_for(function, call.target, hook, variable, self.override)
            request = request._replace(captures=captures, category=category, returns=call.tag)
            self.targets.append(ProbeTarget(request, function))

    def _resolve(self, dotted: str) -> Any:
        if dotted == "*":
            raise self._error(
                "name a function: any function would be every function of the process"
            )
        return resolved(dotted, self._env, self._error)

    def _test(self, element: Element) -> Test:
        """Return the condition on the value of an element (``x=1``, ``x~fn``). Raises UserError."""
        if element.value is None:
            return lambda _: True
        return selector_reader.matcher(element.value, self._resolve)

    def _error(self, message: str) -> UserError:
        file, line = self.place
        return UserError(f"{file}:{line}: selector {self.selector!r}: {message}")


def _variables(element: Element) -> tuple[str | None, ...]:
    """Return the variables that an element needs hooks for: its own, any (None), or the events of a tag."""
    if element.name is None and element.category in EVENTS_OF_TAG:
        return EVENTS_OF_TAG[element.category]
    return (element.name,)


def _recorded(call: FunctionNode) -> list[Element]:
    """Return the elements of the function that fires whose values are recorded before it does."""
    focuses = [element for element in call.captures if element.focus]
    return [
        element
        for element in call.captures
        if is_recorded(element)
        and any(focus is not element and not comes_with(element, focus) for focus in focuses)
    ]
