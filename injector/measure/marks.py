"""Spans of a device: two events each, kept until the device has passed them, then rows like others."""

from __future__ import annotations

from _thread import allocate_lock
from time import perf_counter_ns, sleep

from ..store.spans import START
from . import device

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..probe.room import Add
    from .sites import Sites

    Mark = tuple[Any, int]
    """An event, and when it was requested, nanoseconds of the host."""
    Heard = Callable[[float], None]
    """Receives the seconds of a span of the device, once they are known."""

MOST = 8_192
"""Spans that wait for their device; further ones are dropped, and counted."""
_GLANCE = 32
"""So many wait before the first is looked at: asking a device costs a microsecond."""
_FAR_NS = 500_000_000
"""Events are measured from one no further away than this, as a device counts in float32."""
_DRIFT = 20_000
"""Clocks of devices and hosts differ by at most one part in so many: 50 ppm."""
PATIENCE_NS = 500_000_000
"""At the end of the process, what is still queued is given this long to come."""


class NotReadyError(OSError):
    """The device had not passed an event when the process ended, or too many were waiting."""


class Timeline:
    """The time of one device on the host's clock: an event and the time of the host that it stands for.

    An event is never passed before it was requested, nor after it was found to be passed. The first
    one is taken to have been passed at once; each that cannot have been passed when it should moves all.
    Clocks drift apart: from one event that is measured from to the next, as much as they may is given up.
    """

    def __init__(self, clock: Any, event: Any, host_ns: int) -> None:
        self._clock = clock
        self._event = event
        self._host = host_ns

    def span(self, begin: Mark, end: Mark, seen: int) -> tuple[int, int]:
        """When the device passed two events; what lies between them is as the device says."""
        first, last = (self._clock.elapsed_ns(self._event, mark[0]) for mark in (begin, end))
        is_far = abs(last) >= _FAR_NS
        length = self._clock.elapsed_ns(begin[0], end[0]) if is_far else last - first
        self._passed(begin[1], first, seen)
        stop = self._passed(end[1], last, seen)
        old = self._event
        if is_far:
            self._event, self._host = end[0], stop - abs(last) // _DRIFT
            self._clock.free(old)
        for event, _ in (begin, end):
            if event is not old and event is not self._event:
                self._clock.free(event)
        return stop - max(length, 0), stop

    def _passed(self, requested: int, away: int, seen: int) -> int:
        """When the device passed an event so far ``away``."""
        when = min(max(self._host + away, requested), seen)
        self._host = when - away
        return when


