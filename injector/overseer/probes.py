"""From a selector to requests for the rewriter and hooks in builtins."""

from __future__ import annotations

import builtins
from itertools import combinations

from ..errors import UserError
from ..probe import MISSING, define, define_stored, defined
from ..rewrite import selector as language
from ..rewrite.methods import hook_of, is_method
from ..rewrite.request import Request
from ..rewrite.selector import Call, Element
from .gather import Gather
from .scope import Scope, Siblings, Totals, calling_frame

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..measure.measures import Store
    from ..measure.regions import CallHooks

    Deliver = Callable[[dict[str, Any]], Any]


EVERYWHERE = "*"
"""As the module of a request: all that are the program's own."""


class Target:
    """A request, and the object it is for when the selector named one through the voirfile."""

    __slots__ = ("found", "request")

    def __init__(self, request: Request, found: Any = None) -> None:
        self.request = request
        self.found = found


class Probe:
    """One selector of a voirfile: what it asks for, and what it gives when it fires.

    ``calls`` defines hooks of its own around the calls of ``where``, which is a function then.
    ``deliver`` is given a mapping of captured names to values. ``direct`` is given the focus variable's
    value alone: the fast way, without a mapping in between wherever the selector allows it. ``store``
    keeps numbers, by the hook itself where the selector allows that.
    """

    def __init__(
        self,
        where: Any,
        *,
        env: Mapping[str, Any],
        place: tuple[str, int],
        number: Callable[[], int],
        deliver: Deliver | None = None,
        direct: Callable[[Any], Any] | None = None,
        calls: CallHooks | None = None,
        store: Store | None = None,
        variable: str | None = None,
        override: bool = False,
        raw: bool = False,
        total: bool = False,
    ) -> None:
        self.selector = _shown(where, variable) if calls is None else _named(where)
        self.place = place
        self.override = override
        self.gives = getattr(calls if calls is not None else store, "gives", None)
        """What it records, if it records by itself: ``region:forward``, ``value:train/loss``."""
        self.targets: list[Target] = []
        self.counted: list[str] = []
        """Hooks each of whose calls is an event."""
        self.on_first: Callable[[], None] = _nothing
        """Called when it gives its first event, unless a counted hook tells so itself."""
        self._events = 0
        self._direct = store.put if store is not None else direct
        self._store = store
        self._deliver = deliver
        self._env = env
        self._raw = raw
        self._number = number
        self._count = self._event
        if isinstance(where, str) and is_method(where):
            self._ask_method(where, calls)
        elif calls is None:
            self._ask_for(where, variable, total)
        else:
            self._ask_calls(where, calls)
            for target in self.targets:
                if target.request.variable != "#scope":
                    target.request = target.request._replace(gate=calls.gate)

    def _ask_method(self, where: str, calls: CallHooks | None) -> None:
        """Ask for the calls of every method of a name in the program's own files."""
        method = where[1:]
        if not method.isidentifier():
            raise self._error("write '.to' for the calls of every method called 'to'")
        if calls is None:
            raise self._error(
                "of the calls of a method there are regions only: ov.region('.to', …)"
            )
        hook = self._hook()
        calls.define_method(method, hook_of(method), hook, self.selector)
        self.counted.append(hook)
        self.targets.append(Target(Request(hook, EVERYWHERE, (where,), where)))

    def _ask_calls(self, where: Any, calls: CallHooks) -> None:
        """Ask for the begins and ends of calls."""
        names = {variable: self._hook() for variable in calls.variables}
        self.counted.append(names[calls.variables[0]])
        if isinstance(where, str):
            self._ask_calls_of(where, calls, names)
            return
        calls.check(where)
        module = getattr(where, "__module__", None) or ""
        calls.define(names, self.selector, module)
        for variable, hook in names.items():
            request = _request_for(where, self.selector, hook, variable, False)
            captures = calls.captures(variable)
            self.targets.append(Target(request._replace(captures=captures), where))

    def _ask_calls_of(self, selector: str, calls: CallHooks, names: dict[str, str]) -> None:
        chain = _chain_to_focus(_parse(_shown(selector, "#enter"), self.place), self.selector)
        outer, scope = self._ask_outer(chain[:-1], chain[-1])
        inner = chain[-1]
        [focus] = [element for element in inner.captures if element.focus]
        others = [element for element in inner.captures if not element.focus]
        gather = Gather(focus, others, outer, False, self._matcher)
        beside = gather.reads

        def guard(hook: Callable[..., Any]) -> Callable[..., Any]:
            """``hook`` where the selector's conditions hold."""

            def guarded(value: Any, *rest: Any) -> Any:
                if gather(value, rest[: len(beside)]) is not None:
                    hook(value, *rest[len(beside) :])
                return value

            return guarded

        active = None if scope is None else scope.active
        library = inner.module or ""
        calls.define(names, self.selector, library, active, None if gather.plain else guard, beside)
        for variable, hook in names.items():
            self._target(inner, hook, variable, beside + calls.captures(variable))

    def _ask_for(self, where: Any, variable: str | None, total: bool) -> None:
        if isinstance(where, str):
            self._ask_selector(_shown(where, variable), total)
        else:
            self._ask_object(where, variable or "#value")

    def _ask_selector(self, selector: str, total: bool) -> None:
        tree = _parse(selector, self.place)
        mode = language.mode(tree)
        if mode == "total" or total:
            self._ask_total(tree)
            return
        for each in [tree] if mode == "wrap" else _one_focus_each(tree):
            self._ask_focus(each, mode == "wrap")

    def _ask_object(self, found: Any, variable: str) -> None:
        call = Call(self.selector)
        element = Element(variable, variable, focus=language.BEGIN)
        hook = self._hook()
        gather = Gather(element, [], [], self._raw, self._matcher)
        self.counted.append(hook)
        if self._store is not None:
            define_stored(hook, self._store.grow, self._store.number, self._store.keep)
        else:
            define(hook, self._handler(gather, None), override=self.override)
        self.targets.append(
            Target(_request_for(found, call.target, hook, variable, self.override), found)
        )

    @property
    def hooks(self) -> list[str]:
        """Names of all its hooks."""
        return [target.request.hook for target in self.targets]

    def is_optional(self, request: Request) -> bool:
        """Whether it asks for a second event only where a function has it: not each one yields."""
        same = [t.request.variable for t in self.targets if t.request.hook == request.hook]
        return request.variable in same[1:]

    @property
    def fired(self) -> int:
        """How many events it gave: a hook's calls, where every call is one."""
        return self._events + sum(defined[hook].fired for hook in self.counted)

    def _event(self) -> None:
        self._events += 1
        if self._events == 1:
            self.on_first()

    # --- one event each time the focus variable is set ---------------------------------------------

    def _ask_focus(self, tree: Call, wrap: bool) -> None:
        chain = _chain_to_focus(tree, self.selector)
        inner = chain[-1]
        same = len(chain) > 1 and all(call.target == inner.target for call in chain)
        if same and not wrap and not _is_module_level(inner):
            self._ask_recursion(chain)
            return
        outer, scope = self._ask_outer(chain[:-1], inner)
        for element in inner.captures:
            if element.focus:
                # Of two focuses each comes with what the other has at that time.
                others = [e for e in inner.captures if e is not element]
                step = None if not wrap else "begin" if element.focus & language.BEGIN else "end"
                self._ask(inner, element, others, outer, scope, step)

    def _ask_outer(
        self, chain: list[Call], focused: Call
    ) -> tuple[list[tuple[Scope | Siblings, Element]], Scope | None]:
        """Ask for the scopes of the functions around the ``focused`` one; what is captured of each."""
        captured: list[tuple[Scope | Siblings, Element]] = []
        scope: Scope | None = None
        for call, below in zip(chain, [*chain, focused][1:], strict=True):
            scope = Scope(scope, _module_of(call) if _is_module_level(call) else None)
            if not _is_module_level(call):
                hook = self._hook()
                scope.publish(hook)
                self._target(call, hook, "#scope")
            captured += [(scope, element) for element in call.captures]
            captured += self._ask_siblings(call, below, scope)
        if focused.children and not _is_module_level(focused):
            own = Scope(scope, None)
            hook = self._hook()
            own.publish(hook)
            self._target(focused, hook, "#scope")
            captured += self._ask_siblings(focused, None, own)
        return captured, scope

    def _ask_siblings(
        self, outer: Call, below: Call | None, scope: Scope
    ) -> list[tuple[Siblings, Element]]:
        """Ask for the variables of functions inside ``outer`` in which nothing fires."""
        beside = [
            c for child in outer.children if child is not below for c in language.calls(child)
        ]
        if any(element.focus for call in beside for element in call.captures):
            raise self._error("write a probe for each variable that fires")
        siblings = Siblings(scope)
        if beside and not _is_module_level(outer):
            end = self._hook()
            define(end, siblings.end)
            self._target(outer, end, "#exit")
        return [
            (siblings, self._ask_collected(call, element, siblings.add))
            for call in beside
            for element in call.captures
        ]

    def _ask(
        self,
        call: Call,
        element: Element,
        others: list[Element],
        outer: list[tuple[Scope | Siblings, Element]],
        scope: Scope | None,
        step: str | None,
    ) -> None:
        if any(other.name is None and other.category for other in others):
            raise self._error("of the variables beside the one that fires, a tag selects none")
        events = _EVENTS_OF_TAG.get(element.category or "", ()) if element.name is None else ()
        if events:
            capture = element.capture or "*"
            element = element.replace(name=events[0], capture=capture, category=None)
        hook = self._hook()
        gather = Gather(element, others, outer, self._raw, self._matcher)
        names = gather.reads
        active = None if scope is None else scope.active
        simple = gather.plain and step is None
        if simple and (self._direct is not None or not self.override):
            self.counted.append(hook)
        if simple and self._store is not None:
            define_stored(hook, self._store.grow, self._store.number, self._store.keep, active)
        else:
            define(
                hook,
                self._handler(gather, step),
                override=self.override and step is None,
                captures=names,
                wildcard=element.name is None,
                receives="#receive" in (element.name, *events),
                active=active,
            )
        for variable in events or (element.name,):
            self._target(call, hook, variable, names, element.tag)

    def _handler(self, gather: Gather, step: str | None) -> Callable[..., Any]:
        if step is not None:
            return self._wrapping(gather, step)
        if gather.plain and self._direct is not None:
            return self._direct
        deliver = self._deliver_to(gather.capture)
        if gather.plain and not self.override:
            capture = gather.capture
            return lambda value: deliver({capture: value})

        count = self._count

        def handler(value: Any, *rest: Any) -> Any:
            data = gather(value, rest)
            if data is None:
                return value
            count()
            answer = deliver(data)
            return value if answer is MISSING else answer

        return handler

    def _deliver_to(self, capture: str) -> Deliver:
        """Whatever takes an event's data; ``direct`` takes the focus variable's value out of it."""
        direct = self._direct
        if direct is None:
            return self._deliver or (lambda data: MISSING)
        return lambda data: direct(data[capture])

    def _counting(self, capture: str) -> Deliver:
        deliver = self._deliver_to(capture)

        def counting(data: dict[str, Any]) -> Any:
            self._event()
            return deliver(data)

        return counting

    def _wrapping(self, gather: Gather, step: str) -> Callable[..., Any]:
        """``f(!a, !!b)``: the two ends of one activation carry the same id."""
        deliver = self._deliver_to(gather.capture)
        name = gather.capture if step == "begin" else None

        def handler(value: Any, *rest: Any) -> None:
            data = gather(value, rest)
            if data is not None:
                if step == "begin":
                    self._event()
                frame = calling_frame()
                data["$wrap"] = {"id": id(frame), "name": self._wrap_name or name, "step": step}
                deliver(data)

        if step == "begin":
            self._wrap_name = name
        return handler

    _wrap_name: str | None = None

    def _ask_recursion(self, chain: list[Call]) -> None:
        """``f(x) > f > y``: an event for each choice of activations around the one that fires."""
        inner, scope = chain[-1], Scope(None, None)
        published = self._hook()
        scope.publish(published)
        self._target(inner, published, "#scope")
        [focus] = [element for element in inner.captures if element.focus][:1]
        others = [element for element in inner.captures if element is not focus]
        outer: list[tuple[Scope | Siblings, Element]] = [
            (scope, element) for call in chain[:-1] for element in call.captures
        ]
        gather = Gather(focus, others, outer, self._raw, self._matcher)
        levels = [n for n, call in enumerate(chain[:-1]) for _ in call.captures]

        def handler(value: Any, *rest: Any) -> Any:
            answer = MISSING
            frames = scope.around(calling_frame())
            for chosen in combinations(frames, len(chain) - 1):
                data = gather(value, rest, [chosen[-1 - level] for level in levels])
                if data is not None:
                    self._event()
                    answer = deliver(data)
            return value if answer is MISSING else answer

        deliver = self._deliver_to(gather.capture)
        hook = self._hook()
        define(
            hook,
            handler,
            override=self.override,
            captures=gather.reads,
            wildcard=focus.name is None,
            receives=focus.name == "#receive",
        )
        self._target(inner, hook, focus.name, gather.reads, focus.tag)

    # --- one event when the outermost function ends ------------------------------------------------

    def _ask_total(self, tree: Call) -> None:
        if self.override:
            raise self._error("a selector without a focus has no variable to override")
        elements = language.all_elements(tree)
        names = [e.capture for e in elements if e.capture]
        scope = Scope(None, None)
        totals = Totals(scope, names, self._counting(names[0] if names else ""), self._raw)
        hook = self._hook()
        scope.publish(hook)
        self._target(tree, hook, "#scope")
        for call in language.calls(tree):
            for element in call.captures:
                self._ask_collected(call, element, totals.add)
        end = self._hook()
        define(end, totals.end)
        self._target(tree, end, "#exit")

    def _ask_collected(self, call: Call, element: Element, add: Callable[..., None]) -> Element:
        matches = self._matcher(element)

        def collect(value: Any, *name: Any) -> None:
            if matches(value):
                add(element, value, *name)

        hook = self._hook()
        define(hook, collect, wildcard=element.name is None)
        self._target(call, hook, element.name, (), element.tag)
        return element

    # --- helpers -----------------------------------------------------------------------------------

    def _hook(self) -> str:
        return f"injector:{self._number()}"

    def _target(
        self,
        call: Call,
        hook: str,
        variable: str | None,
        captures: tuple[str, ...] = (),
        category: str | None = None,
    ) -> None:
        if call.target == "*":
            raise self._error(
                "name a function: any function would be every function of the process"
            )
        if call.module is not None:
            request = Request(
                hook, call.module, call.path, variable, captures, self.override, category
            )
            self.targets.append(Target(request))
        else:
            found = self._resolve(call.target)
            request = _request_for(found, call.target, hook, variable, self.override)
            self.targets.append(
                Target(request._replace(captures=captures, category=category), found)
            )

    def _resolve(self, dotted: str) -> Any:
        first, *rest = dotted.split(".")
        if first in self._env:
            value = self._env[first]
        elif hasattr(builtins, first):
            value = getattr(builtins, first)
        else:
            raise self._error(
                f"{first!r} is no name of the voirfile; write '//{dotted.replace('.', '/')}' for a "
                "function of the program, '/pkg.mod/f' for one of a module"
            )
        for attribute in rest:
            if not hasattr(value, attribute):
                raise self._error(
                    f"{type(value).__name__} {first!r} has no attribute {attribute!r}"
                )
            value = getattr(value, attribute)
        return value

    def _matcher(self, element: Element) -> Callable[[Any], Any]:
        if element.value is None:
            return lambda _: True
        return language.matcher(element.value, self._resolve_value)

    def _resolve_value(self, name: str) -> Any:
        return self._resolve(name)

    def _error(self, message: str) -> UserError:
        file, line = self.place
        return UserError(f"{file}:{line}: selector {self.selector!r}: {message}")


