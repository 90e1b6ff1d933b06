"""``ov.region`` and ``ov.step``: each call of a function becomes a span with a site and a payload.

:class:`Region` reads what a voirfile requests, and sorts it into what is known when a call begins and what
only its result tells. :class:`RegionHooks` makes hooks of that: those in C (:mod:`injector.probe.calls`) time
each call, and ask the region's functions for the site and the payload. :class:`Spans` holds what all regions
of a process share: the memory for spans, the numbers of sites, the events in the queues of devices.
"""

from __future__ import annotations

from ..errors import UserError
from ..probe import compiled
from ..probe.calls import INSIDE, Call, Calls
from ..probe.methods import method_hooks, publish_method
from ..probe.object_calls import object_calls
from ..probe.points import MISSING, Point, publish_calls
from ..probe.room import Room
from ..store.spans import ITEMS, TOKENS, SpanFile
from .call_values import RESULT, CallValue, VariablePath, variables
from .device import SAMPLED
from .device import source as clock_source
from .marks import Marks, SampledMarks
from .sites import Sites

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from .device import ClockSource

    Function = Callable[..., Any]

CLOCKS = 64
"""How many clocks of devices one process may plug in at most."""
FETCH = "io"
"""The region of fetches from loaders. A fetch that ends with an exception is recorded as ``io.end``."""
EXHAUSTED = FETCH + ".end"
STEP = "step"
HIDES = {FETCH: "forward", "build": "forward"}
"""Regions that share the level of another one, whose outermost calls are then not recorded inside of them.

A module that is called while a batch is made transforms the batch, once for each row of it, and is no model
at work; nor is one whose weights are being made.
"""
WAITING = frozenset((FETCH, "comm"))
"""Regions in which a process may wait for others for good: other processes see these while they are open."""


class Spans:
    """What the regions of one process share: the memory for spans, their sites, their marks on devices."""

    def __init__(self, recorder: Any) -> None:
        file = SpanFile(recorder)
        self.room = Room(file.grow, recorder.lose, file.head)
        self.calls = Calls(self.room)
        self.sites = Sites(recorder.emit, self.calls.forget)
        self._lose = recorder.lose
        self.marks = Marks(self.room.add, self.sites, recorder.lose)
        self.sampled = SampledMarks(self.room.add, self.sites, recorder.lose)
        self._others: dict[object, tuple[ClockSource, Marks]] = {}
        self.warn: Callable[[str, Exception], None] = lambda where, error: None
        """Called with the name of what could not be measured, and the error."""
        self._memory: Any = None

    def record_memory(self) -> None:
        """Have all regions of a step that are requested from now on measure memory as well."""
        from . import memory  # only a run with --memory needs it

        self._memory = memory

    def marks_with(self, source: ClockSource | None) -> Marks | None:
        """Return the marks in the queue of the clock that ``source`` finds; None for the host's clock.

        Raises ValueError when too many clocks were plugged in.
        """
        if source is None:
            return None
        if source.key == "":
            return self.marks
        known = self._others.get(source.key)
        if known is None:
            if len(self._others) >= CLOCKS:
                raise ValueError(f"more than {CLOCKS} clocks: plug in one, and use it again")
            warn = self.warn
            marks = Marks(
                # Looked up at each span: what counts steps (`Pacing`) puts another `add` there.
                lambda *span: self.room.add(*span),
                self.sites,
                self._lose,
                source.find,
                lambda error: warn("the clock of a region", error),
            )
            known = self._others[source.key] = source, marks
        return known[1]

    def close(self) -> None:
        """Write what devices still complete within a moment, as the process ends."""
        for marks in self._all_marks():
            marks.close()

    def marks_of(self, region: Region) -> Any:
        """Return what marks the begin and the end of each call of ``region``; None for nothing."""
        marks = self.sampled if region.is_sampled else self.marks_with(region.device)
        if self._memory is None or region.name not in self._memory.REGIONS:
            return marks
        return self._memory.MemoryMarks(self.room.add, self.sites, marks)

    def renew(self) -> None:
        """Begin anew in the child of a fork."""
        self.calls.renew()
        self.sites.renew()
        for marks in self._all_marks():
            marks.renew()

    def _all_marks(self) -> list[Marks]:
        return [self.marks, self.sampled, *(marks for _, marks in self._others.values())]


