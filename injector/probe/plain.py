"""What runs at every event of a training step, in Python: where the extension ``_native`` is not compiled.

Each class and function here has a twin in C, of the same name, in ``native/``; both pass the same tests. This
one is the reference, and easier to read. It relies on the global interpreter lock just as the twin does:
where several threads might come by, it says why nothing can come in between.
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
    """Stores rows of four integers in memory that it is given; ``full(…)`` receives one that has no room."""

    def __init__(self, full: Callable[[int, int, int, int], None]) -> None:
        self._full = full
        self._view = _NO_ROOM
        self._index = 0
        self.opened = _NO_ROOM
        self.age = 0
        """Counts the forks that led to this process: numbers of sites are valid while it stays the same."""

    def put(self, start: int, end: int, payload: int, site: int) -> bool:
        """Store a row. Returns whether there was room. Raises OverflowError for a number of over 64 bits."""
        # These two lines give each thread a place of its own: the interpreter changes threads only in calls
        # and at the end of loops.
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
        """Store a row, or call ``full`` with it where it cannot be stored."""
        try:
            stored = self.put(start, end, payload, site)
        except OverflowError:
            stored = False
        if not stored:
            self._full(start, end, payload, site)

    def use(self, view: memoryview | None) -> None:
        """Store rows in ``view`` from now on; with None nowhere."""
        self._view, self._index = _NO_ROOM if view is None else view, 0

    def watch(self, view: memoryview) -> None:
        """Note the sites of open calls in ``view``, an int64 for each slot."""
        self.opened = view


class Stacks(_local):
    """The open calls of one level: a stack for each thread, of entries (owner, site, start, payload, mark).

    ``slot()`` gives the place in :attr:`Rows.opened` of each stack.
    """

    def __init__(self, slot: Callable[[], int]) -> None:
        self.stack: list[Entry] = []
        self.number = next(_numbers)
        self.slot = slot()
        self.apart: Callable[[], bool] | None = None
        """Says whether a call is open that is on no stack; None as long as there never was one."""

    def inside(self) -> bool:
        """Whether the present thread, or task, is inside of a call."""
        if self.stack and self.stack[-1][1] >= 0:
            return True
        return self.apart is not None and self.apart()


class Hooks:
    """The hooks of one region. The derived class (:class:`.calls.SpanHooks`) does what not every call needs.

    The arguments are those of a :class:`.calls.Call`, and what calls share. A call that is like the last one
    (from the same instruction, on the same object, in the same phase and thread) has the same site.
    """

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
        """Whether the nearest frame of interest is not the caller's; whether the function is a generator."""
        self._within: Entry = (call, 0, 0, 0, None)
        self._code: CodeType | None = None
        self._stack: list[Entry] | None = None
        self._lasti = self._of = self._site = 0
        self._phase: Any = None

    def remember(
        self, code: CodeType, lasti: int, of: Any, phase: Any, stack: list[Entry], site: int
    ) -> None:
        """Take ``site`` as that of calls like this one from now on."""
        self._code, self._lasti, self._of = code, lasti, id(of)
        self._phase, self._stack, self._site = phase, stack, site

    def forget(self) -> None:
        """Have the site found anew at the next call."""
        self._code = self._stack = None

    def enter(self, value: Any, *rest: Any) -> Any:
        """The hook where the function is entered."""
        # First of all: the functions called below take time as well, which for the caller is the region's.
        start = perf_counter_ns()
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
        """Whether a call is like the one that was remembered."""
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
        """Begin a call that is like the one that was remembered."""
        site = self._site
        if self.watched:
            self.rows.opened[self.stacks.slot] = site
        mark = self.device.mark() if self.has_device() else None
        stack.append((self.call, site, start, payload, mark))

    def has_device(self) -> bool:
        """Whether there may be a device to mark moments of."""
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
        """End the call of ``entry``, which was taken from the stack, at ``end`` in nanoseconds."""
        _owner, site, start, payload, mark = entry
        if site > 0:
            self.add(start, end, payload, site)
            if self.watched:
                self.rows.opened[self.stacks.slot] = stack[-1][1] if stack else 0
            if mark is not None:
                self.device.span(mark, start, site)

    # What the derived class does.

    def skip(self, here: FrameType, stack: list[Entry]) -> None:
        """Begin a call that does not count."""
        raise NotImplementedError

    def push(
        self, here: FrameType, stack: list[Entry], of: Any, phase: Any, payload: int, rest: Any
    ) -> None:
        """Begin a call that is not like the one that was remembered."""
        raise NotImplementedError

    def refused(
        self, problem: BaseException, here: FrameType, stack: list[Entry], rest: Any
    ) -> None:
        """Begin a call of which one of the region's functions raised ``problem``."""
        raise NotImplementedError

    def left(self, here: FrameType, stack: list[Entry], end: int) -> None:
        """End a call that is not on top of the stack."""
        raise NotImplementedError

    def answered(self, here: FrameType, result: Any, rest: Any) -> None:
        """Complete a call whose result tells more than the payload, or that is not on top of the stack."""
        raise NotImplementedError

    def mistaken(self, problem: BaseException, here: FrameType) -> None:
        """Report what was raised while a call ended."""
        raise NotImplementedError


