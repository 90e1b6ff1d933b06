"""Hooks at calls of methods: ``a.to(x)`` was rewritten to ``given(about(a.to)(x))``.

Which object ``a`` is, and whether it has such a method, is only known when the call is made; so the call is
rewritten, not the method. ``about`` returns the method itself, or a stand-in for it where the call counts
(:class:`Timed`). CPython looks ``__call__`` up as a descriptor, which in the stand-in is a property: it notes
the time and returns the method, which the interpreter then calls. So no frame of ours is on the stack while
the method runs, neither in a traceback nor for ``warnings`` (``tests/measure/test_method_regions.py``).

``given`` ends the call and passes the result on. Where the method raises, it is never called: then the next
call finds that the one before was left open.
"""

from __future__ import annotations

import sys
from _operator import itemgetter
from _thread import _local
from time import perf_counter_ns

from . import points
from .points import Point, failed

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

    from .calls import Call, Calls
    from .compiled import Stacks

    Hook = Callable[[Any], Any]

_BUILTIN: Any = type(len)
_METHOD: Any = type((lambda _: None).__get__(0))
_MOST_PLACES = 10_000

_published: dict[str, list[tuple[str, Hook, Hook]]] = {}
"""By method, each point with its hooks before the call and after it."""


class Timed(tuple):  # type: ignore[type-arg]
    """Stands for a bound method until it is called, which is at once. Its ``func`` is the method."""

    # A tuple is created in C. So is a partial, but a partial of a partial takes the function out of that one:
    # the stand-in of another point would be skipped.
    __slots__ = ()
    func = property(itemgetter(0))

    @property
    def __self__(self) -> Any:
        return self.func.__self__


class _Open(_local):
    """The call that a thread has open: its start, a mark of the device, the object whose method it is."""

    now: tuple[int, Any, Any] | None = None


class MethodHooks:
    """What is called before each call of a method, and after it."""

    def __init__(self, about: Hook, given: Hook) -> None:
        self.about = about
        self.given = given


def publish_method(method: str, name: str, point: Point, hooks: MethodHooks) -> None:
    """Put the hooks of a point into builtins, under the ``name`` that rewritten code calls for ``method``."""
    points.defined[point.name] = point
    _published.setdefault(method, []).append((point.name, hooks.about, hooks.given))
    points.on_undefine[point.name] = lambda: _withdraw(method, name, point)
    _combine(method, name)


def _withdraw(method: str, name: str, point: Point) -> None:
    """Take the hooks of one point out of those of a method."""
    _published[method] = [each for each in _published[method] if each[0] != point.name]
    _combine(method, name)


def _combine(method: str, name: str) -> None:
    """Publish the hooks of all points of a method as one.

    Each point may put a stand-in around that of the point before. Calling the outer one calls the inner one.
    """
    abouts = [about for _, about, _ in _published[method]]
    givens = [given for _, _, given in _published[method]]
    points.define_raw(name, _chain(abouts))
    points.define_raw(name + "=", _chain(givens))


def _chain(hooks: list[Hook]) -> Hook:
    if len(hooks) == 1:
        return hooks[0]

    # Of no hooks at all, this returns its argument.
    def all_hooks(value: Any) -> Any:
        for hook in hooks:
            value = hook(value)
        return value

    return all_hooks


