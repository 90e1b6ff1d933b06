"""Hooks around calls: each call of a function becomes a span, with what is known of it.

A call is two hooks, ``enter`` and ``leave``, and up to two more: ``given`` sees what it returns,
``raised`` that it raises. All regions of one name share a stack in each thread; what stands on it is
``(owner, site, start, payload, mark)``. A site of 0 is a call that is not recorded, since it lies
inside of another one; a site of -1 is one that does not count at all.
"""

from __future__ import annotations

import os
import sys
from _thread import _local
from itertools import count
from time import perf_counter_ns

from . import points
from .frames import hooked, is_generator, is_ours
from .gates import Gate
from .points import MISSING, Point, failed
from .room import OPEN

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

    from .room import Room

    Function = Callable[..., Any]
    Entry = tuple[object, int, int, int, Any]

INSIDE, OUTSIDE = 0, -1
_MOST_PLACES = 10_000
_numbers = count(1)


class Stacks(_local):
    """The open spans of one region: a stack for each thread, a number for each stack, and a place
    where the site of its topmost call can be seen from outside."""

    def __init__(self, slot: Callable[[], int]) -> None:
        self.stack: list[Entry] = []
        self.number = next(_numbers)
        self.slot = slot()


class Call:
    """What is asked about each call of a region, and who answers."""

    def __init__(self, region: str, find: Function, near: Function) -> None:
        self.region = region
        self.near = near
        """``near(frame)``: from ``frame`` on, the first whose line tells one call from another."""
        self.find = find
        """``find(frame, of, phase, variables)``: the number of the site; ``frame`` is the caller's."""
        self.when: Function | None = None
        self.of: Function | None = None
        self.phase: Function | None = None
        self.payload: Function | None = None
        """These are called with the captured variables. A payload is a number, or None."""
        self.late_payload: Function | None = None
        """Called with the result and the variables, where that is all the result is asked for."""
        self.late: Function | None = None
        """``late(result, variables)``: whether it counts, of, phase, payload; MISSING: as it was."""
        self.counts: Function | None = None
        """Called with the result of a method and the variables, before anything else is asked."""
        self.raised: Callable[[int], int] | None = None
        """The site, in place of this one, of a call that ends with an exception."""
        self.device: Any = None
        """Marks moments of a device: ``mark()``, ``span(begin, payload, site)``."""
        self.outermost = False
        self.level = region
        """Regions of one level share a stack: ``outermost`` is about all of them."""
        self.most = (1 << 63) - 1
        """The largest payload."""
        self.watched = False
        """Whether somebody else can see that such a call is open. It costs 120 ns a call."""