class Turns:
    """Records the loop that a loader feeds. The derived class finds the sites, and deals with a stop.

    ``load(batch)`` gives the payload. ``plain`` and ``most`` are of use in C alone: whether that is the plain
    count of items, which C can do itself, and the most items that fit.
    """

    fetch = step = 0
    """The sites of its fetches and its steps; 0: not recorded."""

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
        # The instruction that has fetched last: hardly any loader is drawn from in two places.
        self._code: CodeType | None = None
        self._lasti = 0

    def fetched(self, start: int, end: int, batch: Any, frame: FrameType) -> None:
        """Record that ``frame`` has fetched a batch between ``start`` and ``end``, in nanoseconds."""
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
        """Record that the loop body for the batch has ended."""
        if self._rows_age == self._rows.age:  # else the body began before a fork
            self._put(start, end, self.step, sys._getframe(2))

    def _put(self, start: int, end: int, site: int, frame: FrameType) -> None:
        try:
            if site:
                self._add(start, end, self._payload, site)
        except BaseException as problem:
            self.stopped(problem, frame)

    def find(self, frame: FrameType) -> None:
        """Set the sites to those of the line at which ``frame`` fetches."""
        raise NotImplementedError

    def stopped(self, problem: BaseException, frame: FrameType) -> None:
        """Deal with what ``add`` raised: a stop, for one."""
        raise NotImplementedError


def Timed(iterator: Iterator[Any], listener: Any) -> Iterator[Any]:
    """Yield from ``iterator``, and call ``listener`` with each fetch and each loop body that it fed."""
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
        # Nothing comes back from a body that is left early (break, an exception): that is no whole step.
        yield batch
        listener.stepped(start, perf_counter_ns())


class Stored:
    """Stores numbers with their times in memory that it is given. ``number(value)`` makes one of a value."""

    def __init__(self, number: Function) -> None:
        self._number = number
        self._times: Any = _NO_ROOM
        self._values: Any = _NO_ROOM
        self._index = 0
        self.before = 0
        """How many values there were that are not in the memory in use."""

    @property
    def fired(self) -> int:
        """How many values there were so far."""
        return self.before + min(self._index, len(self._values))

    def hook(self, value: Any) -> Any:
        """Store ``value``, and return it."""
        self.take(value)
        return value

    def take(self, value: Any) -> None:
        """Store ``value``, or what ``number`` makes of it."""
        kind = type(value)
        try:
            if not (kind is float or kind is int or kind is bool):
                value = self._number(value)
            number = None if value is None else float(value)
        except BaseException as problem:
            self.before += 1
            self.failed(problem)
            return
        if number is None:
            self.before += 1
        elif not self.put(number):
            self.full(number)

    def put(self, number: float) -> bool:
        """Store a number. Returns whether there was room."""
        # As in `Rows.put`: each thread has a place of its own.
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
        """Store in these views of float64 from now on; with None nowhere."""
        self.before += min(self._index, len(self._values))
        self._times = _NO_ROOM if times is None else times
        self._values = _NO_ROOM if values is None else values
        self._index = 0

    def full(self, number: float) -> None:
        """Deal with a number for which there is no room."""
        raise NotImplementedError

    def failed(self, problem: BaseException) -> None:
        """Report what was raised while a number was made of a value."""
        raise NotImplementedError


def Computed(stored: Stored, get: Function, late: bool) -> Function:
    """Return a hook that stores ``get(*variables)``; if ``late``, ``get(value, *variables)``."""

    def hook(value: Any, *variables: Any) -> Any:
        try:
            number = get(value, *variables) if late else get(*variables)
        except BaseException as problem:
            stored.before += 1
            stored.failed(problem)
            return value
        if number is None:
            stored.before += 1
        else:
            stored.take(number)
        return value

    return hook


def Pair(low: Function, most_low: int, high: Function, most_high: int) -> Function:
    """Return a function that calls both for a number (None is 0), and returns ``low | high << bits``."""
    shift = most_low.bit_length()

    def both(*values: Any) -> int:
        low_number = min(max(int(low(*values) or 0), 0), most_low)
        return low_number | min(max(int(high(*values) or 0), 0), most_high) << shift

    return both


def Path(variable: int, name: str | None, item: int, truth: bool) -> Function:
    """Return a function of several variables that gives a part of one: an attribute, an item, or all of it.

    ``variable`` is the index of that one. An attribute ``name`` is read from its own ``__dict__``; ``item``
    is -1 for none. With ``truth``, the function only says whether the part is true.
    """

    def part(*values: Any) -> Any:
        part_of_it = values[variable]
        if name is not None:
            part_of_it = object.__getattribute__(part_of_it, "__dict__")[name]
        elif item >= 0:
            part_of_it = part_of_it[item]
        return bool(part_of_it) if truth else part_of_it

    return part


def Shortcut(way: str, function: Function, aside: dict[Any, Any]) -> Function:
    """Return ``function``: only in C there is a shorter way to what it returns."""
    return function


def know_tensors(*_: object) -> None:
    """Do nothing: tensors are read by PyTorch's Python."""


def Nearest(judge: Callable[[FrameType], bool], most: int) -> Function:
    """Return a function of a frame that gives the nearest one outwards for which ``judge(frame)`` is true.

    It gives None if there is none. ``judge`` depends on the code alone; ``most`` answers are kept.
    """
    # By address, with the code, so that this stays its own.
    known: dict[int, tuple[bool, CodeType]] = {}

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
    """Return False: calls of an object written in C cannot be seen from Python."""
    return False


def time_calls(function: object, kind: int) -> bool:
    """Return False: calls of a C function cannot be timed from Python."""
    return False


def record_waits(rows: object, near: object, find: object, failed: object, least: int) -> None:
    """Do nothing: no calls are timed, so that none can be recorded."""


def hear_lending(kind: type, begin: object, end: object) -> bool:
    """Return False: where objects of a type lend their memory cannot be seen from Python."""
    return False
