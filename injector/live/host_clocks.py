"""The clocks of the hosts that record, against that of who watches, as far as growing files tell.

What is new in a file since the last look was written between the two. Where a host's own clock says otherwise
by more than a look may be late, it is wrong, or that of who watches is, and moments of the host are put where
they were seen: a rank is silent when nothing comes of it, whatever clocks say. What was there at the first
look is not taken for old before some seconds have shown whether more comes.
"""

from __future__ import annotations

LATE = 5_000_000_000
"""Nanoseconds by which clocks that are right may seem to differ: files come late over a network."""

SETTLED = 3_000_000_000
"""Nanoseconds in which the files of a host that is alive grow: it is sampled each second."""


class HostClock:
    """What is known of the clock of one host. Moments are of its monotonic clock, in nanoseconds."""

    def __init__(self) -> None:
        self.newest = -1
        """The latest moment that its files tell of."""
        self._first: int | None = None
        """When it was looked at first."""
        self._now = 0
        self._low: int | None = None
        self._high: int | None = None
        """Unix time of who watches less monotonic time of the host: at least, and at most."""

    def take(self, moment: int, now: int, before: int | None) -> None:
        """Its files tell of ``moment`` at ``now``, unix nanoseconds.

        ``before``: when all that there was had been read before; None where it had not.
        """
        self._first = now if self._first is None else self._first
        self._now = now
        if moment <= self.newest:
            return
        self.newest = moment
        self._high = now - moment
        self._low = None if before is None or before > now else before - moment

    def settling(self, own: int) -> bool:
        """Whether it may be behind, or its files be old: which of both is not known as yet."""
        if self._high is None or self._low is not None or self._first is None:
            return False
        return own < self._high - LATE and self._now - self._first < SETTLED

    def offset(self, own: int) -> int:
        """Nanoseconds to add to its monotonic clock for unix time of who watches; ``own``: for its own."""
        if self._high is None:
            return own
        if self.settling(own):
            return self._high
        if own > self._high + LATE:  # what is written tomorrow cannot be here
            return self._high if self._low is None else (self._low + self._high) // 2
        if self._low is not None and own < self._low - LATE:
            return (self._low + self._high) // 2
        return own
