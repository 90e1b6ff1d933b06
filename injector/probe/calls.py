"""Hooks around calls: each call of a function becomes a span, with its site and payload.

A call is seen by two hooks, ``enter`` and ``leave``, and up to two more: ``given`` sees what it returns, and
``raised`` what it raises. The open calls of all regions of one level are on one stack in each thread
(:class:`.plain.Stacks`), each as an entry ``(owner, site, start, payload, mark)``. A site of 0 (INSIDE) is a
call that is not recorded, since it lies inside of another one; a site of -1 (OUTSIDE) is a call that does not
count at all, so that calls inside of it may.

What runs at every call is in C (:class:`.compiled.Hooks`; its twin in :mod:`.plain` is easier to read).
:class:`SpanHooks` derives from that and has what happens at the first call of its kind, and what is rare:
where the site has to be found, where a function raises, and calls of generators.

Generators are kept apart from the stacks. Their calls are suspended and resumed, in any order and in any
thread, and would not nest: the open calls of these are in a dictionary, by their frames.
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
    """The functions of one region that tell what is recorded of each call, and how calls are recorded."""

    def __init__(self, region: str, find: Function, near: Function) -> None:
        self.region = region
        self.near = near
        """``near(frame)`` is the nearest frame outwards whose line distinguishes this call from others."""
        self.find = find
        """``find(frame, of, phase, variables)`` is the number of the site; ``frame`` is the caller's."""
        self.find_begun = find
        """The same for the begin of a call, with the variables that are known then."""
        self.when: Function | None = None
        self.of: Function | None = None
        self.phase: Function | None = None
        self.payload: Function | None = None
        """These are called with the captured variables. A payload is a number, or None."""
        self.depends: tuple[Function, ...] | None = None
        """All that `when` and `phase` depend on beside `of`, which is a path then. In a call where all of
        these give the same objects as in an earlier one, neither is called."""
        self.late_payload: Function | None = None
        """Called with the result and the variables, where the result tells nothing but the payload."""
        self.late: Function | None = None
        """``late(result, variables)`` gives whether the call counts, ``of``, ``phase`` and the payload, with
        MISSING for what stays as it was."""
        self.counts: Function | None = None
        """Called with the result of a method and the variables, before any other of these functions."""
        self.raised: Callable[[int], int] | None = None
        """Gives the site of a call that ends with an exception, of the site it has; INSIDE: not recorded."""
        self.device: Any = None
        """Marks moments of a device (:class:`injector.measure.marks.Marks`), by ``mark()`` and
        ``span(begin, start, site)``. Its ``clocks`` is ``[None]`` once it is certain that there is none."""
        self.outermost = False
        self.level = region
        """Regions of one level share a stack, which ``outermost`` looks at."""
        self.most = (1 << 63) - 1
        """The largest payload."""
        self.watched = False
        """Whether other processes can see the site of a call while it is open."""


class ReentrancyGuard:
    """Says whether a thread, or a task of an event loop, is inside of an outermost call of one level.

    The modules of a model call each other some hundred times a step, and only the outermost call is of
    interest. Rewritten code calls the guard, which is in C and takes 10 ns, and where it says yes runs the
    function as it was written, without hooks.
    """

    def __init__(self, level: str) -> None:
        self.name = f"injector:({level})"
        """The guard's name in builtins, which is no legal identifier, so that no program has it."""
        inside: ContextVar[bool] = ContextVar(self.name, default=False)
        self._get = inside.get
        self.set: Callable[[bool], object] = inside.set
        """Sets whether the present task is inside of a call that is on no stack."""

    def follow(self, stacks: Stacks) -> None:
        """Have the guard say whether a call is open on the stack of the present thread."""
        self._stacks = stacks
        vars(builtins)[self.name] = stacks.inside

    def include_tasks(self) -> None:
        """Have the guard look at the present task as well: there are calls that are on no stack.

        Only from then on, since most programs have none, and reading a context variable costs time.
        """
        self._stacks.apart = self._get