def method_hooks(
    calls: Calls, point: Point, call: Call, early: bool, late: bool, keeps: bool
) -> MethodHooks:
    """Return the hooks of one region; ``point`` counts its calls.

    The functions of ``call`` that need no result are called with the subject, the object whose method it is,
    if ``early``, else without arguments. Those that need the result are called with it, and with the subject
    as well if ``late``. ``keeps`` says that a function other than ``call.when`` is called with the subject.

    The hooks are closures, not methods: they run at every call of any method of that name, and reading a
    variable of a closure costs less than an attribute.
    """
    record = _Recorder(calls, point, call, early, late)
    outermost, device, now_ns, getframe = (
        call.outermost,
        call.device,
        perf_counter_ns,
        sys._getframe,
    )
    when = call.when if early or call.when is None else _without_subject(call.when)
    counts = call.counts if late or call.counts is None else _of_result(call.counts)
    local, opened = calls.stacks(call.level), _Open()
    fired = 0
    # While these are equal, no thread has a call open: a test without thread-local storage, which is all that
    # the calls cost that do not count.
    begun = ended = 0

    def about(method: Any) -> Any:
        nonlocal fired, ended
        fired += 1
        kind = type(method)
        try:
            if (
                kind is _BUILTIN or kind is _METHOD or issubclass(kind, Timed)  # another point's
            ) and (when is None or when(method.__self__)):
                stack = local.stack
                if not (outermost and stack and stack[-1][1] >= 0):
                    return Begun((method,))
            # A call of this thread that is still open has raised, or `given` would have closed it.
            if begun != ended and opened.now is not None:
                opened.now = None
                ended += 1
        except BaseException as error:
            failed(point, error)
        return method

    def begin(timed: Timed) -> Any:
        nonlocal begun
        method = timed.func
        try:
            mark = None if device is None else device.mark()
            if opened.now is None:
                begun += 1
            opened.now = (now_ns(), mark, method.__self__ if keeps else None)
        except BaseException as error:
            failed(point, error)
        return method

    def given(result: Any) -> Any:
        nonlocal ended
        if begun == ended:
            return result
        end = now_ns()
        try:
            open_call = opened.now
            if open_call is not None:
                opened.now = None
                ended += 1
                if counts is None or counts(result, open_call[2]):
                    record(*open_call, end, result, getframe(1))
                elif open_call[1] is not None:
                    device.drop(open_call[1])
        except BaseException as error:
            failed(point, error)
        return result

    class Begun(Timed):
        __slots__ = ()
        __call__ = property(begin)

    def renew() -> None:
        nonlocal local, opened, begun, ended
        calls.renew()
        local, opened = calls.stacks(call.level), _Open()
        begun = ended = 0
        record.renew(local)

    point.read = lambda: fired
    point.renew = renew
    return MethodHooks(about, given)


class _Recorder:
    """Records calls once they have returned."""

    def __init__(self, calls: Calls, point: Point, call: Call, early: bool, late: bool) -> None:
        self._point, self._call, self._early, self._late = point, call, early, late
        self._add = calls.room.add
        self._fired = False
        self.renew(calls.stacks(call.level))

    def renew(self, stacks: Stacks) -> None:
        """Begin anew with these stacks, and find every site anew: also in the child of a fork."""
        self._stacks = stacks
        self._places: dict[tuple[object, ...], tuple[int, CodeType]] = {}

    def __call__(
        self, start: int, mark: Any, subject: Any, end: int, result: Any, frame: FrameType
    ) -> None:
        """Record a call that ``frame`` has made, with its times in nanoseconds."""
        first: tuple[Any, ...] = (subject,) if self._early else ()
        find = self._call.find
        try:
            of, phase, payload, values = self._answers(first, subject, result)
        except BaseException as error:
            # A function of the voirfile raised: the span is recorded without it.
            failed(self._point, error, frame)
            of, phase, payload, values = None, None, 0, first
            find = self._call.find_begun
        site = self._site(find, frame, of, phase, values)
        self._add(start, end, payload, site)
        if mark is not None:
            self._call.device.span(mark, start, site)

    def _answers(
        self, first: tuple[Any, ...], subject: Any, result: Any
    ) -> tuple[Any, Any, int, tuple[Any, ...]]:
        """Return ``of``, ``phase``, the payload, and the values with which ``find`` is called."""
        call, values = self._call, first
        of = None if call.of is None else call.of(*first)
        phase = None if call.phase is None else call.phase(*first)
        payload = 0 if call.payload is None else call.payload(*first)
        if call.late is not None:
            then = (subject,) if self._late else ()
            _, late_of, late_phase, late_load = call.late(result, then)
            if late_of is not points.MISSING:
                of, phase, values = late_of, late_phase, (result, *then)
            if late_load is not points.MISSING:
                payload = late_load
        return of, phase, min(max(int(payload or 0), 0), call.most), values

    def _site(self, find: Any, caller: FrameType, of: Any, phase: Any, values: Any) -> int:
        """Return the number of the site, which ``find`` finds if no call was like this one."""
        if not self._fired:
            self._fired = True
            points.on_first(self._point)
        frame = self._call.near(caller) or caller
        key = (find, id(frame.f_code), frame.f_lasti, id(of), phase, self._stacks.number)
        known = self._places.get(key)
        if known is None:
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            site = find(frame, of, phase, values)
            known = self._places[key] = (site, frame.f_code)
        return known[0]


def _without_subject(function: Any) -> Any:
    """Return ``function``, which takes nothing, as a function of the subject."""
    return lambda _: function()


def _of_result(function: Any) -> Any:
    """Return ``function``, which takes the result, as a function of the result and the subject."""
    return lambda result, _: function(result)
