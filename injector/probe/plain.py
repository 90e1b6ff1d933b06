"""What runs between two steps of a training program, in Python: for where ``_native`` is not compiled.

Each class has its twin of the same name in ``native/``, which says why; both pass the same tests.
"""

from __future__ import annotations

import sys
from _thread import _local
from itertools import count
from struct import Struct, error
from time import monotonic, perf_counter_ns

from .delegate import Delegate as Delegate

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType
    from typing import Any

    Function = Callable[..., Any]
    Entry = tuple[object, int, int, int, Any]

ROW = 32
_NO_ROOM = memoryview(bytearray())
_pack = Struct("=4q").pack_into
_numbers = count(1)


class Rows:
    """Rows of four integers in memory that is given to it; ``full(…)`` gets one that has no room."""

    def __init__(self, full: Callable[[int, int, int, int], None]) -> None:
        self._full = full
        self._view = _NO_ROOM
        self._index = 0
        self.opened = _NO_ROOM
        self.age = 0
        """Sites are good for as long as this stays the same: until a fork."""

    def put(self, start: int, end: int, payload: int, site: int) -> bool:
        """Store a row; whether there was room. Raises OverflowError for what fits into no row."""
        # A place in the room as it is now: no other thread runs in these lines, there is no call.
        at = self._index
        self._index = at + ROW
        try:
            _pack(self._view, at, start, end, payload, site)
        except error as problem:
            if at + ROW > len(self._view):
                return False
            raise OverflowError(str(problem)) from None
        return True

    def add(self, start: int, end: int, payload: int, site: int) -> None:
        """Store a row; call ``full`` with one that cannot be."""
        try:
            stored = self.put(start, end, payload, site)
        except OverflowError:
            stored = False
        if not stored:
            self._full(start, end, payload, site)

    def use(self, view: memoryview | None) -> None:
        """Store rows there; nowhere with None."""
        self._view, self._index = _NO_ROOM if view is None else view, 0

    def watch(self, view: memoryview) -> None:
        """Note the sites of open calls there, int64 for each slot."""
        self.opened = view


class Stacks(_local):
    """The open calls of one level, a stack for each thread: (owner, site, start, payload, mark) each."""

    def __init__(self, slot: Callable[[], int]) -> None:
        self.stack: list[Entry] = []
        self.number = next(_numbers)
        self.slot = slot()
        self.apart: Callable[[], bool] | None = None
        """Whether a call is open that lies on no stack; None as long as there never was one."""

    def inside(self) -> bool:
        """Whether the present thread is in a call."""
        if self.stack and self.stack[-1][1] >= 0:
            return True
        return self.apart is not None and self.apart()


