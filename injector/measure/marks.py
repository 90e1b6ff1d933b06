"""Spans of a device: two events each, kept until the device has passed them, then rows like others."""

from __future__ import annotations

from _thread import allocate_lock
from time import perf_counter_ns, sleep

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
PATIENCE_NS = 500_000_000
"""At the end of the process, what is still queued is given this long to come."""


class NotReadyError(OSError):
    """The device had not passed an event when the process ended, or too many were waiting."""


class Timeline:
    """The time of one device on the host's clock: an event and the time of the host that it stands for.

    An event is never passed before it was requested, nor after it was found to be passed. The first
    one is taken to have been passed at once; each that cannot have been passed when it should moves all.
    """

    def __init__(self, clock: Any, event: Any, host_ns: int) -> None:
        self._clock = clock
        self._event = event
        self._host = host_ns

    def span(self, begin: Mark, end: Mark, seen: int) -> tuple[int, int]:
        """When the device passed two events; what lies between them is as the device says."""
        length = max(self._clock.elapsed_ns(begin[0], end[0]), 0)
        self.at(*begin, seen)
        stop = self.at(*end, seen)
        return stop - length, stop

    def at(self, event: Any, requested: int, seen: int) -> int:
        """When ``event`` was passed; it is freed as soon as it is not needed here."""
        away = self._clock.elapsed_ns(self._event, event)
        when: int = min(max(self._host + away, requested), seen)
        self._host = when - away
        if event is not self._event:
            if abs(away) >= _FAR_NS:
                event, self._event, self._host = self._event, event, when
            self._clock.free(event)
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
        self._lost = 0
        self._lock = allocate_lock()

    def mark(self) -> Mark | None:
        """This moment in the queue of the current device; None where there is none."""
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

    def span(self, begin: Mark, payload: int, site: int, heard: Heard | None = None) -> None:
        """The span that began with ``begin`` ends here."""
        end = self.mark()
        if end is None:
            return
        if len(self._waiting) >= MOST:
            self._lost += 1
            return
        self._waiting.append((begin, end, payload, site, heard))
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
        self, clock: Any, begin: Mark, end: Mark, payload: int, site: int, heard: Heard | None
    ) -> None:
        name = clock.device(end[0])
        if clock.device(begin[0]) != name:
            return
        line = self._timelines.get(name)
        if line is None:
            line = self._timelines[name] = Timeline(clock, *begin)
        start, stop = line.span(begin, end, perf_counter_ns())
        if self._sites is not None:
            self._add(start, stop, payload, self._sites.like(site, clock="device", device=name))
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
