"""How far the clocks of two hosts differ: bounds from an exchange of questions and answers, and what follows.

An answer was given after its question was sent and before it came back. So it bounds the difference of the
clocks on either side, however long the message took::

    here     question sent |------------------------| answer received
    there                         | time shown |

The other clock is ahead of ours by at most (time shown - question sent), at least (time shown - answer
received).

Several exchanges narrow the bounds, the quickest the most. Here questions and answers are UDP packets; the
engines of suites exchange them over the connections by which they reach nodes.
"""

from __future__ import annotations

import os
import time
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

QUESTIONS = 8
"""The number of questions in a measurement."""
PATIENCE = 0.2
"""Seconds after which an answer counts as lost."""
LOST = 4
"""Lost answers after which an address is given up; a host may begin to answer late."""
_MARK = 8
"""Random bytes that are a question; its answer begins with them, and is known by them."""
_TIME = Struct("!d")
"""The unix seconds that follow them in an answer."""


class ClockBounds(NamedTuple):
    """Bounds of how far one clock is ahead of another, seconds."""

    low: float
    high: float


class Answered(NamedTuple):
    """The clocks of this host and of another one at the same moment, from the answers of the other."""

    at: int
    """The moment, nanoseconds of this host's monotonic clock."""
    unix: float
    """Our clock at that moment, unix seconds."""
    low: float
    """The other clock, unix seconds at least."""
    high: float
    """The other clock, unix seconds at most."""

    @property
    def bounds(self) -> ClockBounds:
        """How far the other clock is ahead of ours."""
        return ClockBounds(self.low - self.unix, self.high - self.unix)


class Tie(NamedTuple):
    """How the clock of one host is related to that of another."""

    shift: float
    """Seconds to add to its unix times."""
    sentence: str
    """A remark about that for the report."""


def tie_of(here: str, there: str, bounds: ClockBounds, source: str) -> Tie:
    """The tie of the clock of the host ``there`` to that of ``here``, which is ahead of it by ``bounds``.

    The clock is moved only if the bounds show that both differ: two clocks that are set over the network are
    closer than they can be measured. ``source``: the words for how the bounds were found.
    """
    low, high = bounds
    if low <= 0 <= high:
        most = 1e3 * max(-low, high)
        return Tie(
            0.0, f"the clocks of {here} and {there} differ by at most {most:.3g} ms, by {source}"
        )
    shift, error = (low + high) / 2, (high - low) / 2
    return Tie(
        shift,
        f"the clock of {there} is moved by {round(shift, 6):+.10g} s to that of {here}, by {source}; "
        f"the error is at most {1e3 * error:.3g} ms",
    )


def answers() -> tuple[int, Callable[[], None]]:
    """A port for questions for this host's time, and a function that begins to answer them.

    Questions that come before wait in the socket; they are answered until this process ends. The clock that
    answers shows this host's unix time of now and goes on as the monotonic clock does, by which everything is
    recorded: it does not jump if the host's clock is set later. Raises OSError if there is no free port.
    """
    import socket

    from ..store.event import by_both_clocks

    at, unix = by_both_clocks()
    monotonic_to_unix = unix - at / 1e9

    try:
        sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(("::", 0))
    except OSError:  # a host without IPv6
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("", 0))

    def loop() -> None:
        while True:
            try:
                question, sender = sock.recvfrom(_MARK + 1)
                # A packet of another length is no question, and is not answered.
                if len(question) == _MARK:
                    sock.sendto(question + _TIME.pack(time.monotonic() + monotonic_to_unix), sender)
            except OSError:
                time.sleep(PATIENCE)  # one network may be down, and others still work

    return int(sock.getsockname()[1]), lambda: in_background(loop)


def ask(host: str, port: int, patience: float = 1.0) -> Answered | None:
    """A measurement of the clock of ``host``, which answers at ``port``; None after ``patience`` seconds.

    The work is done in a thread, since the look-up of a name may take much longer and cannot be interrupted.
    """
    from _thread import allocate_lock

    results: list[Answered] = []
    is_done = allocate_lock()
    is_done.acquire()

    def work() -> None:
        try:
            results.extend(_answered(host, port))
        finally:
            is_done.release()

    in_background(work)
    is_done.acquire(timeout=patience)
    return results[0] if results else None


def in_background(function: Callable[[], None]) -> None:
    """Call ``function`` in a thread.

    All signals are blocked in it: the supervisor blocks those that it waits for, and a thread that did not
    would receive them in its place. Without :mod:`threading`, whose import every run would wait for.
    """
    import _signal  # type: ignore[import-not-found]  # signal imports enum
    from _thread import start_new_thread

    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    try:
        start_new_thread(function, ())
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _answered(host: str, port: int) -> list[Answered]:
    """A list with the measurement at the first address of ``host`` that answers; empty if none does."""
    import socket

    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError:
        return []
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as sock:
                sock.settimeout(PATIENCE)
                sock.connect(address)
                if answered := _exchanged(sock):
                    return [answered]
        except OSError:
            continue
    return []


def _exchanged(sock: socket) -> Answered | None:
    """The measurement from :data:`QUESTIONS` exchanges over ``sock``; None without answers that agree.

    The moment of the measurement is its beginning. What has passed since then is known by the monotonic
    clock, and is subtracted from what each answer shows. Raises OSError.
    """
    low, high, lost = float("-inf"), float("inf"), 0
    from ..store.event import by_both_clocks

    at, unix = by_both_clocks()
    for _ in range(QUESTIONS):
        mark = os.urandom(_MARK)
        before = (time.monotonic_ns() - at) / 1e9
        try:
            sock.send(mark)
            while not (text := sock.recv(64)).startswith(mark):
                pass  # a late answer to a question that counts as lost
        except TimeoutError:
            lost += 1
            if lost == LOST:
                break
            continue
        shown = _TIME.unpack(text[_MARK:])[0]
        low = max(low, shown - (time.monotonic_ns() - at) / 1e9)
        high = min(high, shown - before)
    return Answered(at, unix, low, high) if low <= high < float("inf") else None
