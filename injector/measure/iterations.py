"""``ov.step`` and ``ov.region`` of a loop: each turn of it is a span, ``ov.step("//train > #loop_x")``.

A turn begins where ``#loop_x`` fires and ends where ``#endloop_x`` does, however it ends. All that a voirfile
states of it is read at its end, when the variables of the turn are there.
"""

from __future__ import annotations

import sys
from time import perf_counter_ns

from ..errors import UserError
from ..probe import points
from ..probe.calls import INSIDE, SpanHooks
from ..probe.frames import hooked
from ..probe.points import MISSING, Point, failed
from .regions import RegionHooks

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from ..probe.calls import Call, Calls

    Function = Callable[..., Any]
    _Opened = tuple[int, int, Any, BaseException | None]
    """A turn that is open: site, start, mark on a device, and the exception that was being handled."""

_BEGIN, _END = "#loop", "#endloop"


def loop_of(where: Any) -> str | None:
    """The event at which a turn begins, where a selector names a loop: ``#loop_x`` of ``//f > #loop_x``.

    Raises UserError for one that names the end of a turn.
    """
    if not isinstance(where, str):
        return None
    event = where.rpartition(">")[2].strip().lstrip("!").strip()
    if event.startswith(_END):
        raise UserError(f"{where!r}: a turn is named by its begin, {_BEGIN}{event[len(_END) :]}")
    return event if event.startswith(_BEGIN) else None


class IterationHooks(RegionHooks):
    """The hooks of a region or step whose spans are the turns of a loop; ``event`` is where they begin."""

    names_event = True

    def __init__(self, plain: RegionHooks, event: str) -> None:
        """``plain`` has the region, as it would be of calls."""
        super().__init__(plain.region, plain._spans)
        self.what += f" of {event}"
        self.variables = (event, _END + event[len(_BEGIN) :])

    def captures(self, variable: str) -> tuple[str, ...]:
        return () if variable == self.variables[0] else self.region.late_captures

    def make(
        self, names: dict[str, str], selector: str, library: str
    ) -> tuple[Point, dict[str, Function]]:
        begin, end = self.variables
        point = Point(names[begin])
        call = self.region.call(self._spans, selector, library)
        turns = _Turns(self._spans.calls, point, call)
        return point, {begin: turns.begin, end: turns.end}


class _Turns:
    """The turns of one loop that are open, by the frames in which the loop runs."""

    def __init__(self, calls: Calls, point: Point, call: Call) -> None:
        self._calls, self._point, self._call = calls, point, call
        self._hooks = SpanHooks(calls, point, call)
        """They find the sites; their own ways of seeing a call are not used."""
        self._open: dict[int, list[_Opened]] = {}
        self._begun = 0
        point.read = lambda: self._begun
        point.renew = self._renew

    def _renew(self) -> None:
        """Begin anew in the child of a fork."""
        self._hooks.renew()
        self._open.clear()

    def begin(self, value: Any) -> Any:
        """The hook on the begin of a turn."""
        frame = hooked(sys._getframe(1))[0]
        try:
            if not self._begun:
                points.on_first(self._point)
            self._begun += 1
            call = self._call
            of = None if call.of is None else call.of()
            phase = None if call.phase is None else call.phase()
            # Here, since the line is that of the loop: at its end it is that of the last statement.
            stack = self._hooks.stacks.stack
            site = self._hooks._find_site(call.find_begun, frame, stack, of, phase, ())
            mark = None if call.device is None else call.device.mark()
            # A loop in an `except` block has an exception that is being handled in all of its turns.
            opened = site, perf_counter_ns(), mark, sys.exc_info()[1]
            self._open.setdefault(id(frame), []).append(opened)
        except BaseException as mistake:
            failed(self._point, mistake, frame)
        return value

    def end(self, value: Any, *variables: Any) -> Any:
        """The hook on the end of a turn, which takes all variables that the region's functions name."""
        end = perf_counter_ns()
        frame = hooked(sys._getframe(1))[0]
        try:
            opened = self._open.get(id(frame))
            if opened:
                raised = sys.exc_info()[1] is not opened[-1][3]
                self._record(opened.pop(), end, raised, variables, frame)
                if not opened:
                    del self._open[id(frame)]
        except BaseException as mistake:
            failed(self._point, mistake, frame)
        return value

    def _record(
        self, opened: _Opened, end: int, raised: bool, variables: Any, frame: FrameType | None
    ) -> None:
        """Store a turn as a span, if it counts."""
        call = self._call
        site, start, mark, _ = opened
        if raised and call.raised is not None:
            site = call.raised(site)
        payload: Any = 0
        try:
            if call.late_payload is not None:
                payload = call.late_payload(None, *variables)
            elif call.late is not None:
                counts, _, _, payload = call.late(None, variables)
                site = site if counts else INSIDE
        except Exception as mistake:
            failed(self._point, mistake, frame)  # it costs the answer, not the span
        if site > 0:
            if mark is not None:
                call.device.span(mark, start, site)
            payload = 0 if payload is MISSING else self._hooks._clamped(payload)
            self._calls.room.add(start, end, payload, site)
        elif mark is not None:
            call.device.drop(mark)