def _nothing() -> None:
    return None


def _shown(where: Any, variable: str | None) -> str:
    """The selector's text; for an object, what a selector for it would look like."""
    if not isinstance(where, str):
        variable = variable or "#value"
    return _named(where) if variable is None else f"{_named(where)} > {variable}"


def _named(where: Any) -> str:
    if isinstance(where, str):
        return where
    return f"{getattr(where, '__module__', '')}.{getattr(where, '__qualname__', repr(where))}"


def _request_for(
    found: Any, target: str, hook: str, variable: str | None, override: bool
) -> Request:
    name = getattr(found, "__qualname__", target)
    module = getattr(found, "__module__", None) or ""
    return Request(hook, module, tuple(name.split(".")), variable, (), override)


def _parse(selector: str, place: tuple[str, int]) -> Call:
    try:
        return language.parse(selector)
    except language.SelectorError as error:
        raise UserError(f"{place[0]}:{place[1]}: {error}") from None


_EVENTS_OF_TAG = {"@enter": ("#enter", "#receive"), "@exit": ("#exit", "#yield")}
"""The events that have a tag in ptera: where control comes into a function, and where it leaves."""


def _one_focus_each(tree: Call) -> list[Call]:
    """The tree once for each of its functions beside each other in which something fires.

    What fires in one of them comes without the variables of the others that fire.
    """
    below = [child for child in tree.children if language.focus(child)]
    if any(element.focus for element in tree.captures) or not below:
        return [tree]
    beside = tuple(child for child in tree.children if child not in below)
    return [
        tree.replace(children=(*beside, one)) for child in below for one in _one_focus_each(child)
    ]


def _chain_to_focus(tree: Call, text: str) -> list[Call]:
    """The functions from the outermost one down to that which holds the focus."""
    chain = [tree]
    while not any(e.focus for e in chain[-1].captures):
        below = [c for c in chain[-1].children if language.focus(c)]
        if not below:
            raise UserError(f"selector {text!r} has no variable that fires")
        chain.append(below[0])
    return chain


def _is_module_level(call: Call) -> bool:
    return call.module is not None and not call.path


def _module_of(call: Call) -> str:
    return call.module or ""