class Calls:
    """The regions of one process, and the room for their spans."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._stacks: dict[str, Stacks] = {}
        self._gates: dict[str, Gate] = {}
        self._forget: list[Callable[[], None]] = []
        self._reopen: list[Callable[[], None]] = []
        self._slots = count(1)
        self._pid = os.getpid()
        room.on_open = self._opened

    def gate(self, level: str) -> Gate:
        """The gate that all regions of this level share."""
        known = self._gates.get(level)
        if known is None:
            known = self._gates[level] = Gate(level)
        return known

    def stacks(self, level: str) -> Stacks:
        """The stacks that all regions of this level share."""
        return self._stacks.setdefault(level, Stacks(self._slot))

    def _slot(self) -> int:
        slot = next(self._slots)
        return slot if slot < OPEN else 0

    def _opened(self) -> None:
        for reopen in self._reopen:
            reopen()

    def forget(self) -> None:
        """An object has died: its identity may soon be another one's."""
        for forget in self._forget:
            forget()

    def renew(self) -> None:
        """In the child of a fork: what was open is the parent's, and so is the room. Once a process."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._stacks = {}
            self._slots = count(1)
            for gate in self._gates.values():
                gate.set(False)
            self.room.renew()

    def hooks(self, point: Point, call: Call) -> Hooks:
        """The hooks of one region; ``point`` counts its calls."""
        made = _hooks(self, point, call)
        self._forget.append(made.forget)
        self._reopen.append(made.reopen)
        return made


class Hooks:
    """What is called where the function of a region is entered and left."""

    def __init__(
        self,
        enter: Function,
        leave: Function,
        given: Function,
        raised: Function,
        forget: Callable[[], None],
        reopen: Callable[[], None],
    ) -> None:
        self.by_variable = {"#enter": enter, "#exit": leave, "#value": given, "#error": raised}
        self.forget = forget
        self.reopen = reopen


def _hooks(calls: Calls, point: Point, call: Call) -> Hooks:
    me = call
    inside: Entry = (me, INSIDE, 0, 0, None)
    outside: Entry = (me, OUTSIDE, 0, 0, None)
    find, near, outermost, device = call.find, call.near, call.outermost, call.device
    most, late_payload, watched = call.most, call.late_payload, call.watched
    when, get_of, get_phase, get_payload = call.when, call.of, call.phase, call.payload
    simple = not (outermost or device or when or get_of or get_phase or get_payload)
    add, opened = calls.room.add, calls.room.opened
    clock, getframe = perf_counter_ns, sys._getframe
    local = calls.stacks(call.level)
    inside_now = calls.gate(call.level).set if outermost else None
    fired = 0
    told = False
    far = False  # a library calls: what tells calls from each other is a frame further out
    walks = (
        False  # frames of ours lie between the hook and the function: its caller is searched for
    )
    apart = False  # the function is a generator, whose span does not nest
    running: dict[int, Entry] = {}
    places: dict[tuple[object, ...], tuple[int, CodeType]] = {}
    last_code: CodeType | None = None
    last_lasti = last_of = last_site = last_slot = 0
    last_phase: Any = None
    last_stack: list[Entry] | None = None

    def enter_simply(value: Any, *rest: Any) -> Any:
        nonlocal fired
        fired += 1
        try:
            stack = local.stack
            frame = getframe(2)
            if far:
                frame = near(frame) or frame
            if frame.f_lasti == last_lasti and frame.f_code is last_code and stack is last_stack:
                if watched:
                    opened[last_slot] = last_site
                stack.append((me, last_site, clock(), 0, None))
            else:
                push(getframe(1), stack, None, None, 0, rest)
        except ValueError:  # nobody calls what a thread begins with
            push(getframe(1), local.stack, None, None, 0, rest)
        except BaseException as error:
            failed(point, error)
        return value

    def enter(value: Any, *rest: Any) -> Any:
        nonlocal fired
        fired += 1
        stack = local.stack
        if outermost and stack and stack[-1][1] >= 0:
            stack.append(inside)
            return value
        try:
            if when is not None and not when(*rest):
                skip(stack, getframe(1))
                return value
            of = None if get_of is None else get_of(*rest)
            phase = None if get_phase is None else get_phase(*rest)
            payload = 0 if get_payload is None else get_payload(*rest)
            if type(payload) is not int or not 0 <= payload <= most:
                payload = cleaned(payload)
            try:
                frame = getframe(2)
                if far:
                    frame = near(frame) or frame
            except ValueError:  # nobody calls what a thread begins with
                push(getframe(1), stack, of, phase, payload, rest)
                return value
            if (
                frame.f_lasti == last_lasti
                and frame.f_code is last_code
                and id(of) == last_of
                and phase == last_phase
                and stack is last_stack
            ):
                if inside_now is not None and last_site >= 0:
                    inside_now(True)
                if watched:
                    opened[last_slot] = last_site
                mark = None if device is None else device.mark()
                stack.append((me, last_site, clock(), payload, mark))
            else:
                push(getframe(1), stack, of, phase, payload, rest)
        except BaseException as error:
            failed(point, error)
            try:
                push(getframe(1), stack, *answers(getframe(1), rest), rest)
            except BaseException as again:
                failed(point, again)
                stack.append(outside)
        return value

    def leave(value: Any, *_: Any) -> Any:
        end = clock()
        try:
            stack = local.stack
            entry = take(getframe(1), stack) if apart or not stack else stack.pop()
            if entry[0] is not me:
                entry = unwind(stack, entry)
            _owner, site, start, payload, mark = entry
            if inside_now is not None and not (stack and stack[-1][1] >= 0):
                inside_now(False)
            if site > 0:
                add(start, end, payload, site)
                if watched:
                    slot = last_slot if stack is last_stack else local.slot
                    opened[slot] = stack[-1][1] if stack else 0
                if mark is not None:
                    device.span(mark, payload, site)
        except BaseException as error:
            failed(point, error)
        return value

    def given(result: Any, *rest: Any) -> Any:
        try:
            if late_payload is not None and not apart:
                stack = local.stack
                if stack and stack[-1][0] is me and stack[-1][1] > 0:
                    payload = late_payload(result, *rest)
                    if type(payload) is not int or not 0 <= payload <= most:
                        payload = cleaned(payload)
                    _, site, start, _, mark = stack[-1]
                    stack[-1] = (me, site, start, payload, mark)
            else:
                exchange(getframe(1), lambda entry, caller: answered(entry, caller, result, rest))
        except BaseException as error:
            failed(point, error)
        return result

    def raised(error: Any) -> Any:
        try:
            exchange(getframe(1), lambda entry, _: otherwise(entry))
        except BaseException as mistake:
            failed(point, mistake)
        return error

    # What follows is not called for every span.

    def push(
        here: FrameType, stack: list[Entry], of: Any, phase: Any, payload: int, rest: Any
    ) -> None:
        nonlocal walks, apart, told
        function, caller = hooked(here)
        if is_ours(here):
            walks = True
            forget()
        if not told:
            told = True
            points.on_first(point)
        site = look(caller, stack, of, phase, rest)
        if inside_now is not None and site >= 0:
            inside_now(True)
        mark = None if device is None else device.mark()
        entry = (me, site, clock(), payload, mark)
        if is_generator(function):
            apart = walks = True
            forget()
            running[id(function)] = entry
        else:
            if watched:
                opened[local.slot] = site
            stack.append(entry)

    def look(caller: FrameType | None, stack: list[Entry], of: Any, phase: Any, rest: Any) -> int:
        nonlocal last_code, last_lasti, last_of, last_phase, last_stack, last_site, last_slot, far
        if caller is None:
            return find(None, of, phase, rest)  # type: ignore[no-any-return]
        at = near(caller) or caller
        code, lasti, same = at.f_code, at.f_lasti, id(of)
        key = (id(code), lasti, same, phase, local.number)
        known = places.get(key)
        if known is None:
            if len(places) >= _MOST_PLACES:
                places.clear()
            known = places[key] = (find(caller, of, phase, rest), code)
        far = far or at is not caller
        if not walks:  # in these lines no other thread runs: there is no call
            last_code, last_lasti, last_of = code, lasti, same
            last_phase, last_stack, last_site, last_slot = phase, stack, known[0], local.slot
        return known[0]

    def skip(stack: list[Entry], here: FrameType) -> None:
        """A call that does not count; of a generator, nothing is left to be found at its end."""
        if not is_generator(hooked(here)[0]):
            stack.append(inside if stack and stack[-1][1] >= 0 else outside)

    def answers(here: FrameType, rest: Any) -> tuple[Any, Any, int]:
        """What can be known although one of the functions that were asked raised."""
        known: list[Any] = []
        for function in (get_of, get_phase, get_payload):
            try:
                known.append(None if function is None else function(*rest))
            except BaseException as error:
                failed(point, error, here)
                known.append(None)
        return known[0], known[1], cleaned(known[2])

    def cleaned(payload: Any) -> int:
        """A payload that fits into a row; 0 for None."""
        return min(max(int(payload or 0), 0), most)

    def take(here: FrameType, stack: list[Entry]) -> Entry:
        """The entry of a call whose end has come, wherever it is kept."""
        function = hooked(here)[0] if apart else None
        if is_generator(function):
            return running.pop(id(function), outside)
        return stack.pop() if stack else outside

    def unwind(stack: list[Entry], entry: Entry) -> Entry:
        """The topmost of this region's own entries; what lies above it has never been left."""
        stack.append(entry)
        for at in range(len(stack) - 1, -1, -1):
            if stack[at][0] is me:
                found = stack[at]
                del stack[at:]
                return found
        return outside

    def exchange(here: FrameType, new: Callable[[Entry, FrameType | None], Entry]) -> None:
        """Replace the entry of the call that ``here`` is in, if it is recorded."""
        function, caller = hooked(here)
        stack = local.stack
        if apart and id(function) in running:
            running[id(function)] = new(running[id(function)], caller)
        elif stack and stack[-1][0] is me and stack[-1][1] > 0:
            stack[-1] = new(stack[-1], caller)

    def answered(entry: Entry, caller: FrameType | None, result: Any, rest: Any) -> Entry:
        _, site, start, known, mark = entry
        if late_payload is not None:
            return me, site, start, cleaned(late_payload(result, *rest)), mark
        assert call.late is not None
        counts, of, phase, payload = call.late(result, rest)
        if not counts:
            return inside
        if of is not MISSING:
            site = look(caller, local.stack, of, phase, (result, *rest))
        return me, site, start, known if payload is MISSING else cleaned(payload), mark

    def otherwise(entry: Entry) -> Entry:
        _, site, start, payload, mark = entry
        return me, site if call.raised is None else call.raised(site), start, payload, mark

    def forget() -> None:
        nonlocal last_code, last_stack
        last_code = last_stack = None
        places.clear()

    def reopen() -> None:
        nonlocal opened
        opened = calls.room.opened

    def renew() -> None:
        nonlocal local
        calls.renew()
        local = calls.stacks(call.level)
        running.clear()
        forget()

    point.read = lambda: fired
    point.renew = renew
    return Hooks(enter_simply if simple else enter, leave, given, raised, forget, reopen)
