"""Probes: what a selector of a voirfile requests of the rewriter, and what its hooks do.

A hook is a callable in builtins under a name that no program can write. For each place :class:`Probe` chooses
the cheapest one that does what was requested: one in C that stores a number, the voirfile's function alone,
or one that puts an event together from several variables.
"""

from __future__ import annotations

from types import MethodType

from ..probe.points import MISSING, define, defined
from ..probe.stored import define_stored
from ..rewrite import selector as language
from ..rewrite.method_calls import hook_of, is_method
from ..rewrite.request import Request
from ..rewrite.selector import Element, FunctionNode
from .activations import Activations, calling_frame
from .context import Event, Totals
from .hook_requests import (
    EnclosingFunctions,
    HookRequests,
    ProbeTarget,
    can_resolve,
    chain_to_focus,
    named,
    one_focus_each,
    own_name,
    parsed,
    request_for,
    shown,
)

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..measure.regions import CallHooks
    from ..measure.values import Store
    from .context import Deliver


EVERYWHERE = "*"
"""In place of the module of a request: all modules of the program."""
OF_FUNCTIONS = "calls are those of a function: name it without what fires, as in //f"


class Probe(HookRequests):
    """One selector of a voirfile, or one object: what it requests, and what it gives when it fires.

    ``calls`` defines hooks of its own around the calls of ``where``, which is a function then.
    ``deliver`` receives a mapping of captured names to values. ``direct`` receives the focus variable's
    value alone: the fast way, without a mapping in between wherever the selector allows that. ``store``
    keeps numbers, in the hook itself wherever the selector allows that.
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
        selector = shown(where, variable) if calls is None else named(where)
        super().__init__(selector, place, env, number, override)
        self.gives = getattr(calls if calls is not None else store, "gives", None)
        """What it records, if it records anything by itself: ``region:forward``, ``value:train/loss``."""
        self.counted: list[str] = []
        """The names of hooks whose every call is an event. Such hooks count their calls themselves."""
        self.on_first: Callable[[], None] = lambda: None
        """Called at the first event."""
        self._events = 0
        self._direct = store.put if store is not None else direct
        self._store = store
        self._deliver = deliver
        self._raw = raw
        self._count = self._event
        if isinstance(where, str) and is_method(where):
            self._request_method(where, calls)
        elif calls is None:
            self._request_for(where, variable, total)
        else:
            self._request_calls(where, calls)
            # Not the scopes of outer functions: their activations count inside of open calls, too.
            for target in self.targets:
                if target.request.variable != "#scope":
                    target.request = target.request._replace(gate=calls.gate)

    def _request_method(self, where: str, calls: CallHooks | None) -> None:
        """Request the calls of every method of a name (``.to``) in the program's own files."""
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
        self.targets.append(ProbeTarget(Request(hook, EVERYWHERE, (where,), where)))

    def _request_calls(self, where: Any, calls: CallHooks) -> None:
        """Request the begins and ends of the calls of a function, as ``calls`` needs them."""
        names = {variable: self._hook() for variable in calls.variables}
        self.counted.append(names[calls.variables[0]])
        if isinstance(where, str):
            self._request_calls_of(where, calls, names)
            return
        calls.check(where)
        module = getattr(where, "__module__", None) or ""
        calls.define(names, self.selector, module)
        for variable, hook in names.items():
            request = request_for(where, self.selector, hook, variable, False)
            captures = calls.captures(variable)
            self.targets.append(ProbeTarget(request._replace(captures=captures), where))

    def _request_calls_of(self, selector: str, calls: CallHooks, names: dict[str, str]) -> None:
        """Request the calls of the function that ``selector`` names; ``names`` are the hooks by event."""
        if not calls.names_event:
            self._check_is_function(selector)
        text = selector if calls.names_event else shown(selector, "#enter")
        chain = chain_to_focus(parsed(text, self.place), self.selector)
        around = self._request_around(chain)
        inner = chain[-1]
        focus, *more = [element for element in inner.captures if element.focus]
        if more:
            raise self._error(OF_FUNCTIONS)
        others = [element for element in inner.captures if not element.focus]
        event = Event(focus, others, around.captured, False, self._test)
        # Hooks take the variables of the selector's conditions first, then those that `calls` needs.
        beside = event.reads

        def guard(hook: Callable[..., Any]) -> Callable[..., Any]:
            """Return ``hook``, called only where the selector's conditions hold."""

            def guarded(value: Any, *rest: Any) -> Any:
                tested, others = rest[: len(beside)], rest[len(beside) :]
                if any(event.data(value, tested, chain) is not None for chain in around.chains()):
                    hook(value, *others)
                return value

            return guarded

        library = inner.module or ""
        guarding = guard if event.tested or beside else None
        calls.define(names, self.selector, library, around.active, guarding, beside)
        for variable, hook in names.items():
            self._target(inner, hook, variable, beside + calls.captures(variable))

    def _check_is_function(self, selector: str) -> None:
        """Raise UserError for a selector that ends with a variable, or an event, of a function."""
        _, inside, last = selector.rpartition(">")
        outer, last = selector[: -len(last) - 1].strip(), last.strip()
        if inside and last.startswith("#"):
            raise self._error(OF_FUNCTIONS)
        if inside and last.isidentifier() and not can_resolve(last, self._env):
            raise self._error(
                f"{last!r} is no name of the voirfile, and calls are those of a function: "
                f"{outer}, or {outer}/{last}"
            )

    def _request_for(self, where: Any, variable: str | None, total: bool) -> None:
        if isinstance(where, str):
            self._request_selector(shown(where, variable), total)
        else:
            self._request_object(where, variable or "#value")

    def _request_selector(self, selector: str, total: bool) -> None:
        """Request the events of a selector, by its mode. Raises UserError where its marks do not fit."""
        tree = parsed(selector, self.place)
        mode = language.mode(tree)
        if mode == "total" and language.focus(tree, language.END):
            raise self._error("'!!' marks where something ends: mark with '!' where it begins")
        if mode == "wrap" and total:
            raise self._error("what fires at a begin and an end ('!!') has no total")
        if mode == "total" or total:
            self._request_total(tree)
            return
        for one in [tree] if mode == "wrap" else one_focus_each(tree):
            self._request_focus(one, mode == "wrap")

    def _request_object(self, function: Any, variable: str) -> None:
        """Request an event at ``variable`` of a function that the voirfile has given itself."""
        call = FunctionNode(self.selector)
        element = Element(variable, variable, focus=language.BEGIN)
        hook = self._hook()
        event = Event(element, [], [], self._raw, self._test)
        self.counted.append(hook)
        if self._store is not None:
            define_stored(hook, self._store.grow, self._store.number, self._store.keep)
        else:
            define(hook, self._handler(event, EnclosingFunctions(), None), override=self.override)
        self.targets.append(
            ProbeTarget(request_for(function, call.target, hook, variable, self.override), function)
        )

    @property
    def hooks(self) -> list[str]:
        """The names of all its hooks."""
        return [target.request.hook for target in self.targets]

    def is_optional(self, request: Request) -> bool:
        """Whether ``request`` is for an event that not every function has, such as a ``yield``."""
        return request.hook in self._optional

    @property
    def fired(self) -> int:
        """How many events it has given in this process."""
        return self._events + sum(defined[hook].fired for hook in self.counted)

    def _event(self) -> None:
        """Count an event of a hook that is not counted by itself."""
        self._events += 1
        if self._events == 1:
            self.on_first()

    # --- one event each time the focus variable is set ---------------------------------------------

    def _request_focus(self, tree: FunctionNode, wrap: bool) -> None:
        """Request an event for each value of the focus; with ``wrap``, at its begin and its end (``!!``)."""
        chain = chain_to_focus(tree, self.selector)
        around = self._request_around(chain)
        inner = chain[-1]
        bound = None if inner.module is not None else self._resolve(inner.target)
        own = own_name(bound) if isinstance(bound, MethodType) else None
        for element in [element for element in inner.captures if element.focus]:
            # Of two focuses, each comes with the value that the other has at that time.
            others = [e for e in inner.captures if e is not element]
            others += [] if own is None else [Element(own, own)]
            step = None if not wrap else "begin" if element.focus & language.BEGIN else "end"
            for hook, variable in self._hooks_for(element):
                fired = element
                if variable != element.name:
                    capture = element.capture or "*"
                    fired = element.replace(name=variable, capture=capture, category=None)
                self._request_place(inner, hook, fired, others, around, step)
        for element, add in around.late:
            self._request_collected(inner, element, add)

    def _request_place(
        self,
        call: FunctionNode,
        hook: str,
        element: Element,
        others: list[Element],
        around: EnclosingFunctions,
        step: str | None,
    ) -> None:
        """Request events at one element, and define the hook for them.

        ``others`` are the elements of the same function that come along. ``step`` is ``"begin"`` or
        ``"end"`` for the marks ``!`` and ``!!``, else None.
        """
        event = Event(element, others, around.captured, self._raw, self._test)
        # Then each call of the hook is an event of the value alone.
        simple = event.plain and step is None and not around.recursive
        if simple and (self._direct is not None or not self.override):
            self.counted.append(hook)
        if simple and self._store is not None:
            store = self._store
            define_stored(hook, store.grow, store.number, store.keep, around.active)
        else:
            define(
                hook,
                self._handler(event, around, step),
                override=self.override and step is None,
                captures=event.reads,
                wildcard=element.name is None,
                receives=element.name == "#receive",
                active=around.active,
            )
        self._target(call, hook, element.name, event.reads, element.tag)

    def _handler(
        self, event: Event, around: EnclosingFunctions, step: str | None
    ) -> Callable[..., Any]:
        """Return what the hook calls: the voirfile's function, or one that puts an event together for it."""
        if step is not None:
            return self._wrapping(event, around, step)
        plain = event.plain and not around.recursive
        if plain and self._direct is not None:
            return self._direct
        deliver = self._deliver_to(event.capture)
        if plain and not self.override:
            capture = event.capture
            return lambda value: deliver({capture: value})

        count = self._count

        def handler(value: Any, *rest: Any) -> Any:
            replacement = MISSING
            # Of several activations of a recursive function, each gives an event; the last answer replaces.
            for activations in around.chains():
                data = event.data(value, rest, activations)
                if data is not None:
                    count()
                    replacement = deliver(data)
            return value if replacement is MISSING else replacement

        return handler

    def _deliver_to(self, capture: str) -> Deliver:
        """Return what takes the data of an event; ``direct`` takes the value of ``capture`` out of them."""
        direct = self._direct
        if direct is None:
            return self._deliver or (lambda data: MISSING)
        return lambda data: direct(data[capture])

    def _counting(self, capture: str) -> Deliver:
        """Return what counts an event, and takes its data."""
        deliver = self._deliver_to(capture)

        def counting(data: dict[str, Any]) -> Any:
            self._event()
            return deliver(data)

        return counting

    def _wrapping(self, event: Event, around: EnclosingFunctions, step: str) -> Callable[..., Any]:
        """Return what a hook of ``f(!a, !!b)`` calls: the events of one activation carry the same id."""
        deliver = self._deliver_to(event.capture)
        if step == "begin":
            self._wrap_name = event.capture

        def handler(value: Any, *rest: Any) -> None:
            frame = calling_frame()
            for activations in around.chains():
                data = event.data(value, rest, activations)
                if data is not None:
                    if step == "begin":
                        self._event()
                    # The same frames at the begin and at the end, and no others as long as these are alive.
                    key = hash((id(frame), *(id(outer_frame) for outer_frame, _ in activations)))
                    data["$wrap"] = {"id": key, "name": self._wrap_name, "step": step}
                    deliver(data)

        return handler

    _wrap_name: str | None = None

    # --- one event when the outermost function ends ------------------------------------------------

    def _request_total(self, tree: FunctionNode) -> None:
        """Request one event with all values, given at the end of the outermost function. Raises UserError."""
        if self.override:
            raise self._error("a selector without a focus has no variable to override")
        chain = chain_to_focus(tree, self.selector) if language.focus(tree) else [tree]
        elements = language.all_elements(tree)
        scopes: list[Activations] = []
        for call in chain:
            scopes.append(self._request_scope(call, scopes[-1] if scopes else None))
        first = next((e.capture for e in elements if e.capture), "")
        totals = Totals(scopes, elements, self._counting(first), self._raw, self._test)
        # Before the hooks for values: of several hooks at one place the last defined is called first, and a
        # value that is set at `#exit` belongs to the event.
        end = self._hook()
        define(end, totals.end)
        self._target(tree, end, "#exit")
        for number, call in enumerate(chain):
            for element in call.captures:
                self._request_collected(call, element, totals.adder(number))
            for child in call.children:
                if child not in chain:
                    self._request_below(child, totals.adder_below(number), scopes[number])
