"""Which signals that reach the supervisor the program has to be told of: those it has not had itself."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
import os
import time

from injector import reaper
from injector.launch.witness import Witness, key, settle

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from injector.launch.witness import Key

PATIENCE = 0.25
"""Seconds that a signal waits which reached us alone. Some senders (``timeout``, systemd, Slurm) send to
one process after the other: within this time it has reached all, or it was meant for us."""


class Relay:
    """Passes on to the program ``pid`` what was sent to us alone.

    ``numbers`` are the signals that we have blocked and wait for.
    """

    def __init__(self, pid: int, numbers: Iterable[int]) -> None:
        self._pid = pid
        self._held: list[tuple[float, Key]] = []
        try:
            self.witness: Witness | None = Witness(numbers)
        except OSError:  # no more processes or descriptors: the time of patience has to tell
            self.witness = None

    def take(self, signal: Any) -> None:
        """A signal came. What came from the program itself is its message to us, whatever it says."""
        if signal.si_code > 0 or signal.si_pid != self._pid:
            self._sort(signal.si_signo, [signal])

    def due(self) -> float | None:
        """When to call :meth:`pass_on` (of the monotonic clock)."""
        return min(self._held)[0] if self._held else None

    def pass_on(self) -> None:
        """Send the program what has waited long enough and has still reached nobody but us."""
        now = time.monotonic()
        for number in {signal[0] for moment, signal in self._held if moment <= now}:
            self._sort(number, [])
        late = [signal for moment, signal in self._held if moment <= now]
        self._held = [held for held in self._held if held[0] > now]
        for number, _, _ in late:
            if number != _signal.SIGCONT or _is_stopped(self._pid):
                _tell(self._pid, number)

    def end(self) -> None:
        """The program has ended."""
        self._held.clear()
        if self.witness is not None:
            self.witness.end()
            self.witness = None

    def _sort(self, number: int, new: list[Any]) -> None:
        """Hold back what came, and drop what others turn out to have been sent as well.

        Ends when we have taken all that was sent to both of us, so that nothing of it is left to be
        taken for what comes later. Signals of one number and sender may become one on their way to
        either of us, as signals do.
        """
        due = time.monotonic() + PATIENCE
        while True:
            self._held += [(due, key(signal)) for signal in new]
            if self.witness is None:
                return
            seen = self.witness.seen()
            self._held = [held for held in self._held if held[1] not in seen]
            settle()
            new = _taken(number)
            if not new:
                self.witness.forget(number)
                return


def _tell(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # another user's (``sudo``): whoever sent it could not have told it either
        pass


def _taken(number: int) -> list[Any]:
    """Further signals of that number which wait for us."""
    found = []
    while (signal := _signal.sigtimedwait({number}, 0)) is not None:
        found.append(signal)
    return found


def _is_stopped(pid: int) -> bool:
    process = reaper.find(pid)
    return process is not None and process.state == "T"
