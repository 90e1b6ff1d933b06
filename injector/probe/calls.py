"""Hooks around calls: each call of a function becomes a span, with what is known of it.

A call is two hooks, ``enter`` and ``leave``, and up to two more: ``given`` sees what it returns,
``raised`` that it raises. All regions of one level share a stack in each thread; what stands on it is
``(owner, site, start, payload, mark)``. A site of 0 is a call that is not recorded, since it lies
inside of another one; a site of -1 is one that does not count at all.

What runs at every call is in ``compiled``: here is what happens at the first of its kind, and what is rare.
"""

from __future__ import annotations

import builtins
import os
import sys
from _contextvars import ContextVar
from itertools import count
from time import perf_counter_ns

from . import compiled, points
from .compiled import Stacks
from .frames import hooked, is_generator, is_in_between
from .points import MISSING, Point, failed
from .room import OPEN

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

    from .plain import Entry
    from .room import Room

    Function = Callable[..., Any]

INSIDE, OUTSIDE = 0, -1
_MOST_PLACES = 10_000


class Call:
    """What is recorded of each call of a region, and the functions that find it."""

    def __init__(self, region: str, find: Function, near: Function) -> None:
        self.region = region
        self.near = near
        """``near(frame)``: from ``frame`` on, the first whose line tells one call from another."""
        self.find = find
        """``find(frame, of, phase, variables)``: the number of the site; ``frame`` is the caller's."""
        self.find_begun = find
        """The same when the call begins, with the variables that are known by then."""
        self.when: Function | None = None
        self.of: Function | None = None
        self.phase: Function | None = None
        self.payload: Function | None = None
        """These are called with the captured variables. A payload is a number, or None."""
        self.depends: tuple[Function, ...] | None = None
        """What `when` and `phase` follow from, beside `of`, which is a path then: where all of these give
        the objects that they gave before, neither is called."""
        self.late_payload: Function | None = None
        """Called with the result and the variables, where the result gives nothing but the payload."""
        self.late: Function | None = None
        """``late(result, variables)``: whether it counts, of, phase, payload; MISSING: as it was."""
        self.counts: Function | None = None
        """Called with the result of a method and the variables, before any other of these."""
        self.raised: Callable[[int], int] | None = None
        """The site, in place of this one, of a call that ends with an exception; INSIDE: none."""
        self.device: Any = None
        """Marks moments of a device: ``mark()``, ``span(begin, start, site)``. Its ``clocks`` is a list:
        of None alone as soon as it is known that there is no device."""
        self.outermost = False
        self.level = region
        """Regions of one level share a stack: ``outermost`` is about all of them."""
        self.most = (1 << 63) - 1
        """The largest payload."""
        self.watched = False
        """Whether the site of such a call can be seen from other processes while it is open."""


class ReentrancyGuard:
    """Whether a thread is inside of an outermost call of one level; so is each task of an event loop.

    The modules of a model call each other some hundred times a step, and only the outermost call is of
    interest. Rewritten code calls the guard, in C, for 10 ns a call: inside, a function runs as it was
    written.
    """

    def __init__(self, level: str) -> None:
        self.name = f"injector:({level})"
        """Under which builtins have what rewritten code calls: no legal identifier."""
        inside: ContextVar[bool] = ContextVar(self.name, default=False)
        self._get = inside.get
        self.set: Callable[[bool], object] = inside.set
        """Of the present task: for calls that lie on no stack."""

    def follow(self, stacks: Stacks) -> None:
        """A call is open where there is one on the stack of the present thread."""
        self._stacks = stacks
        vars(builtins)[self.name] = stacks.inside

    def include_tasks(self) -> None:
        """There are calls that lie on no stack, since each task has its own."""
        self._stacks.apart = self._get


