"""Waiting until something happens: a child ended, somebody wants us to stop, or time is up."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType
from typing import Any

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Alarm:
    """From its creation until :meth:`close` signals wake :meth:`wait`, and do nothing else.

    What was ignored when we started (SIGHUP under ``nohup``) stays so.
    """

    def __init__(self) -> None:
        self._inner, self._outer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[int, Any] = {}
        self.stops: list[int] = []
        """The signals that asked us to stop, in the order in which they came."""
        for number in (signal.SIGCHLD, *STOPS):
            if number == signal.SIGCHLD or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._came)
        self._fd_before = signal.set_wakeup_fd(self._outer, warn_on_full_buffer=False)

    def _came(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self.stops.append(number)

    def wait(self, seconds: float | None) -> None:
        """Return when a signal has come since the last call, or after so many seconds."""
        select.select([self._inner], [], [], None if seconds is None else max(0.0, seconds))
        try:
            while os.read(self._inner, 4096):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Have signals do what they did before."""
        signal.set_wakeup_fd(self._fd_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._inner)
        os.close(self._outer)
