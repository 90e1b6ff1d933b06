"""The loop of the monitor: what is sampled how often, and when it ends.

At every interval the cores, the memory, the processes and the devices are sampled; once a second
(:data:`SLOW`) what changes less, and every five seconds (:data:`COSTLY`) what is expensive to read. A kind of
sample that fails is recorded as a problem, once, and does not keep the others from being taken.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from ..bus.writer import Writer
from ..store.event import clock_meta
from ..store.monitor import SUFFIX, MonitorRecords
from . import host
from .devices import Devices
from .processes import Exits, Tree

SLOW = 1.0
"""Seconds between samples of what costs more to read, or changes more slowly."""
COSTLY = 5.0
"""Seconds between readings of unique memory, for which the kernel walks the page tables of a process."""


class DueTimes:
    """The times at which something is due, at most once every ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    def due(self, now: float) -> bool:
        """Whether it is due at ``now``, monotonic seconds; if so, the next time is set."""
        if now < self._next:
            return False
        # Times stay on a grid, so that lateness does not add up. After a pause, missed times are left out.
        self._next = max(self._next + self._seconds, now + self._seconds / 2)
        return True


class Monitor:
    """Samples the host, the program's processes and the devices, and records how processes end."""

    def __init__(self, folder: str, pid: int, interval: float, moved: float = 0.0) -> None:
        """Sample into the run folder ``folder`` every ``interval`` seconds, until the process ``pid`` ends.

        ``moved``: seconds to add to this host's clock.
        """
        about = {"role": "monitor", "interval": interval, **clock_meta(moved)}
        self._writer = Writer(folder, about, suffix=SUFFIX)
        self._records = MonitorRecords(self._writer.emit)
        self._interval = interval
        self._tree = Tree(pid)
        self._devices: Devices | None = None
        self._exits = Exits(folder, {pid, os.getppid()}, self._records.exit)
        self._stop = threading.Event()
        self._slow = DueTimes(max(SLOW, interval))
        self._costly = DueTimes(max(COSTLY, interval))
        self._reported: set[str] = set()

    def run(self) -> None:
        """Sample until the process has ended or SIGTERM comes; the last sample is taken after that."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program
        signal.signal(signal.SIGTERM, lambda *_: self._stop.set())
        self._attempt("ends of processes", self._exits.start)
        self._attempt("devices", self._find_devices)
        pace = DueTimes(self._interval)
        while not self._stop.is_set() and self._tree.alive():
            now = time.monotonic()
            if pace.due(now):
                self.sample(now)
            self._stop.wait(max(0.0, self._interval - (time.monotonic() - now)))
        self._attempt("ends of processes", self._exits.stop)
        self.sample(time.monotonic())
        self._records.end()
        self._writer.close()

    def sample(self, now: float) -> None:
        """Take a sample of everything that is due at ``now``, monotonic seconds."""
        slow = self._slow.due(now)
        self._attempt("host", lambda: self._host(slow))
        self._attempt("tree", lambda: self._records.tree(self._tree.sample(self._costly.due(now))))
        if self._devices is not None:
            self._attempt("devices", self._device_states)

    def _find_devices(self) -> None:
        """Find the devices that the program may use, and record what they are."""
        self._devices = Devices.visible()
        for problem in self._devices.problems:
            self._report(problem)
        if self._devices:
            self._records.device_list(self._devices.described())

    def _host(self, slow: bool) -> None:
        data: dict[str, Any] = host.fast()
        if slow:
            data.update(host.slow())
            data.update(host.limits())
        self._records.host(data)

    def _device_states(self) -> None:
        assert self._devices is not None
        states = self._devices.sample()
        if states:
            self._records.devices(states)
        for problem in self._devices.problems:
            self._report(problem)

    def _attempt(self, what: str, action: Callable[[], None]) -> None:
        """Call ``action``, which samples ``what``; if it fails, record a problem."""
        try:
            action()
        except Exception as error:
            self._report(f"{what} could not be sampled: {type(error).__name__}: {error}")

    def _report(self, problem: str) -> None:
        """Record a problem, the first time that it occurs."""
        if problem not in self._reported:
            self._reported.add(problem)
            self._records.problem(problem)
