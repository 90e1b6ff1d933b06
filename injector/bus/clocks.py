"""How far the clocks of two hosts differ: bounds from an exchange of questions and answers, and what follows.

An answer was given after its question was sent and before it came back, so each bounds the difference on
either side, whatever time the way took. Here both go by UDP; engines use what they reach nodes with.
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
"""Questions for the time of a host: the quickest answer bounds it best."""
PATIENCE = 0.2
"""Seconds for an answer, after which it is lost."""
LOST = 4
"""Answers lost after which an address is given up: it may be a little late in beginning to answer."""
_MARK = 8
"""Bytes of a question, which come back before the answer."""
_TIME = Struct("!d")


class ClockBounds(NamedTuple):
    """How far one clock is ahead of another, as was measured."""

    low: float
    """Seconds, at least;"""
    high: float
    """and at most."""


class Answered(NamedTuple):
    """What the clock of a host showed at one moment of ours, as its answers say."""

    at: int
    """Nanoseconds of our monotonic clock."""
    unix: float
    """What our own clock showed, unix seconds;"""
    low: float
    """what theirs did at least,"""
    high: float
    """and at most."""

    @property
    def bounds(self) -> ClockBounds:
        """How far theirs is ahead of ours."""
        return ClockBounds(self.low - self.unix, self.high - self.unix)


class Tie(NamedTuple):
    """What is known of the clock of one host against that of another."""

    shift: float
    """Seconds to add to its unix times."""
    sentence: str


def tie_of(here: str, there: str, bounds: ClockBounds, source: str) -> Tie:
    """How the clock of the host ``there`` is tied to that of ``here``, which is ahead of it by ``bounds``.

    It is moved only where no difference is not within the bounds. ``source``: what they were found by.
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
    """A port for questions what time it is here, and what begins to answer them, until this process ends.

    Questions wait until then. The clock that answers is not set any more: it is what this host's shows now,
    and goes on as its monotonic clock does, by which all is recorded.

    Raises OSError where there is no port to be had.
    """
    import socket

    from ..store.event import by_both_clocks

    at, unix = by_both_clocks()
    ahead = unix - at / 1e9

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
                question, whose = sock.recvfrom(_MARK + 1)
                if len(question) == _MARK:
                    sock.sendto(question + _TIME.pack(time.monotonic() + ahead), whose)
            except OSError:
                time.sleep(PATIENCE)  # a way that is gone; another may be there

    return int(sock.getsockname()[1]), lambda: in_background(loop)


def ask(host: str, port: int, patience: float = 1.0) -> Answered | None:
    """What the clock of ``host`` shows, which answers at ``port``.

    None where no answer came within ``patience`` seconds: names may take long to be looked up.
    """
    from _thread import allocate_lock

    found: list[Answered] = []
    over = allocate_lock()
    over.acquire()

    def work() -> None:
        try:
            found.extend(_answered(host, port))
        finally:
            over.release()

    in_background(work)
    over.acquire(timeout=patience)
    return found[0] if found else None


def in_background(function: Callable[[], None]) -> None:
    """Call it in a thread that takes no signals: they are for those who wait for them."""
    import _signal  # type: ignore[import-not-found]  # signal imports enum
    from _thread import start_new_thread

    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    try:
        start_new_thread(function, ())
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _answered(host: str, port: int) -> list[Answered]:
    """By the first of its addresses that answers; nothing where none does."""
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
    low, high, lost = float("-inf"), float("inf"), 0
    from ..store.event import by_both_clocks

    at, unix = by_both_clocks()
    for _ in range(QUESTIONS):
        mark = os.urandom(_MARK)
        before = (time.monotonic_ns() - at) / 1e9
        try:
            sock.send(mark)
            while not (text := sock.recv(64)).startswith(mark):
                pass  # the answer to one that was given up
        except TimeoutError:
            lost += 1
            if lost == LOST:
                break
            continue
        theirs = _TIME.unpack(text[_MARK:])[0]
        low = max(low, theirs - (time.monotonic_ns() - at) / 1e9)
        high = min(high, theirs - before)
    return Answered(at, unix, low, high) if low <= high < float("inf") else None
