"""Hooks at calls of methods: ``a.to(x)`` was rewritten to ``given(about(a.to)(x))``.

``about`` gives back the method, or, where the call counts, something that is called in its place: its
``__call__`` is a property, which notes the time and is done when the method itself is called. So no
frame of ours is on the stack while the method runs: not in a traceback, not for a warning.
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
"""By method, the hooks of each point: before the call, and after."""


class Timed(tuple):  # type: ignore[type-arg]
    """Stands for a bound method until it is called, which is at once; its ``func`` is the method."""

    # A tuple is made in C. A partial would be, too, but of another one it takes that one's function.
    __slots__ = ()
    func = property(itemgetter(0))

    @property
    def __self__(self) -> Any:
        return self.func.__self__


class _Open(_local):
    """The call that a thread has open: when it began, a mark of the device, the subject."""

    now: tuple[int, Any, Any] | None = None


class MethodHooks:
    """What is called before and after the calls of a method."""

    def __init__(self, about: Hook, given: Hook) -> None:
        self.about = about
        self.given = given


def publish_method(method: str, name: str, point: Point, hooks: MethodHooks) -> None:
    """Put the hooks of a point into builtins, under the ``name`` that code calls for ``method``."""
    points.defined[point.name] = point
    _published.setdefault(method, []).append((point.name, hooks.about, hooks.given))
    points.on_undefine[point.name] = lambda: _withdraw(method, name, point)
    _combine(method, name)


def _withdraw(method: str, name: str, point: Point) -> None:
    _published[method] = [each for each in _published[method] if each[0] != point.name]
    _combine(method, name)


def _combine(method: str, name: str) -> None:
    """One hook of all points: the call of the last one's stand-in calls that of the one before."""
    abouts = [about for _, about, _ in _published[method]]
    givens = [given for _, _, given in _published[method]]
    points.define_raw(name, _chain(abouts))
    points.define_raw(name + "=", _chain(givens))


def _chain(hooks: list[Hook]) -> Hook:
    if len(hooks) == 1:
        return hooks[0]

    # Of none it is what gives back its argument.
    def each(value: Any) -> Any:
        for hook in hooks:
            value = hook(value)
        return value

    return each


def method_hooks(
    calls: Calls, point: Point, call: Call, early: bool, late: bool, keeps: bool
) -> MethodHooks:
    """The hooks of one region.

    What needs no result is called with the subject if ``early``, else without arguments; what needs it,
    with the result, and if ``late`` the subject as well. ``keeps`` says that anything but ``call.when``
    is called with the subject. These are closures, since they run at every call.
    """
    record = _Recorder(calls, point, call, early, late)
    outermost, device, clock, getframe = call.outermost, call.device, perf_counter_ns, sys._getframe
    when = call.when if early or call.when is None else _without_subject(call.when)
    counts = call.counts if late or call.counts is None else _of_result(call.counts)
    local, opened = calls.stacks(call.level), _Open()
    fired = 0
    begun = ended = 0  # as long as they are equal, no thread has a call open

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
            if begun != ended and opened.now is not None:  # that call raised
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
            opened.now = (clock(), mark, method.__self__ if keeps else None)
        except BaseException as error:
            failed(point, error)
        return method

    def given(result: Any) -> Any:
        nonlocal ended
        if begun == ended:
            return result
        end = clock()
        try:
            now = opened.now
            if now is not None:
                opened.now = None
                ended += 1
                if counts is None or counts(result, now[2]):
                    record(*now, end, result, getframe(1))
                elif now[1] is not None:
                    device.drop(now[1])
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
    """Records the calls that count, once they have returned."""

    def __init__(self, calls: Calls, point: Point, call: Call, early: bool, late: bool) -> None:
        self._point, self._call, self._early, self._late = point, call, early, late
        self._add = calls.room.add
        self._fired = False
        self.renew(calls.stacks(call.level))

    def renew(self, stacks: Stacks) -> None:
        """Forget every site: also in the child of a fork, whose stacks are others."""
        self._stacks = stacks
        self._places: dict[tuple[object, ...], tuple[int, CodeType]] = {}

    def __call__(
        self, start: int, mark: Any, subject: Any, end: int, result: Any, frame: FrameType
    ) -> None:
        first: tuple[Any, ...] = (subject,) if self._early else ()
        find = self._call.find
        try:
            of, phase, payload, values = self._answers(first, subject, result)
        except BaseException as error:  # it costs its answer, not the span
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
        """Of, phase, payload, and the values that the site is found by."""
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
    return lambda _: function()


def _of_result(function: Any) -> Any:
    return lambda result, _: function(result)