class Region:
    """The request of one ``ov.region`` or ``ov.step``.

    ``at_end`` has all functions called when a span ends, as for the turns of a loop. Raises TypeError for a
    function that cannot be called then, or whose parameters have no names, ValueError for a ``device`` that
    is none.
    """

    def __init__(
        self,
        name: str,
        *,
        items: Any = None,
        tokens: Any = None,
        nbytes: Any = None,
        phase: Any = None,
        of: Any = None,
        what: Any = None,
        when: Any = None,
        task: str | None = None,
        outermost: bool | str = False,
        device: Any = None,
        depends: Any = None,
        splits: str | None = None,
        by_shape: bool = False,
        at_end: bool = False,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError("its name is a text that is not empty")
        self.name = name
        self.task = task
        self.outermost = outermost
        self.splits = splits
        level = HIDES.get(name, name)
        self.level = f"outermost {outermost}" if isinstance(outermost, str) else level
        """Regions of one level share a stack of open calls in each thread, which ``outermost`` looks at."""
        self.is_sampled = device == SAMPLED
        self.device = clock_source(True if self.is_sampled else device)
        self.payload = "bytes" if nbytes is not None else None
        if items is not None or tokens is not None:
            self.payload = "counted" if by_shape else "items"
        given = when if isinstance(when, (list, tuple)) else [when]
        conditions = [CallValue(condition) for condition in given]
        self._early_conditions = [
            one for one in conditions if not (at_end or one.late or one.empty)
        ]
        self._late_conditions = [
            one for one in conditions if one.late or (at_end and not one.empty)
        ]
        """The conditions that can be checked when a call begins, and those that need its result."""
        self._items, self._tokens = CallValue(items), CallValue(tokens)
        self._nbytes, self._phase = CallValue(nbytes), CallValue(phase)
        self._of, self._what = (
            CallValue(VariablePath(of) if isinstance(of, str) else of),
            CallValue(what),
        )
        self._depends = [
            VariablePath(part) if isinstance(part, str) else part for part in depends or ()
        ]
        if self._depends and not (self._of.empty or isinstance(self._of.function, VariablePath)):
            raise TypeError("what answers depend on is of use where `of` is text, such as 'self'")
        self._payload_values = (self._items, self._tokens, self._nbytes)
        self._site_values = (self._of, self._phase, self._what)
        # A function without parameters may tell what has come of the call, so it is called at its end.
        self._late_payload = at_end or any(one.late or one.unnamed for one in self._payload_values)
        self._late_site = any(one.late for one in self._site_values)
        others = (*self._late_conditions, *self._payload_values, *self._site_values)
        if at_end and any(one.late for one in others):
            raise TypeError("a turn of a loop has variables, and no result")
        if at_end and any(one.function is not None for one in self._site_values):
            raise TypeError("of a turn of a loop, `of`, `phase` and `what` are no functions")
        self.keeps = any("self" in one.names for one in others)
        """Whether a function other than an early condition takes the object whose method is called."""
        self.captures = variables(self._at_begin())
        """The variables to capture when the function is entered."""
        self.late_captures = variables(self._at_end())
        """The variables to capture when it returns."""

    def _at_begin(self) -> list[CallValue]:
        """The constants and functions that are read when a call begins."""
        site_values = () if self._late_site else self._site_values
        payload_values = () if self._late_payload else self._payload_values
        paths = [CallValue(part) for part in self._depends if isinstance(part, VariablePath)]
        return [*self._early_conditions, *site_values, *payload_values, *paths]

    def _at_end(self) -> list[CallValue]:
        """The constants and functions that are read when a call has returned."""
        early = self._at_begin()
        every = (*self._late_conditions, *self._site_values, *self._payload_values)
        return [value for value in every if value not in early]

    def variables(self) -> list[str]:
        """Return the events of the function that need hooks besides ``#enter``."""
        events = ["#exit"]
        if self._late_payload or self._late_site or self._late_conditions:
            events.append("#value")
        if self.name in (FETCH, STEP):
            events.append("#error")
        return events

    def call_of_method(self, spans: Spans, selector: str) -> Call:
        """Do as :meth:`call` for the calls of a method.

        Raises TypeError when a function names anything but ``self`` and ``result``.
        """
        for name in (*self.captures, *self.late_captures):
            if name != "self":
                raise TypeError(f"of a call of a method there are self and result, not {name!r}")
        conditions, names = self._late_conditions, (RESULT, *self.late_captures)
        # The hooks of a method check these by themselves, before they call any other function.
        self._late_conditions = []
        call = self.call(spans, selector, "")
        if conditions:
            call.counts = _all([one.over(names) for one in conditions])
        if self._late_payload or self._late_site:
            call.late, call.late_payload = self._late_answers(), None
        return call

    def call(self, spans: Spans, selector: str, library: str) -> Call:
        """Return what the hooks in C need to know of each call, and the functions that they ask.

        ``selector`` is recorded with each site. ``library`` is the package of the function: no line of it is
        taken for the program's call.
        """
        sites, name = spans.sites, self.name
        data = {"task": self.task, "payload": self.payload, "selector": selector}

        def finder(label_of: Function) -> Function:
            def find(frame: FrameType | None, of: Any, phase: Any, values: Any) -> int:
                given = label_of(*values)
                label = None if given is None and of is None else given or type(of).__name__
                return sites.at(frame, library, of, region=name, phase=phase, what=label, **data)

            return find

        at_begin, label_of = self.captures, self._what
        call = Call(name, finder(label_of.over(at_begin)), sites.program)
        if self._late_site:
            # While the call runs it has a site without what only the result tells, which `find` completes.
            call.find = finder(label_of.over((RESULT, *self.late_captures)))
            if not {*label_of.names} <= {*at_begin}:
                call.find_begun = finder(lambda *_: None)
        self._fill(call, spans)
        if name == FETCH:
            call.raised = lambda site: sites.like(site, region=EXHAUSTED)
        elif name == STEP:
            # A step that raised was not made: nothing was updated.
            call.raised = lambda site: INSIDE
        call.outermost = bool(self.outermost)
        call.level = self.level
        call.device = spans.marks_of(self)
        call.watched = name in WAITING
        return call

    def _fill(self, call: Call, spans: Spans) -> None:
        """Set the functions of ``call``, each where it is called: at the begin of a call or at its end."""
        names = self.captures
        before = [one.over(names) for one in self._early_conditions]
        if self.splits is not None:
            before.append(spans.calls.splitter(self.splits))
        if before:
            call.when = _all(before)
        if not self._late_site:
            call.of = None if self._of.empty else self._of.over(names)
            call.phase = None if self._phase.empty else self._phase.over(names)
        if self._depends and not self._late_site:
            call.depends = tuple(
                part.over(names) if isinstance(part, VariablePath) else part
                for part in self._depends
            )
        if not self._late_payload:
            call.payload = self._payload_of(names)
        if self._tokens.empty and self._nbytes.empty:
            call.most = ITEMS
        # Most often only the payload is late. The hooks in C then write it without asking for the rest.
        if self._late_payload and not (self._late_site or self._late_conditions):
            call.late_payload = self._payload_of((RESULT, *self.late_captures))
        elif "#value" in self.variables():
            call.late = self._late_answers()

    def _payload_of(self, names: tuple[str, ...]) -> Function | None:
        """Return the function that gives items and tokens, or bytes, as one number; None for no payload."""
        if all(one.empty for one in self._payload_values):
            return None
        if not self._nbytes.empty:
            return self._nbytes.over(names)
        if self._tokens.empty:
            return self._items.over(names)
        return compiled.Pair(self._items.over(names), ITEMS, self._tokens.over(names), TOKENS)

    def _late_answers(self) -> Function:
        """Return what tells, of the result and the late variables, all that was not known at the begin.

        It gives whether the call counts, ``of``, ``phase`` and the payload, with MISSING for what stays as it
        was.
        """
        names = (RESULT, *self.late_captures)
        conditions = [one.over(names) for one in self._late_conditions]
        when = _all(conditions) if conditions else None
        of, phase = self._of.over(names), self._phase.over(names)
        payload = self._payload_of(names) if self._late_payload else None
        late_site = self._late_site

        def late(result: Any, values: Any) -> tuple[bool, Any, Any, Any]:
            every = (result, *values)
            if when is not None and not when(*every):
                return False, MISSING, MISSING, MISSING
            return (
                True,
                of(*every) if late_site else MISSING,
                phase(*every) if late_site else MISSING,
                payload(*every) if payload is not None else MISSING,
            )

        return late


def _all(conditions: list[Function]) -> Function:
    """Return a function that says whether all conditions hold. It calls none after one that does not."""
    if len(conditions) == 1:
        return conditions[0]
    return lambda *values: all(condition(*values) for condition in conditions)


class CallHooks:
    """Hooks around the calls of a function. A probe has them defined once it knows their names."""

    what: str
    """How error messages call them, such as ``region 'forward'``."""
    variables: tuple[str, ...]
    """The events to hook: ``"#enter"``, ``"#exit"``, …; the probe counts the calls of the first hook."""
    gives: str | None = None
    """What is recorded: ``region:forward``, ``value:train/loss``."""
    names_event = False
    """Whether the selector names what fires, as ``#loop_x``; else it names a function, whose calls count."""
    gate: str | None = None
    """The name of the guard by which rewritten code leaves out calls that are not outermost
    (:class:`injector.probe.calls.ReentrancyGuard`); None where all calls count."""

    def captures(self, variable: str) -> tuple[str, ...]:
        """The variables of the function that the hook on the event ``variable`` is called with."""
        raise NotImplementedError

    def make(
        self, names: dict[str, str], selector: str, library: str
    ) -> tuple[Point, dict[str, Function]]:
        """Return the point that counts the calls, and the hooks by event.

        ``names`` are the hooks' names in builtins by event.
        """
        raise NotImplementedError

    def check(self, function: Any) -> None:
        """Raise UserError when ``function`` does not have a variable that one of the hooks takes."""
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is None:  # written in C, or an object: it cannot be known before a call
            return
        known = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        for name in [name for variable in self.variables for name in self.captures(variable)]:
            if name not in known:
                raise UserError(f"{self.what}: {code.co_name} has no variable {name!r}")

    def define_method(self, method: str, published: str, name: str, selector: str) -> None:
        """Define the hooks of the calls of every method called ``method``.

        ``published`` is the name in builtins that rewritten code calls, ``name`` that of the point. Raises
        UserError where these hooks cannot be those of a method.
        """
        raise UserError(f"{self.what}: of the calls of a method, .{method}, there are regions only")

    def define(
        self,
        names: dict[str, str],
        selector: str,
        module: str,
        active: Callable[[], object] | None = None,
        guard: Callable[[Function], Function] | None = None,
        beside: tuple[str, ...] = (),
    ) -> None:
        """Define hooks under ``names``, which maps each of :attr:`variables` to a name in builtins.

        ``module`` is that of the function. Nothing is recorded while ``active()`` is None. ``guard(hook)``
        wraps each hook where the selector has conditions, whose variables are ``beside``.
        """
        point, hooks_by_event = self.make(names, selector, module.partition(".")[0])
        if not (active is None and guard is None):
            # The guard knows open calls alone. What the selector requires besides, the hooks check.
            self.gate = None
        captures = {name: beside + self.captures(variable) for variable, name in names.items()}
        hooks = {
            name: hooks_by_event[variable] if guard is None else guard(hooks_by_event[variable])
            for variable, name in names.items()
        }
        publish_calls(hooks, point, captures, active)


class RegionHooks(CallHooks):
    """The hooks of one region."""

    def __init__(self, region: Region, spans: Spans) -> None:
        self.region = region
        self.what = f"region {region.name!r}"
        self.gives = f"region:{region.name}"
        self.variables = ("#enter", *region.variables())
        self._spans = spans

    def captures(self, variable: str) -> tuple[str, ...]:
        if variable == "#enter":
            return self.region.captures
        return self.region.late_captures if variable == "#value" else ()

    def make(
        self, names: dict[str, str], selector: str, library: str
    ) -> tuple[Point, dict[str, Function]]:
        point = Point(names["#enter"])
        if self.region.outermost:
            self.gate = self._spans.calls.guard(self.region.level).name
        call = self.region.call(self._spans, selector, library)
        return point, self._spans.calls.hooks(point, call).by_variable

    def define_method(self, method: str, published: str, name: str, selector: str) -> None:
        point, region = Point(name), self.region
        try:
            call = region.call_of_method(self._spans, selector)
        except TypeError as error:
            raise UserError(f"{self.what} of .{method}: {error}") from None
        early, late = bool(region.captures), bool(region.late_captures)
        hooks = method_hooks(self._spans.calls, point, call, early, late, region.keeps)
        publish_method(method, published, point, hooks)

    def of_objects(
        self, selector: str, began: Callable[[Any, Any], bool], ended: Callable[[Any, Any], None]
    ) -> Callable[[Any], bool]:
        """Return a function that has the calls of an object written in C recorded, and says whether it can.

        For ``began`` and ``ended`` see :func:`injector.probe.object_calls.object_calls`. Raises UserError
        when the region's functions name any variable but ``self`` and ``args``.
        """
        region, point = self.region, Point(f"injector:{selector}")
        others = {*region.captures, *region.late_captures} - {"self", "args"}
        if others or len(self.variables) > 2:
            raise UserError(
                f"{self.what} of {selector}: of a call of an object there are self and args"
            )
        hooks = self._spans.calls.hooks(point, region.call(self._spans, selector, ""))
        return object_calls(point, hooks, region.captures, began, ended)
