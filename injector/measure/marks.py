"""Spans of a device, measured by two events in its queue of work.

A call of a region puts one event into the queue where it begins and one where it ends. Both are kept until
the device has passed them (:class:`Marks`), then brought onto the host's clock (:class:`Timeline`) and
written as a span like that of the host. :class:`SampledMarks` does so only for some of the time.
"""

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
    """An event, and when it was put into the queue, in nanoseconds of the host."""
    Heard = Callable[[float], None]
    """Receives the seconds of a span of the device, once they are known."""

MOST = 8_192
"""How many spans may wait for their device; further ones are dropped, and counted."""
_GLANCE = 32
"""How many spans wait before the first is looked at, since a query of a device costs a microsecond."""
_FAR_NS = 500_000_000
"""The longest time over which events are measured against one event, since a device counts in float32."""
_DRIFT = 20_000
"""Clocks of devices and hosts drift apart by at most one part in so many: 50 ppm."""
PATIENCE_NS = 500_000_000
"""How long the end of the process waits for what is still queued on a device."""


class NotReadyError(OSError):
    """The device had not passed an event when the process ended, or too many events were waiting."""


class Timeline:
    """Converts the time of one device to the host's clock.

    A device measures only the time between two of its events. So one event is the reference, for which the
    host's time is estimated. No event is passed before the host has queued it, nor after the host has found
    it passed: each event whose converted time lies outside of these bounds corrects the estimate. At first,
    the reference is taken to have been passed as soon as it was queued, which is the earliest possible time.

    The clocks drift apart. Where a new reference is chosen, the estimate goes back by the largest drift there
    can have been, and further events correct it.
    """

    def __init__(self, clock: Any, event: Any, host_ns: int) -> None:
        self._clock = clock
        self._event = event
        self._host = host_ns

    def span(self, begin: Mark, end: Mark, seen: int) -> tuple[int, int]:
        """Return the start and the end of the span between two events, in nanoseconds of the host.

        Its length is what the device has measured. ``seen`` is when both were found to be passed. Frees the
        events, but for the reference.
        """
        first, last = (self._clock.elapsed_ns(self._event, mark[0]) for mark in (begin, end))
        is_far = abs(last) >= _FAR_NS
        # Far from the reference, the difference of two times of float32 would be too coarse.
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

    def _passed(self, queued: int, distance: int, seen: int) -> int:
        """Return when the device passed an event that lies ``distance`` behind the reference."""
        when = min(max(self._host + distance, queued), seen)
        self._host = when - distance
        return when