class Hooks:
    """The hooks of one region. What does not happen at every call is done by the derived class."""

    def __init__(
        self,
        call: Any,
        stacks: Stacks,
        rows: Rows,
        add: Callable[[int, int, int, int], None],
        when: Function | None,
        of: Function | None,
        phase: Function | None,
        payload: Function | None,
        late: Function | None,
        near: Function,
        device: Any,
        clocks: list[Any] | None,
        most: int,
        outermost: bool,
        watched: bool,
        depends: tuple[Any, ...] | None = None,
    ) -> None:
        self.call, self.stacks, self.rows, self.add = call, stacks, rows, add
        self.when, self.of, self.phase, self.payload, self.late = when, of, phase, payload, late
        self.near, self.device, self.clocks, self.most = near, device, clocks, most
        self.outermost, self.watched = outermost, watched
        self.fired = 0
        self.far = self.apart = False
        self._within: Entry = (call, 0, 0, 0, None)
        self._code: CodeType | None = None
        self._stack: list[Entry] | None = None
        self._lasti = self._of = self._site = 0
        self._phase: Any = None

    def remember(
        self, code: CodeType, lasti: int, of: Any, phase: Any, stack: list[Entry], site: int
    ) -> None:
        """The site of calls like this one."""
        self._code, self._lasti, self._of = code, lasti, id(of)
        self._phase, self._stack, self._site = phase, stack, site

    def forget(self) -> None:
        """Ask anew at the next call."""
        self._code = self._stack = None

    def enter(self, value: Any, *rest: Any) -> Any:
        """The hook where the function is entered."""
        start = (
            perf_counter_ns()
        )  # the functions below are a part of the region, as its caller sees it
        self.fired += 1
        stack = self.stacks.stack
        if self.outermost and stack and stack[-1][1] >= 0:
            stack.append(self._within)
            return value
        try:
            if self.when is not None and not self.when(*rest):
                self.skip(sys._getframe(1), stack)
                return value
            of = None if self.of is None else self.of(*rest)
            phase = None if self.phase is None else self.phase(*rest)
            payload = 0 if self.payload is None else self.payload(*rest)
            if type(payload) is not int or not 0 <= payload <= self.most:
                payload = min(max(int(payload or 0), 0), self.most)
            if self._is_known(sys._getframe(1).f_back, stack, of, phase):
                self._begin(stack, start, payload)
            else:
                self.push(sys._getframe(1), stack, of, phase, payload, rest)
        except BaseException as problem:
            self.refused(problem, sys._getframe(1), stack, rest)
        return value

    def _is_known(self, caller: FrameType | None, stack: list[Entry], of: Any, phase: Any) -> bool:
        if caller is not None and self.far:
            caller = self.near(caller) or caller
        return (
            caller is not None
            and caller.f_lasti == self._lasti
            and caller.f_code is self._code
            and id(of) == self._of
            and phase == self._phase
            and stack is self._stack
        )

    def _begin(self, stack: list[Entry], start: int, payload: int) -> None:
        site = self._site
        if self.watched:
            self.rows.opened[self.stacks.slot] = site
        mark = self.device.mark() if self.has_device() else None
        stack.append((self.call, site, start, payload, mark))

    def has_device(self) -> bool:
        """Whether there may be moments of a device to mark."""
        return self.device is not None and self.clocks != [None]

    def leave(self, value: Any, *_: Any) -> Any:
        """The hook where the function is left."""
        end = perf_counter_ns()
        try:
            stack = self.stacks.stack
            if self.apart or not stack or stack[-1][0] is not self.call:
                self.left(sys._getframe(1), stack, end)
            else:
                self.end(stack.pop(), stack, end)
        except BaseException as problem:
            self.mistaken(problem, sys._getframe(1))
        return value

    def given(self, result: Any, *rest: Any) -> Any:
        """The hook on what the function returns."""
        stack = self.stacks.stack
        try:
            if self.late is None or self.apart or not stack or stack[-1][0] is not self.call:
                self.answered(sys._getframe(1), result, rest)
            elif stack[-1][1] > 0:
                depth = len(stack)
                payload = min(max(int(self.late(result, *rest) or 0), 0), self.most)
                if len(stack) == depth:  # `late` may have exchanged the stack
                    owner, site, start, _, mark = stack[-1]
                    stack[-1] = owner, site, start, payload, mark
        except BaseException as problem:
            self.mistaken(problem, sys._getframe(1))
        return result

    def end(self, entry: Entry, stack: list[Entry], end: int) -> None:
        """The call of ``entry``, which is on the stack no more, has ended."""
        _owner, site, start, payload, mark = entry
        if site > 0:
            self.add(start, end, payload, site)
            if self.watched:
                self.rows.opened[self.stacks.slot] = stack[-1][1] if stack else 0
            if mark is not None:
                self.device.span(mark, start, site)

    # The derived class has these.

    def skip(self, here: FrameType, stack: list[Entry]) -> None:
        """The call does not count."""
        raise NotImplementedError

    def push(
        self, here: FrameType, stack: list[Entry], of: Any, phase: Any, payload: int, rest: Any
    ) -> None:
        """Begin a call that is made elsewhere than the one before."""
        raise NotImplementedError

    def refused(
        self, problem: BaseException, here: FrameType, stack: list[Entry], rest: Any
    ) -> None:
        """An answer could not be had."""
        raise NotImplementedError

    def left(self, here: FrameType, stack: list[Entry], end: int) -> None:
        """A call ends that is not on top of the stack."""
        raise NotImplementedError

    def answered(self, here: FrameType, result: Any, rest: Any) -> None:
        """The result tells more of the call than its payload, or the call is not on top of the stack."""
        raise NotImplementedError

    def mistaken(self, problem: BaseException, here: FrameType) -> None:
        """Something was raised while a call ended."""
        raise NotImplementedError