class Calls:
    """The regions of one process, and the room for their spans."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._stacks: dict[str, Stacks] = {}
        self._guards: dict[str, ReentrancyGuard] = {}
        self._forget: list[Callable[[], None]] = []
        self._slots = count(1)
        self._pid = os.getpid()
        self._held: dict[int, int] = {}
        """By the number of a thread's stacks, the begin of the call in which a loop may go on."""
        self.loops: set[int] = set()
        """The sites of calls in which a loop goes on: they are not recorded, and what they call is."""

    def guard(self, level: str) -> ReentrancyGuard:
        """The guard that all regions of this level share."""
        known = self._guards.get(level)
        if known is None:
            known = self._guards[level] = ReentrancyGuard(level)
            known.follow(self.stacks(level))
        return known

    def stacks(self, level: str) -> Stacks:
        """The stacks that all regions of this level share."""
        known = self._stacks.get(level)
        if known is None:
            known = self._stacks[level] = Stacks(self._slot)
        return known

    def splitter(self, level: str) -> Callable[..., bool]:
        """A function to be called, with whatever, at each turn of a loop; it gives True.

        A call of ``level`` within which it is called twice holds the loop. It is recorded no longer, nor is
        any other of its site.
        """
        held = self._held

        def turn(*_: Any) -> bool:
            stacks = self.stacks(level)
            stack: Any = stacks.stack
            if stack:
                at = next((n for n in range(len(stack)) if stack[n][1] > 0), 0)
                call, site, start, _payload, mark = stack[at]
                if site > 0 and call.region == level and held.get(stacks.number) == start:
                    stack[at] = call, OUTSIDE, 0, 0, None
                    if mark is not None:
                        call.device.drop(mark)
                    self.loops.add(site)
                    self.forget()
                held[stacks.number] = start
            return True

        return turn

    def _slot(self) -> int:
        slot = next(self._slots)
        return slot if slot < OPEN else 0

    def forget(self) -> None:
        """An object has died: its identity may soon be another one's."""
        for forget in self._forget:
            forget()

    def renew(self) -> None:
        """In the child of a fork: what was open is the parent's, and so is the room. Once a process."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._stacks = {}
            self._held.clear()
            self.loops.clear()
            self._slots = count(1)
            for level, guard in self._guards.items():
                guard.set(False)
                guard.follow(self.stacks(level))
            self.room.renew()

    def hooks(self, point: Point, call: Call) -> SpanHooks:
        """The hooks of one region; ``point`` counts its calls."""
        made = SpanHooks(self, point, call)
        self._forget.append(made.forget)
        return made


class SpanHooks(compiled.Hooks):
    """What is called where the function of a region is entered and left."""

    def __init__(self, calls: Calls, point: Point, call: Call) -> None:
        device = call.device
        super().__init__(
            call,
            calls.stacks(call.level),
            calls.room.rows,
            calls.room.add,
            call.when,
            call.of,
            call.phase,
            call.payload,
            call.late_payload,
            call.near,
            device,
            None if device is None else device.clocks,
            call.most,
            call.outermost,
            call.watched,
            call.depends,
        )
        self._calls, self._point, self._call = calls, point, call
        self._guard = calls.guard(call.level) if call.outermost else None
        self._fired = False
        self._walks = False
        """Frames of ours lie between the hook and the function: its caller is searched for."""
        self._running: dict[int, Entry] = {}
        self._places: dict[tuple[object, ...], tuple[int, CodeType]] = {}
        point.read = lambda: self.fired
        point.renew = self.renew

    @property
    def by_variable(self) -> dict[str, Function]:
        """The hooks by what a probe asks for."""
        return {
            "#enter": self.enter,
            "#exit": self.leave,
            "#value": self.given,
            "#error": self.raised,
        }

    def forget(self) -> None:
        """Find every site anew."""
        super().forget()
        self._places = {}

    def renew(self) -> None:
        """In the child of a fork."""
        self._calls.renew()
        self.stacks = self._calls.stacks(self._call.level)
        self._running.clear()
        self.forget()

    def raised(self, error: Any) -> Any:
        """The hook on what it raises."""
        try:
            self._exchange(sys._getframe(1), lambda entry, _: self._otherwise(entry))
        except BaseException as mistake:
            failed(self._point, mistake)
        return error

    # What `enter` and `leave` call, when a call is not like the one before.

    def push(
        self, here: FrameType, stack: Any, of: Any, phase: Any, payload: int, rest: Any
    ) -> None:
        """Begin a call of which the site is to be found."""
        function, caller = hooked(here)
        if is_in_between(here):
            self._walks = True
            self.forget()
        if not self._fired:
            self._fired = True
            points.on_first(self._point)
        site = self._look(self._call.find_begun, caller, stack, of, phase, rest)
        if site in self._calls.loops:
            stack.append((self._call, OUTSIDE, 0, 0, None))
            return
        apart = is_generator(function)
        if self._guard is not None and apart and site >= 0:
            self._guard.set(True)
        mark = self._call.device.mark() if self._call.device is not None else None
        entry = (self._call, site, perf_counter_ns(), payload, mark)
        if apart:
            self._set_apart()
            self._running[id(function)] = entry
            return
        if self._call.watched:
            self._calls.room.opened[self.stacks.slot] = site
        stack.append(entry)

    def _set_apart(self) -> None:
        """The function is a generator: its spans do not nest."""
        self.apart = self._walks = True
        self.forget()
        if self._guard is not None:
            self._guard.include_tasks()

    def _look(
        self,
        find: Function,
        caller: FrameType | None,
        stack: Any,
        of: Any,
        phase: Any,
        rest: Any,
    ) -> int:
        if caller is None:
            return find(None, of, phase, rest)  # type: ignore[no-any-return]
        near = self._call.near(caller)
        at = near or caller
        code, lasti = at.f_code, at.f_lasti
        key = (find, id(code), lasti, id(of), phase, self.stacks.number)
        known = self._places.get(key)
        if known is None:
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            known = self._places[key] = (find(caller, of, phase, rest), code)
        self.far = self.far or near is not caller  # also where nothing of the program called
        if not self._walks and known[0] not in self._calls.loops:
            self.remember(code, lasti, of, phase, stack, known[0])
        return known[0]

    def skip(self, here: FrameType, stack: Any) -> None:
        """A call that does not count; of a generator, nothing is left to be found at its end."""
        if not is_generator(hooked(here)[0]):
            within = stack and stack[-1][1] >= 0
            stack.append((self._call, INSIDE if within else OUTSIDE, 0, 0, None))

    def refused(self, error: BaseException, here: FrameType, stack: Any, rest: Any) -> None:
        """One of the call's functions raised: record what the others give."""
        failed(self._point, error, here)
        try:
            self.push(here, stack, *self._answers(here, rest), rest)
        except BaseException as again:
            failed(self._point, again, here)
            stack.append((self._call, OUTSIDE, 0, 0, None))

    def _answers(self, here: FrameType, rest: Any) -> tuple[Any, Any, int]:
        known: list[Any] = []
        for function in (self._call.of, self._call.phase, self._call.payload):
            try:
                known.append(None if function is None else function(*rest))
            except BaseException as error:
                failed(self._point, error, here)
                known.append(None)
        return known[0], known[1], self._cleaned(known[2])

    def _cleaned(self, payload: Any) -> int:
        """A payload that fits into a row; 0 for None."""
        return min(max(int(payload or 0), 0), self._call.most)

    def left(self, here: FrameType, stack: Any, end: int) -> None:
        """A call has ended that is a generator's, or not on top of the stack."""
        call = self._call
        site, start, payload, mark = self._taken(here, stack)[1:]
        if self._guard is not None and self.apart and not (stack and stack[-1][1] >= 0):
            self._guard.set(False)
        if site > 0:
            self._calls.room.add(start, end, payload, site)
            if call.watched:
                self._calls.room.opened[self.stacks.slot] = stack[-1][1] if stack else 0
            if mark is not None:
                call.device.span(mark, start, site)

    def _taken(self, here: FrameType, stack: Any) -> Entry:
        """The entry of a call whose end has come, wherever it is kept."""
        outside = (self._call, OUTSIDE, 0, 0, None)
        function = hooked(here)[0] if self.apart else None
        if is_generator(function):
            return self._running.pop(id(function), outside)
        # What lies above the topmost of this region's own has never been left.
        for at in range(len(stack) - 1, -1, -1):
            if stack[at][0] is self._call:
                found: Entry = stack[at]
                while len(stack) > at:
                    stack.pop()
                return found
        return outside

    def answered(self, here: FrameType, result: Any, rest: Any) -> None:
        """The function returns ``result``, which tells what its call is."""
        self._exchange(here, lambda entry, caller: self._answered(entry, caller, result, rest))

    def mistaken(self, error: BaseException, here: FrameType) -> None:
        """Something was raised while a call ended."""
        failed(self._point, error, here)

    def _exchange(self, here: FrameType, new: Callable[[Entry, FrameType | None], Entry]) -> None:
        """Replace the entry of the call that ``here`` is in, if it is recorded."""
        function, caller = hooked(here)
        stack: Any = self.stacks.stack
        if self.apart and id(function) in self._running:
            self._running[id(function)] = new(self._running[id(function)], caller)
        elif stack and stack[-1][0] is self._call and stack[-1][1] > 0:
            stack[-1] = new(stack[-1], caller)

    def _answered(self, entry: Entry, caller: FrameType | None, result: Any, rest: Any) -> Entry:
        call, (_, site, start, known, mark) = self._call, entry
        if call.late_payload is not None:
            return call, site, start, self._cleaned(call.late_payload(result, *rest)), mark
        assert call.late is not None
        counts, of, phase, payload = call.late(result, rest)
        if not counts:
            return call, INSIDE, 0, 0, None
        if of is not MISSING:
            stack, every = self.stacks.stack, (result, *rest)
            site = self._look(call.find, caller, stack, of, phase, every)
        return call, site, start, known if payload is MISSING else self._cleaned(payload), mark

    def _otherwise(self, entry: Entry) -> Entry:
        call, (_, site, start, payload, mark) = self._call, entry
        found = site if call.raised is None else call.raised(site)
        if found > 0:
            return call, found, start, payload, mark
        if mark is not None:
            call.device.drop(mark)
        return call, INSIDE, 0, 0, None