class Calls:
    """What the regions of one process share: stacks and guards by level, and the room for their spans."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._stacks: dict[str, Stacks] = {}
        self._guards: dict[str, ReentrancyGuard] = {}
        self._forget: list[Callable[[], None]] = []
        self._slots = count(1)
        self._pid = os.getpid()
        self._loop_starts: dict[int, int] = {}
        """By the number of a stack, the start of the call in which a loop may have begun."""
        self.loops: set[int] = set()
        """The sites of calls that hold a whole loop: they are not recorded, and the calls in them are."""

    def guard(self, level: str) -> ReentrancyGuard:
        """Return the guard that all regions of this level share."""
        known = self._guards.get(level)
        if known is None:
            known = self._guards[level] = ReentrancyGuard(level)
            known.follow(self.stacks(level))
        return known

    def stacks(self, level: str) -> Stacks:
        """Return the stacks that all regions of this level share."""
        known = self._stacks.get(level)
        if known is None:
            known = self._stacks[level] = Stacks(self._slot)
        return known

    def splitter(self, level: str) -> Callable[..., bool]:
        """Return a function to be called, with any arguments, in each iteration of a loop. It returns True.

        A call of the region ``level`` within which it is called twice holds the loop. Neither that call nor
        any other of its site is recorded from then on.
        """
        loop_starts = self._loop_starts

        def turn(*_: Any) -> bool:
            stacks = self.stacks(level)
            stack: Any = stacks.stack
            if stack:
                # The outermost call that is recorded. Its start distinguishes it from earlier calls.
                at = next((n for n in range(len(stack)) if stack[n][1] > 0), 0)
                call, site, start, _payload, mark = stack[at]
                if site > 0 and call.region == level and loop_starts.get(stacks.number) == start:
                    stack[at] = call, OUTSIDE, 0, 0, None
                    if mark is not None:
                        call.device.drop(mark)
                    self.loops.add(site)
                    self.forget()
                loop_starts[stacks.number] = start
            return True

        return turn

    def _slot(self) -> int:
        """Return the place of another stack in ``room.opened``; 0 once there is none left."""
        slot = next(self._slots)
        return slot if slot < OPEN else 0

    def forget(self) -> None:
        """Have all hooks find their sites anew: an object has died, whose address another may take."""
        for forget in self._forget:
            forget()

    def renew(self) -> None:
        """Begin anew in the child of a fork: open calls and the room are the parent's. Once for a process."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._stacks = {}
            self._loop_starts.clear()
            self.loops.clear()
            self._slots = count(1)
            for level, guard in self._guards.items():
                guard.set(False)
                guard.follow(self.stacks(level))
            self.room.renew()

    def hooks(self, point: Point, call: Call) -> SpanHooks:
        """Return the hooks of one region; ``point`` counts its calls."""
        hooks = SpanHooks(self, point, call)
        self._forget.append(hooks.forget)
        return hooks


