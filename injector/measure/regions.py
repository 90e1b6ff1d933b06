"""``ov.region`` and ``ov.step``: what is known about a call becomes the site and payload of its span."""

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
"""Clocks of devices, at most, that one process may plug in."""
FETCH = "io"
"""The region whose calls that end with an exception are recorded as ``io.end``."""
EXHAUSTED = FETCH + ".end"
STEP = "step"
HIDES = {FETCH: "forward", "build": "forward"}
"""Within what, which outermost regions are not recorded: a module that is called while a batch is made
transforms it, once for each row of it, and is no model at work; nor is one whose weights are being made."""
WAITING = frozenset((FETCH, "comm"))
"""Regions in which a process may wait for others for good: these are seen while they are open."""


class Spans:
    """The spans of one process: the room for them, their sites, the hooks that measure them."""

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
        """Called with what could not be measured, and why."""
        self._memory: Any = None

    def record_memory(self) -> None:
        """From now on, let the hooks of the regions of a step read memory as well."""
        from . import memory

        self._memory = memory

    def marks_with(self, source: ClockSource | None) -> Marks | None:
        """What marks moments of the clock of ``source``; None for the host's.

        Raises ValueError where too many clocks were plugged in.
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
            made = Marks(
                lambda *span: self.room.add(*span),  # which may be replaced: by what counts steps
                self.sites,
                self._lose,
                source.find,
                lambda error: warn("the clock of a region", error),
            )
            known = self._others[source.key] = source, made
        return known[1]

    def close(self) -> None:
        """The process ends: write what devices pass in a moment."""
        for marks in self._all_marks():
            marks.close()

    def marks_of(self, region: Region) -> Any:
        """What is marked where a call of ``region`` begins and ends; None for nothing."""
        marks = self.sampled if region.is_sampled else self.marks_with(region.device)
        if self._memory is None or region.name not in self._memory.REGIONS:
            return marks
        return self._memory.MemoryMarks(self.room.add, self.sites, marks)

    def renew(self) -> None:
        """In the child of a fork."""
        self.calls.renew()
        self.sites.renew()
        for marks in self._all_marks():
            marks.renew()

    def _all_marks(self) -> list[Marks]:
        return [self.marks, self.sampled, *(marks for _, marks in self._others.values())]


class Region:
    """What one ``ov.region`` or ``ov.step`` says of each call.

    Raises TypeError when a function does not say what its parameters are called, ValueError for a device
    that is none.
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
    ) -> None:
        self.name = name
        self.task = task
        self.outermost = outermost
        self.splits = splits
        level = HIDES.get(name, name)
        self.level = f"outermost {outermost}" if isinstance(outermost, str) else level
        """Regions of one level nest in each other."""
        self.is_sampled = device == SAMPLED
        self.device = clock_source(True if self.is_sampled else device)
        self.payload = "bytes" if nbytes is not None else None
        if items is not None or tokens is not None:
            self.payload = "items"
        conditions = [
            CallValue(each) for each in (when if isinstance(when, (list, tuple)) else [when])
        ]
        self._before = [one for one in conditions if not (one.late or one.empty)]
        self._after = [one for one in conditions if one.late]
        """The conditions that are known when a call begins, and those that need its result."""
        self._items, self._tokens = CallValue(items), CallValue(tokens)
        self._nbytes, self._phase = CallValue(nbytes), CallValue(phase)
        self._of, self._what = (
            CallValue(VariablePath(of) if isinstance(of, str) else of),
            CallValue(what),
        )
        self._depends = [
            VariablePath(each) if isinstance(each, str) else each for each in depends or ()
        ]
        if self._depends and not (self._of.empty or isinstance(self._of.function, VariablePath)):
            raise TypeError("what answers depend on is of use where `of` is text, such as 'self'")
        self._loads = (self._items, self._tokens, self._nbytes)
        self._kinds = (self._of, self._phase, self._what)
        self._late_load = any(one.late or one.unnamed for one in self._loads)
        self._late_kind = any(one.late for one in self._kinds)
        others = (*self._after, *self._loads, *self._kinds)
        self.keeps = any("self" in one.names for one in others)
        """Whether more than a condition, at the begin, asks for the object whose method is called."""
        self.captures = variables(self._early())
        """Variables to be captured when the function is entered."""
        self.late_captures = variables(self._late())
        """Variables to be captured when it returns."""

    def _early(self) -> list[CallValue]:
        kinds = () if self._late_kind else self._kinds
        loads = () if self._late_load else self._loads
        parts = [CallValue(each) for each in self._depends if isinstance(each, VariablePath)]
        return [*self._before, *kinds, *loads, *parts]

    def _late(self) -> list[CallValue]:
        early = self._early()
        return [one for one in (*self._after, *self._kinds, *self._loads) if one not in early]

    def variables(self) -> list[str]:
        """The hooks that are needed besides ``#enter``: ``#exit`` and its like."""
        found = ["#exit"]
        if self._late_load or self._late_kind or self._after:
            found.append("#value")
        if self.name in (FETCH, STEP):
            found.append("#error")
        return found

    def call_of_method(self, spans: Spans, selector: str) -> Call:
        """As :meth:`call`, for the calls of a method.

        Raises TypeError when a function names anything but ``self`` and ``result``.
        """
        for name in (*self.captures, *self.late_captures):
            if name != "self":
                raise TypeError(f"of a call of a method there are self and result, not {name!r}")
        after, names = self._after, (RESULT, *self.late_captures)
        self._after = []  # called apart, and before anything else
        call = self.call(spans, selector, "")
        if after:
            call.counts = _all([one.over(names) for one in after])
        if self._late_load or self._late_kind:
            call.late, call.late_payload = self._answers(), None
        return call

    def call(self, spans: Spans, selector: str, library: str) -> Call:
        """How its hooks ask, and what they ask for."""
        sites, name = spans.sites, self.name
        data = {"task": self.task, "payload": self.payload, "selector": selector}

        def finder(what: Function) -> Function:
            def find(frame: FrameType | None, of: Any, phase: Any, values: Any) -> int:
                kind = what(*values)
                shown = None if kind is None and of is None else kind or type(of).__name__
                return sites.at(frame, library, of, region=name, phase=phase, what=shown, **data)

            return find

        begun, what = self.captures, self._what
        call = Call(name, finder(what.over(begun)), sites.program)
        if self._late_kind:
            call.find = finder(what.over((RESULT, *self.late_captures)))
            if not {*what.names} <= {*begun}:
                call.find_begun = finder(lambda *_: None)
        self._fill(call, spans)
        if name == FETCH:
            call.raised = lambda site: sites.like(site, region=EXHAUSTED)
        elif name == STEP:
            call.raised = lambda site: INSIDE  # it was not made: nothing was updated
        call.outermost = bool(self.outermost)
        call.level = self.level
        call.device = spans.marks_of(self)
        call.watched = name in WAITING
        return call

    def _fill(self, call: Call, spans: Spans) -> None:
        names = self.captures
        before = [one.over(names) for one in self._before]
        if self.splits is not None:
            before.append(spans.calls.splitter(self.splits))
        if before:
            call.when = _all(before)
        if not self._late_kind:
            call.of = None if self._of.empty else self._of.over(names)
            call.phase = None if self._phase.empty else self._phase.over(names)
        if self._depends and not self._late_kind:
            call.depends = tuple(
                each.over(names) if isinstance(each, VariablePath) else each
                for each in self._depends
            )
        if not self._late_load:
            call.payload = self._load(names)
        if self._tokens.empty and self._nbytes.empty:
            call.most = ITEMS
        if self._late_load and not (self._late_kind or self._after):
            call.late_payload = self._load((RESULT, *self.late_captures))
        elif "#value" in self.variables():
            call.late = self._answers()

    def _load(self, names: tuple[str, ...]) -> Function | None:
        """Items and tokens, or bytes, as one number."""
        if all(one.empty for one in self._loads):
            return None
        if not self._nbytes.empty:
            return self._nbytes.over(names)
        if self._tokens.empty:
            return self._items.over(names)
        return compiled.Pair(self._items.over(names), ITEMS, self._tokens.over(names), TOKENS)

    def _answers(self) -> Function:
        names = (RESULT, *self.late_captures)
        when = _all([one.over(names) for one in self._after]) if self._after else None
        of, phase = self._of.over(names), self._phase.over(names)
        load = self._load(names) if self._late_load else None
        late_kind = self._late_kind

        def late(result: Any, values: Any) -> tuple[bool, Any, Any, Any]:
            every = (result, *values)
            if when is not None and not when(*every):
                return False, MISSING, MISSING, MISSING
            return (
                True,
                of(*every) if late_kind else MISSING,
                phase(*every) if late_kind else MISSING,
                load(*every) if load is not None else MISSING,
            )

        return late