class Marks:
    """Marks begins and ends of spans in the queue of a device, and writes the spans once they are known."""

    clocks = device.known
    """The clock of the device. It holds None alone once it is known that there is none: then the hooks in C
    mark nothing."""
    pauses_until = 0
    """Until when no call is marked, in nanoseconds of the host: the hooks in C do not call before that."""

    def __init__(
        self,
        add: Add,
        sites: Sites | None,
        lose: Callable[[int, Exception], None],
        find: Callable[[], Any] = device.clock,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """``find()`` returns the clock or None; ``failed`` receives its first error.

        Spans are written by ``add``; ``lose`` is called with the number of those that were not, and why.
        Without ``sites`` none are written, and only ``heard`` of :meth:`span` tells of them.
        """
        self._add = add
        self._sites = sites
        self._lose = lose
        self._find = find
        self._failed = failed
        self._forget()

    def renew(self) -> None:
        """Begin anew in the child of a fork: both the marks and the device are the parent's."""
        self._forget()
        device.forget()

    def _forget(self) -> None:
        self._waiting: list[tuple[Mark, Mark, int, int, Heard | None]] = []
        """The spans that the device has not completed: both marks, start on the host, site, listener."""
        self._timelines: dict[str, Timeline] = {}
        """By the name of a device."""
        self._device_sites: dict[tuple[int, str], int] = {}
        """By site of the host and device, the site of the device's spans."""
        self._lost = 0
        self._lock = allocate_lock()

    def mark(self) -> Mark | None:
        """Mark the begin of a span in the queue of the current device; None where there is no device."""
        return self._now()

    def _now(self) -> Mark | None:
        """Put an event into the queue of the current device."""
        clock = self._find()
        if clock is None:
            return None
        try:
            queued = perf_counter_ns()
            event = clock.mark()
        except Exception as error:  # after an error on the device, each of its calls fails
            self._fail(error)
            return None
        return None if event is None else (event, queued)

    def _fail(self, error: Exception) -> None:
        """Report ``error``, if it is the first."""
        failed, self._failed = self._failed, None
        if failed is not None:
            failed(error)

    def span(self, begin: Mark, start: int, site: int, heard: Heard | None = None) -> None:
        """End here the span that began with ``begin``, and at ``start`` (nanoseconds) on the host.

        ``heard`` receives its seconds once they are known.
        """
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
        """Free the event of ``begin``, which is the begin of no span."""
        clock = self._find()
        if clock is not None:
            clock.free(begin[0])

    def write(self) -> None:
        """Write the spans that the device has completed."""
        if not self._lock.acquire(blocking=False):
            return  # another thread is at it
        try:
            clock, waiting_spans = self._find(), self._waiting
            # In order: those behind one that is not complete are not complete either, on one device.
            while waiting_spans and clock.ready(waiting_spans[0][1][0]):
                self._write(clock, *waiting_spans.pop(0))
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
        if clock.device(begin[0]) != name:  # the program has changed the current device in between
            self.drop(begin)
            self.drop(end)
            return
        timeline = self._timelines.get(name)
        if timeline is None:
            timeline = self._timelines[name] = Timeline(clock, *begin)
        start, stop = timeline.span(begin, end, perf_counter_ns())
        if self._sites is not None:
            device_site = self._device_sites.get((site, name))
            if device_site is None:
                data = {"clock": "device", "device": name, "payload": START}
                device_site = self._device_sites[site, name] = self._sites.like(site, **data)
            # The payload of a device's span is its start on the host, by which the analysis finds the call.
            self._add(start, stop, began, device_site)
        if heard is not None:
            heard((stop - start) / 1e9)

    def wait(self) -> None:
        """Wait for the device, and write all spans. Only the program itself may request that."""
        clock = self._find()
        if clock is not None and self._waiting:
            try:
                clock.wait(self._waiting[-1][1][0])
            except Exception as error:
                self._fail(error)
        self.write()

    def close(self) -> None:
        """Write what the device completes within a moment, and count the rest as lost: the process ends."""
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
"""How much of its thread's time marking may cost between two pauses: at first, and at most. It is little at
first, so that a short program does not spend all of its steps there, and doubles with each pause, so that
steps with many calls fit in."""
EARLY_NS = 100_000_000
"""While marking has cost no more than this in all, pauses are short, since the program may be over soon."""
SHORT, LONG = 19, 332
"""Length of a pause, in which no call is marked, as a multiple of what was spent before it: marking costs one
twentieth of the time at first, later 0.3 %."""


class SampledMarks(Marks):
    """Marks all calls for a while and then none for a while, so that it costs next to nothing.

    An event costs two microseconds, or twenty where a virtual machine passes the device through, and a step
    of a millisecond has ten events. Whole steps are marked rather than every tenth call, since what the
    device does in a step is of interest. Which calls were marked is known from the spans of the device, each
    of which holds the start of its call on the host.
    """

    def _forget(self) -> None:
        super()._forget()
        self._spent = self.pauses_until = 0
        self._burst = self._limit = FIRST_NS

    def mark(self) -> Mark | None:
        """Do as :meth:`Marks.mark`; None in a pause."""
        began = perf_counter_ns()
        if began < self.pauses_until:
            return None
        mark = self._now()
        self._spend(began)
        return mark

    def span(self, begin: Mark, start: int, site: int, heard: Heard | None = None) -> None:
        """Do as :meth:`Marks.span`, in a pause too: what began before it has to end."""
        began = perf_counter_ns()
        super().span(begin, start, site, heard)
        self._spend(began)

    def _spend(self, began: int) -> None:
        """Count what marking has cost since ``began``, and begin a pause once it is too much."""
        now = perf_counter_ns()
        self._spent += now - began
        if self._spent >= self._limit:
            pause = SHORT if self._spent < EARLY_NS else LONG
            self.pauses_until = now + pause * self._burst
            self._burst = min(2 * self._burst, BURST_NS)
            self._limit = self._spent + self._burst