class SpanHooks(compiled.Hooks):
    """What rewritten code calls where the function of a region is entered and left.

    The base class, in C, does all that each call needs. It calls the methods here when a call is not like the
    one before.
    """

    def __init__(self, calls: Calls, point: Point, call: Call) -> None:
        device = call.device
        # By position: the base class in C has no names for its arguments. They are those of `plain.Hooks`.
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
        """Whether frames of ours lie between the hook and the function, whose caller is searched for then."""
        self._running: dict[int, Entry] = {}
        """The open calls of generators, by the addresses of their frames."""
        self._places: dict[tuple[object, ...], tuple[int, CodeType]] = {}
        """The sites found so far, by all that they depend on, with the code: its address is in the key."""
        point.read = lambda: self.fired
        point.renew = self.renew

    @property
    def by_variable(self) -> dict[str, Function]:
        """The hooks by the events that they are for."""
        return {
            "#enter": self.enter,
            "#exit": self.leave,
            "#value": self.given,
            "#error": self.raised,
        }

    def forget(self) -> None:
        """Find every site anew from now on."""
        super().forget()
        self._places = {}

    def renew(self) -> None:
        """Begin anew in the child of a fork."""
        self._calls.renew()
        self.stacks = self._calls.stacks(self._call.level)
        self._running.clear()
        self.forget()

    def raised(self, error: Any) -> Any:
        """The hook on what the function raises."""
        try:
            self._replace(sys._getframe(1), lambda entry, _: self._after_error(entry))
        except BaseException as mistake:
            failed(self._point, mistake)
        return error

    # What the base class calls, by these names. `here` is the frame that called the hook, `rest` are the
    # captured variables.

    def push(
        self, here: FrameType, stack: Any, of: Any, phase: Any, payload: int, rest: Any
    ) -> None:
        """Begin a call whose site has to be found."""
        function, caller = hooked(here)
        if is_in_between(here):
            self._walks = True
            self.forget()
        if not self._fired:
            self._fired = True
            points.on_first(self._point)
        site = self._find_site(self._call.find_begun, caller, stack, of, phase, rest)
        if site in self._calls.loops:
            stack.append((self._call, OUTSIDE, 0, 0, None))
            return
        apart = is_generator(function)
        if self._guard is not None and apart and site >= 0:
            self._guard.set(True)
        # Last of all, so that what was done here to find the site is no part of the call.
        mark = self._call.device.mark() if self._call.device is not None else None
        entry = (self._call, site, perf_counter_ns(), payload, mark)
        if apart:
            self._keep_apart()
            self._running[id(function)] = entry
            return
        if self._call.watched:
            self._calls.room.opened[self.stacks.slot] = site
        stack.append(entry)

    def _keep_apart(self) -> None:
        """Keep the calls of this function off the stacks from now on: it is a generator."""
        self.apart = self._walks = True
        self.forget()
        if self._guard is not None:
            self._guard.include_tasks()

    def _find_site(
        self, find: Function, caller: FrameType | None, stack: Any, of: Any, phase: Any, rest: Any
    ) -> int:
        """Return the number of the site, which ``find`` finds if no call was like this one.

        Has the base class remember it for the next call like this one.
        """
        if caller is None:
            return find(None, of, phase, rest)  # type: ignore[no-any-return]
        # The instruction of the program that led here, not the line: one line may hold two calls.
        near = self._call.near(caller)
        at = near or caller
        code, lasti = at.f_code, at.f_lasti
        key = (find, id(code), lasti, id(of), phase, self.stacks.number)
        known = self._places.get(key)
        if known is None:
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            known = self._places[key] = (find(caller, of, phase, rest), code)
        # Whether `enter` has to look for the frame of the program: from then on it does at each call. Also
        # where nothing of the program is among the callers.
        self.far = self.far or near is not caller
        if not self._walks and known[0] not in self._calls.loops:
            self.remember(code, lasti, of, phase, stack, known[0])
        return known[0]

    def skip(self, here: FrameType, stack: Any) -> None:
        """Begin a call that does not count. Of a generator nothing is kept, so that its end finds nothing."""
        if not is_generator(hooked(here)[0]):
            within = stack and stack[-1][1] >= 0
            stack.append((self._call, INSIDE if within else OUTSIDE, 0, 0, None))

    def refused(self, error: BaseException, here: FrameType, stack: Any, rest: Any) -> None:
        """Begin a call of which one of the region's functions raised: record what the others give."""
        failed(self._point, error, here)
        try:
            self.push(here, stack, *self._answers_of(here, rest), rest)
        except BaseException as again:
            failed(self._point, again, here)
            stack.append((self._call, OUTSIDE, 0, 0, None))

    def _answers_of(self, here: FrameType, rest: Any) -> tuple[Any, Any, int]:
        """Return ``of``, ``phase`` and the payload of a call; None or 0 for each whose function raises."""
        known: list[Any] = []
        for function in (self._call.of, self._call.phase, self._call.payload):
            try:
                known.append(None if function is None else function(*rest))
            except BaseException as error:
                failed(self._point, error, here)
                known.append(None)
        return known[0], known[1], self._clamped(known[2])

    def _clamped(self, payload: Any) -> int:
        """Return a payload that fits into a row; 0 for None."""
        return min(max(int(payload or 0), 0), self._call.most)

    def left(self, here: FrameType, stack: Any, end: int) -> None:
        """End a call that is a generator's, or is not on top of the stack."""
        call = self._call
        site, start, payload, mark = self._pop(here, stack)[1:]
        # The task is inside no longer, unless an outermost call is on the stack of its thread.
        if self._guard is not None and self.apart and not (stack and stack[-1][1] >= 0):
            self._guard.set(False)
        if site > 0:
            self._calls.room.add(start, end, payload, site)
            if call.watched:
                self._calls.room.opened[self.stacks.slot] = stack[-1][1] if stack else 0
            if mark is not None:
                call.device.span(mark, start, site)

    def _pop(self, here: FrameType, stack: Any) -> Entry:
        """Remove the entry of the call that ends, wherever it is kept, and return it."""
        outside = (self._call, OUTSIDE, 0, 0, None)
        function = hooked(here)[0] if self.apart else None
        if is_generator(function):
            return self._running.pop(id(function), outside)
        # Entries above the topmost one of this region are of calls whose ends were never seen.
        for at in range(len(stack) - 1, -1, -1):
            if stack[at][0] is self._call:
                entry: Entry = stack[at]
                while len(stack) > at:
                    stack.pop()
                return entry
        return outside

    def answered(self, here: FrameType, result: Any, rest: Any) -> None:
        """Complete the entry of a call by its ``result``."""
        self._replace(here, lambda entry, caller: self._completed(entry, caller, result, rest))

    def mistaken(self, error: BaseException, here: FrameType) -> None:
        """Report what was raised while a call ended."""
        failed(self._point, error, here)

    def _replace(self, here: FrameType, new: Callable[[Entry, FrameType | None], Entry]) -> None:
        """Replace the entry of the call in which ``here`` is by ``new(entry, caller)``, if it is recorded."""
        function, caller = hooked(here)
        stack: Any = self.stacks.stack
        if self.apart and id(function) in self._running:
            self._running[id(function)] = new(self._running[id(function)], caller)
        elif stack and stack[-1][0] is self._call and stack[-1][1] > 0:
            stack[-1] = new(stack[-1], caller)

    def _completed(self, entry: Entry, caller: FrameType | None, result: Any, rest: Any) -> Entry:
        """Return the entry of a call as its ``result`` completes it."""
        call, (_, site, start, known, mark) = self._call, entry
        if call.late_payload is not None:
            return call, site, start, self._clamped(call.late_payload(result, *rest)), mark
        assert call.late is not None
        counts, of, phase, payload = call.late(result, rest)
        if not counts:
            if mark is not None:
                call.device.drop(mark)
            return call, INSIDE, 0, 0, None
        if of is not MISSING:
            stack, every = self.stacks.stack, (result, *rest)
            site = self._find_site(call.find, caller, stack, of, phase, every)
        return call, site, start, known if payload is MISSING else self._clamped(payload), mark

    def _after_error(self, entry: Entry) -> Entry:
        """Return the entry of a call that ends with an exception."""
        call, (_, site, start, payload, mark) = self._call, entry
        new_site = site if call.raised is None else call.raised(site)
        if new_site > 0:
            return call, new_site, start, payload, mark
        if mark is not None:
            call.device.drop(mark)
        return call, INSIDE, 0, 0, None
