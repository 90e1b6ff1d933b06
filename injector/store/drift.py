"""How the clock of a host drifts from that of the run while the run goes on: ``HOST.PID.drift``.

A file of the same form as a log (:mod:`.logs`): after ``process`` events ``clock``, each one measurement:
``at`` is its moment, nanoseconds of the host's monotonic clock, ``low`` and ``high`` are what the run's clock
showed at that moment, unix seconds, at least and at most. The run's clock is that of the host which ``of``
names, as it was when the run began: it is not set while the run goes on.

Versions are those of :mod:`..schema`:

1. the first. Runs of versions that did not measure again have no such file.
"""

from __future__ import annotations

import os
from bisect import bisect_right

from ..named_tuple import NamedTuple

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

SUFFIX = ".drift"
EVENT = "clock"
WIDEST = 4
"""A measurement that is so many times as uncertain as the median is left out: its answer came late."""
BEYOND = 10**14
"""Nanoseconds for which it goes on as before, beyond the first measurement and the last: more than a day."""


class ClockReading(NamedTuple):
    """What the run's clock showed at one moment of a host."""

    at: int
    """Nanoseconds of the host's monotonic clock."""
    low: float
    """Unix seconds, at least;"""
    high: float
    """and at most."""


class Drift(NamedTuple):
    """Seconds to add to the unix times of a host, which change during the run: linear between moments."""

    moments: tuple[int, ...]
    """Nanoseconds of the host's monotonic clock, rising."""
    seconds: tuple[float, ...]

    def at(self, t: int) -> float:
        """Seconds to add at ``t``."""
        right = min(max(bisect_right(self.moments, t), 1), len(self.moments) - 1)
        return _between(self.moments, self.seconds, right - 1, right, t)


class FittedDrift(NamedTuple):
    """What follows from the measurements of a host."""

    drift: Drift | None
    """None where the measurements leave it open whether there is any."""
    measured: int
    """Measurements that it rests on."""
    length: float
    """Seconds from the first to the last."""
    change: float
    """Seconds by which the difference of the clocks changed in that time."""
    error: float
    """Seconds, at most, that its times are off at the measurements; between them, as far as these tell."""


def fit(measurements: Iterable[ClockReading], unix: Callable[[int], float]) -> FittedDrift | None:
    """How a host's clock drifts, whose times are ``unix(t)``; None without measurements.

    Each measurement bounds what is to be added to ``unix`` at its moment. Where nothing at all is within all
    bounds, nothing is added; else what is the same at all moments, if there is such a thing. Otherwise it is
    the middle of the bounds, linear in between. How far off each is from the line between its neighbours is a
    part of the error.
    """
    found = sorted(measurements)
    bounds = [(each.at, each.low - unix(each.at), each.high - unix(each.at)) for each in found]
    widths = sorted(high - low for _, low, high in bounds)
    kept = [each for each in bounds if each[2] - each[1] <= WIDEST * widths[len(widths) // 2]]
    if not kept:
        return None
    moments = [at for at, _, _ in kept]
    length = (moments[-1] - moments[0]) / 1e9
    low, high = max(each[1] for each in kept), min(each[2] for each in kept)
    if low <= 0 <= high:
        most = max(max(-low, high) for _, low, high in kept)
        return FittedDrift(None, len(kept), length, 0.0, most)
    if low <= high:
        drift = Drift(
            (moments[0] - BEYOND, moments[0], moments[0] + BEYOND), ((low + high) / 2,) * 3
        )
        most = max(high - low for _, low, high in kept)
        return FittedDrift(drift, len(kept), length, 0.0, most)
    middles = [(low + high) / 2 for _, low, high in kept]
    error = max(high - low for _, low, high in kept) / 2
    error += max(_missed(moments, middles), default=0.0)
    slope = (middles[-1] - middles[0]) / (moments[-1] - moments[0])
    drift = Drift(
        (moments[0] - BEYOND, *moments, moments[-1] + BEYOND),
        (middles[0] - slope * BEYOND, *middles, middles[-1] + slope * BEYOND),
    )
    return FittedDrift(drift, len(kept), length, middles[-1] - middles[0], error)


def _missed(moments: Sequence[int], values: Sequence[float]) -> Iterator[float]:
    """By how much each but the first and the last is off the line between its neighbours."""
    for n in range(1, len(moments) - 1):
        yield abs(values[n] - _between(moments, values, n - 1, n + 1, moments[n]))


def _between(
    moments: Sequence[int], values: Sequence[float], left: int, right: int, t: int
) -> float:
    share = (t - moments[left]) / (moments[right] - moments[left])
    return values[left] + share * (values[right] - values[left])


def measurement_of(data: Any) -> ClockReading | None:
    """What an event holds; None where that is no measurement."""
    if not isinstance(data, dict):
        return None
    at, low, high = (data.get(key) for key in ("at", "low", "high"))
    if not isinstance(at, int) or not isinstance(low, float) or not isinstance(high, float):
        return None
    return ClockReading(at, low, high) if low <= high else None


def is_there(folder: str) -> bool:
    """Whether a clock was measured again in the run in ``folder``."""
    try:
        return any(name.endswith(SUFFIX) for name in os.listdir(os.path.join(folder, "raw")))
    except OSError:
        return False