class Marks:
    """Marks begins and ends of spans in the queue of a device, and writes them when they are known."""

    clocks = device.known
    """The clock of the device; of None alone where it is known that there is none."""

    def __init__(
        self,
        add: Add,
        sites: Sites | None,
        lose: Callable[[int, Exception], None],
        find: Callable[[], Any] = device.clock,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """``find()`` is the clock, ``failed`` gets its first error. Without ``sites`` nothing is written."""
        self._add = add
        self._sites = sites
        self._lose = lose
        self._find = find
        self._failed = failed
        self._forget()

    def renew(self) -> None:
        """In the child of a fork: what was marked is the parent's, and so is the device."""
        self._forget()
        device.forget()

    def _forget(self) -> None:
        self._waiting: list[tuple[Mark, Mark, int, int, Heard | None]] = []
        self._timelines: dict[str, Timeline] = {}
        self._like: dict[tuple[int, str], int] = {}
        self._lost = 0
        self._lock = allocate_lock()

    def mark(self) -> Mark | None:
        """This moment in the queue of the current device, as a begin; None where there is none."""
        return self._now()

    def _now(self) -> Mark | None:
        clock = self._find()
        if clock is None:
            return None
        try:
            requested = perf_counter_ns()
            event = clock.mark()
        except Exception as error:  # the device is in a state in which it answers no query
            self._fail(error)
            return None
        return None if event is None else (event, requested)

    def _fail(self, error: Exception) -> None:
        failed, self._failed = self._failed, None
        if failed is not None:
            failed(error)

    def span(self, begin: Mark, start: int, site: int, heard: Heard | None = None) -> None:
        """The span that began with ``begin`` ends here; on the host it began at ``start``."""
        end = self._now()
        if end is None:
            self.drop(begin)
            return
        if len(self._waiting) >= MOST:
            self._lost += 1
            self.drop(begin)
            self.drop(end)
            return
        self._waiting.append((begin, end, start, site, heard))
        if len(self._waiting) >= _GLANCE:
            self.write()

    def drop(self, begin: Mark) -> None:
        """No span began with ``begin``."""
        clock = self._find()
        if clock is not None:
            clock.free(begin[0])

    def write(self) -> None:
        """Write what the device has passed."""
        if not self._lock.acquire(blocking=False):
            return  # another thread is at it
        try:
            clock, waiting = self._find(), self._waiting
            while waiting and clock.ready(waiting[0][1][0]):
                self._write(clock, *waiting.pop(0))
        except Exception as error:
            self._fail(error)
            if self._waiting:
                # An event that cannot be queried stands in the way of all others.
                self._waiting.pop(0)
            self._lost += 1
        finally:
            self._lock.release()

    def _write(
        self, clock: Any, begin: Mark, end: Mark, began: int, site: int, heard: Heard | None
    ) -> None:
        name = clock.device(end[0])
        if clock.device(begin[0]) != name:
            self.drop(begin)
            self.drop(end)
            return
        line = self._timelines.get(name)
        if line is None:
            line = self._timelines[name] = Timeline(clock, *begin)
        start, stop = line.span(begin, end, perf_counter_ns())
        if self._sites is not None:
            like = self._like.get((site, name))
            if like is None:
                data = {"clock": "device", "device": name, "payload": START}
                like = self._like[site, name] = self._sites.like(site, **data)
            self._add(start, stop, began, like)
        if heard is not None:
            heard((stop - start) / 1e9)

    def wait(self) -> None:
        """Write all, and wait for the device where it is not done: only where the program requests it."""
        clock = self._find()
        if clock is not None and self._waiting:
            try:
                clock.wait(self._waiting[-1][1][0])
            except Exception as error:
                self._fail(error)
        self.write()

    def close(self) -> None:
        """The process ends: write what the device passes in a moment, count the rest."""
        limit = perf_counter_ns() + PATIENCE_NS
        while self._waiting:
            self.write()
            if not self._waiting or perf_counter_ns() > limit:
                break
            sleep(0.001)
        lost, self._lost = self._lost + len(self._waiting), 0
        self._waiting.clear()
        if lost:
            self._lose(lost, NotReadyError())


FIRST_NS, BURST_NS = 4_000_000, 32_000_000
"""So much of its thread's time the device's times cost from one pause to the next: little at first, so that
the first steps that are timed are not all that a short program has, and twice as much each time, for
steps that have many calls."""
EARLY_NS = 100_000_000
"""As long as they cost no more in all, pauses are short: a program may be over soon."""
SHORT, LONG = 19, 332
"""Pauses, in which no call is marked, by what was spent before: of twenty parts of the time one is spent,
later on 0.3 %."""


class SampledMarks(Marks):
    """Marks all calls for a while and then none, so that it costs next to nothing on any machine.

    What an event costs differs: two microseconds, or, where a virtual machine hands the device on, twenty; a
    step of a millisecond has ten of them. Whole steps are marked, not single calls, as what the device
    does in a step is of interest. Which calls were marked is seen by the rows of the device, each of
    which has the begin of its call.
    """

    def _forget(self) -> None:
        super()._forget()
        self._spent = self._pauses_until = 0
        self._burst = self._limit = FIRST_NS

    def mark(self) -> Mark | None:
        """As of any :class:`Marks`; None in a pause."""
        began = perf_counter_ns()
        if began < self._pauses_until:
            return None
        mark = self._now()
        self._spend(began)
        return mark

    def span(self, begin: Mark, start: int, site: int, heard: Heard | None = None) -> None:
        """As of any :class:`Marks`: what began before a pause ends in it."""
        began = perf_counter_ns()
        super().span(begin, start, site, heard)
        self._spend(began)

    def _spend(self, began: int) -> None:
        now = perf_counter_ns()
        self._spent += now - began
        if self._spent >= self._limit:
            pause = SHORT if self._spent < EARLY_NS else LONG
            self._pauses_until = now + pause * self._burst
            self._burst = min(2 * self._burst, BURST_NS)
            self._limit = self._spent + self._burst