class Turns:
    """The loop that a loader feeds. The derived class finds the sites, and ``stopped`` what ends it."""

    fetch = step = 0
    """The sites of its fetches and its turns; 0: not recorded."""

    def __init__(
        self,
        rows: Rows,
        add: Callable[[int, int, int, int], None],
        load: Callable[[Any], int],
        plain: bool,
        most: int,
    ) -> None:
        self._rows, self._add, self._load = rows, add, load
        self._rows_age = self._payload = 0
        # Where the loop is, that drew last: hardly any loader is drawn from in two places.
        self._code: CodeType | None = None
        self._lasti = 0

    def fetched(self, start: int, end: int, batch: Any, frame: FrameType) -> None:
        """A batch was drawn by ``frame``; ``start`` and ``end`` are nanoseconds."""
        if (
            frame.f_lasti != self._lasti
            or frame.f_code is not self._code
            or self._rows_age != self._rows.age
        ):
            self._rows_age = self._rows.age
            self.find(frame)
            self._code, self._lasti = frame.f_code, frame.f_lasti
        self._payload = self._load(batch)
        self._put(start, end, self.fetch, frame)

    def stepped(self, start: int, end: int) -> None:
        """The body that the batch was for has ended."""
        if self._rows_age == self._rows.age:  # else it began before a fork
            self._put(start, end, self.step, sys._getframe(2))

    def _put(self, start: int, end: int, site: int, frame: FrameType) -> None:
        try:
            if site:
                self._add(start, end, self._payload, site)
        except BaseException as problem:
            self.stopped(problem, frame)

    def find(self, frame: FrameType) -> None:
        """Set the sites to those of what ``frame`` draws and does."""
        raise NotImplementedError

    def stopped(self, problem: BaseException, frame: FrameType) -> None:
        """``add`` raised."""
        raise NotImplementedError


def Timed(iterator: Iterator[Any], listener: Any) -> Iterator[Any]:
    """Yield from ``iterator``; tell of each fetch and of the loop body that it fed."""
    while True:
        start = perf_counter_ns()
        try:
            batch = next(iterator)
        except BaseException as problem:
            listener.ended(start, perf_counter_ns(), sys._getframe(1))
            if isinstance(problem, StopIteration):
                return
            raise
        listener.fetched(start, perf_counter_ns(), batch, sys._getframe(1))
        # A body that is left early (break, an exception) was no whole step and is left out.
        yield batch
        listener.stepped(start, perf_counter_ns())