def _all(conditions: list[Function]) -> Function:
    """Whether all of them hold; the first that does not is the last that is called."""
    if len(conditions) == 1:
        return conditions[0]
    return lambda *values: all(condition(*values) for condition in conditions)


class CallHooks:
    """Hooks around the calls of a function, defined as the probe that asks finds out where they go."""

    what: str
    variables: tuple[str, ...]
    """What hooks there are: ``"#enter"``, ``"#exit"``, …; the calls of the first are counted."""
    gives: str | None = None
    """What is recorded: ``region:forward``, ``value:train/loss``."""
    gate: str | None = None
    """What nested calls ask that are not to be seen (:class:`injector.probe.calls.ReentrancyGuard`)."""

    def captures(self, variable: str) -> tuple[str, ...]:
        """Variables of the function that the hook on ``variable`` wants besides."""
        raise NotImplementedError

    def make(
        self, names: dict[str, str], selector: str, library: str
    ) -> tuple[Point, dict[str, Function]]:
        """The counted point, and the hooks by variable."""
        raise NotImplementedError

    def check(self, function: Any) -> None:
        """Raises UserError when a variable that is wanted is none of ``function``."""
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is None:
            return
        known = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        for name in [name for variable in self.variables for name in self.captures(variable)]:
            if name not in known:
                raise UserError(f"{self.what}: {code.co_name} has no variable {name!r}")

    def define_method(self, method: str, published: str, name: str, selector: str) -> None:
        """Define the hooks, in a point ``name``, of the calls of a method: what code calls ``published``.

        Raises UserError where they cannot be those of a method.
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
        """Define hooks under ``names`` (:attr:`variables` to names in builtins).

        ``module`` is that of the function; ``guard(hook)`` is what stands in for a hook where the
        selector has conditions, which are on the variables ``beside``.
        """
        point, made = self.make(names, selector, module.partition(".")[0])
        if not (active is None and guard is None):
            self.gate = None
        captures = {name: beside + self.captures(variable) for variable, name in names.items()}
        hooks = {
            name: made[variable] if guard is None else guard(made[variable])
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
        """What has the calls of an object that is written in C recorded, and says whether it can.

        ``began`` and ``ended``: see :func:`injector.probe.object_calls.object_calls`. Raises UserError where
        the region's functions ask for more than ``self`` and ``args``.
        """
        region, point = self.region, Point(f"injector:{selector}")
        others = {*region.captures, *region.late_captures} - {"self", "args"}
        if others or len(self.variables) > 2:
            raise UserError(
                f"{self.what} of {selector}: of a call of an object there are self and args"
            )
        hooks = self._spans.calls.hooks(point, region.call(self._spans, selector, ""))
        return object_calls(point, hooks, region.captures, began, ended)
