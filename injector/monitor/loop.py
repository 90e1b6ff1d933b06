"""The loop of the monitor: what is sampled when, and how it ends."""

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
"""Seconds between samples of what costs more, or changes less, than a fast interval is worth."""
COSTLY = 5.0
"""Seconds between readings of unique memory: the kernel walks the page tables of the process."""


class DueTimes:
    """Says when something is due: at most once every ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    def due(self, now: float) -> bool:
        if now < self._next:
            return False
        # The grid of due times does not drift, and is not caught up with after a pause.
        self._next = max(self._next + self._seconds, now + self._seconds / 2)
        return True


class Monitor:
    """Samples host, process tree and devices into the run folder ``folder`` every ``interval`` s.

    It also records how processes end that record themselves. It ends with the process ``pid``, or with
    SIGTERM; Ctrl-C is the program's.
    """

    def __init__(self, folder: str, pid: int, interval: float, moved: float = 0.0) -> None:
        """``moved``: seconds to add to this host's clock."""
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
        """Sample until the end; the last sample is taken after it."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
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
        """One sample of everything that is due."""
        slow = self._slow.due(now)
        self._attempt("host", lambda: self._host(slow))
        self._attempt("tree", lambda: self._records.tree(self._tree.sample(self._costly.due(now))))
        if self._devices is not None:
            self._attempt("devices", self._device_states)

    def _find_devices(self) -> None:
        self._devices = Devices.visible()
        for problem in self._devices.problems:
            self._say(problem)
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
            self._say(problem)

    def _attempt(self, what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._say(f"{what} could not be sampled: {type(error).__name__}: {error}")

    def _say(self, problem: str) -> None:
        """Record a problem, the first time that it is one."""
        if problem not in self._reported:
            self._reported.add(problem)
            self._records.problem(problem)