class Stored:
    """Numbers with their times, in memory that is given to it."""

    def __init__(self, number: Function) -> None:
        self._number = number
        self._times: Any = _NO_ROOM
        self._values: Any = _NO_ROOM
        self._index = 0
        self.before = 0
        """Values that are not in the memory in use."""

    @property
    def fired(self) -> int:
        """Values so far."""
        return self.before + min(self._index, len(self._values))

    def hook(self, value: Any) -> Any:
        """Store ``value``, which is given back."""
        self.take(value)
        return value

    def take(self, value: Any) -> None:
        """Store ``value``, or what ``number`` makes of it."""
        kind = type(value)
        try:
            if not (kind is float or kind is int or kind is bool):
                value = self._number(value)
            found = None if value is None else float(value)
        except BaseException as problem:
            self.before += 1
            self.failed(problem)
            return
        if found is None:
            self.before += 1
        elif not self.put(found):
            self.full(found)

    def put(self, number: float) -> bool:
        """Store a number; whether there was room."""
        # A place in the room as it is now: no other thread runs in these lines, there is no call.
        at = self._index
        self._index = at + 1
        values, times = self._values, self._times
        try:
            values[at] = number
            times[at] = monotonic()
        except IndexError:
            return False
        return True

    def use(self, times: Any, values: Any) -> None:
        """Store in these views of float64; nowhere with None."""
        self.before += min(self._index, len(self._values))
        self._times = _NO_ROOM if times is None else times
        self._values = _NO_ROOM if values is None else values
        self._index = 0

    def full(self, number: float) -> None:
        """There is no room."""
        raise NotImplementedError

    def failed(self, problem: BaseException) -> None:
        """There is no number of it."""
        raise NotImplementedError


def Computed(stored: Stored, get: Function, late: bool) -> Function:
    """A hook that stores ``get(*variables)``, or if ``late`` ``get(value, *variables)``; None is no value."""

    def hook(value: Any, *variables: Any) -> Any:
        try:
            found = get(value, *variables) if late else get(*variables)
        except BaseException as problem:
            stored.before += 1
            stored.failed(problem)
            return value
        if found is None:
            stored.before += 1
        else:
            stored.take(found)
        return value

    return hook


def Pair(low: Function, most_low: int, high: Function, most_high: int) -> Function:
    """Called, it asks both for a number (None is 0), and gives ``low | high << bits``."""
    shift = most_low.bit_length()

    def both(*values: Any) -> int:
        one = min(max(int(low(*values) or 0), 0), most_low)
        return one | min(max(int(high(*values) or 0), 0), most_high) << shift

    return both


def Path(variable: int, name: str | None, item: int, truth: bool) -> Function:
    """Called with variables, it gives a part of one of them: an attribute of its own, an item, or all.

    ``item`` is -1 where none is wanted; with ``truth`` it gives only whether that is true.
    """

    def part(*values: Any) -> Any:
        found = values[variable]
        if name is not None:
            found = object.__getattribute__(found, "__dict__")[name]
        elif item >= 0:
            found = found[item]
        return bool(found) if truth else found

    return part


def Shortcut(way: str, function: Function, aside: dict[Any, Any]) -> Function:
    """``function``: a shorter way to what it gives there is in C only."""
    return function


def know_tensors(*_: object) -> None:
    """Tensors are read by PyTorch's Python."""


def Nearest(judge: Callable[[FrameType], bool], most: int) -> Function:
    """Called with a frame, it gives the nearest that ``judge(frame)`` is true of, from there on outwards.

    None if there is none. What is known of ``most`` codes is kept.
    """
    known: dict[int, tuple[bool, CodeType]] = {}  # by identity, which has to stay theirs

    def nearest(frame: FrameType | None) -> FrameType | None:
        while frame is not None:
            code = frame.f_code
            found = known.get(id(code))
            if found is None:
                if len(known) >= most:
                    known.clear()
                found = known[id(code)] = judge(frame), code
            if found[0]:
                return frame
            frame = frame.f_back
        return None

    return nearest


def hear_calls(thing: object, begin: object, end: object) -> bool:
    """Hear of the calls of an object that is written in C: that cannot be done in Python."""
    return False


def time_calls(function: object, kind: int) -> bool:
    """Measure the calls of a C function, from wherever: that cannot be done in Python."""
    return False


def record_waits(rows: object, near: object, find: object, failed: object, least: int) -> None:
    """Record those that take long: there are none."""


def hear_lending(kind: type, begin: object, end: object) -> bool:
    """Nothing of Python hears where objects of a type lend their memory."""
    return False
