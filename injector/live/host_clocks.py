"""The clocks of the hosts that record, compared with that of the follower by the files that grow.

What is new in a file was written between the last two reads of it. Such a pair of reads bounds the difference
of both clocks. If the host's own clock disagrees by more than files may be late, one of the two clocks is
wrong, and moments of the host are placed where they were seen instead: a rank is silent when nothing new
comes from it, whatever its host's clock says.

What was there at the first read may be old or may come from a clock that is behind. A few seconds show which,
as the files of a host that is alive grow each second; until then, such a host is taken to be alive.
"""

from __future__ import annotations

LATE = 5_000_000_000
"""Nanoseconds by which clocks may seem to differ that do not: files come late over a network."""

SETTLED = 3_000_000_000
"""Nanoseconds within which the files of a host that is alive have grown, as it is sampled each second."""


class HostClock:
    """The clock of one host, as its files show it. Moments are of its monotonic clock, in nanoseconds."""

    def __init__(self) -> None:
        self.newest = -1
        """The latest moment in its files."""
        self._first: int | None = None
        """When they were read first, unix nanoseconds of the follower's clock."""
        self._now = 0
        """When they were read last, as above."""
        self._low: int | None = None
        self._high: int | None = None
        """Unix time of the follower minus monotonic time of the host: at least ``_low``, at most this."""

    def take(self, moment: int, now: int, before: int | None) -> None:
        """Take that ``moment`` was the latest in its files at ``now``, unix nanoseconds.

        ``before`` is the last time that everything there was had been read; None if something had been left.
        """
        self._first = now if self._first is None else self._first
        self._now = now
        if moment <= self.newest:
            return
        self.newest = moment
        self._high = now - moment
        self._low = None if before is None or before > now else before - moment

    def settling(self, own: int) -> bool:
        """Whether it is unclear yet if its files are old or its clock is behind (``own``: :meth:`offset`)."""
        if self._high is None or self._low is not None or self._first is None:
            return False
        return own < self._high - LATE and self._now - self._first < SETTLED

    def offset(self, own: int) -> int:
        """Nanoseconds to add to its monotonic clock for the follower's unix time.

        ``own`` is what gives the host's own unix time, returned unless the files show that it is wrong.
        """
        if self._high is None:
            return own
        if self.settling(own):
            return self._high
        if own > self._high + LATE:  # by its own clock, what was read is from the future
            return self._high if self._low is None else (self._low + self._high) // 2
        # By its own clock, what is new was there before.
        if self._low is not None and own < self._low - LATE:
            return (self._low + self._high) // 2
        return own
