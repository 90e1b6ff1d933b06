"""How the clock of a host drifts from that of the run while the run goes on, ``HOST.PID.drift``; layout and
reader.

The file has the form of a log (:mod:`.logs`). After the event ``process`` come events ``clock``, each a
measurement: ``at`` is its moment, nanoseconds of the host's monotonic clock; ``low`` and ``high`` are the
time that the run's clock showed then, unix seconds at least and at most; ``of`` names the host whose clock is
the run's. That clock is the one that the host had when the run began, so it is not set while the run goes on.

From the measurements follows a :class:`Drift` (:func:`fit`), by which readers correct all times of the host.

Versions are those of :mod:`..schema`:

1. the first. Runs of earlier versions, which measured once, have no such file.
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
WIDEST = 4
"""A measurement whose bounds are so many times as wide as the median is left out, as its answer came late."""
BEYOND = 10**14
"""Nanoseconds, more than a day: before the first and after the last measurement, the drift goes on."""


class ClockReading(NamedTuple):
    """A measurement: the run's clock at one moment of a host."""

    at: int
    """The moment, nanoseconds of the host's monotonic clock."""
    low: float
    """The run's clock, unix seconds at least."""
    high: float
    """The run's clock, unix seconds at most."""


class Drift(NamedTuple):
    """The seconds to add to the unix times of a host, which change linearly between moments of the run."""

    moments: tuple[int, ...]
    """Nanoseconds of the host's monotonic clock, rising."""
    seconds: tuple[float, ...]

    def at(self, t: int) -> float:
        """The seconds to add at ``t``, nanoseconds of the host's monotonic clock."""
        right = min(max(bisect_right(self.moments, t), 1), len(self.moments) - 1)
        return _between(self.moments, self.seconds, right - 1, right, t)


class FittedDrift(NamedTuple):
    """The drift of a host as its measurements show it."""

    drift: Drift | None
    """None if the measurements are consistent with no drift at all."""
    measured: int
    """The number of measurements that it is based on."""
    length: float
    """Seconds from the first to the last of them."""
    change: float
    """Seconds by which the difference of the clocks changed in that time."""
    error: float
    """The most seconds by which corrected times are off at the measurements, as far as these show."""


def fit(measurements: Iterable[ClockReading], unix: Callable[[int], float]) -> FittedDrift | None:
    """The drift of a host whose own unix seconds are ``unix(t)``; None without measurements.

    Each measurement bounds what has to be added to ``unix`` at its moment. The simplest correction that is
    within all bounds is taken: nothing; or the same at all moments; or the middle of the bounds at each
    moment, and linear in between. Of the last, the error includes how far each middle is from the line
    between its neighbours.
    """
    readings = sorted(measurements)
    bounds = [(r.at, r.low - unix(r.at), r.high - unix(r.at)) for r in readings]
    widths = sorted(high - low for _, low, high in bounds)
    kept = [bound for bound in bounds if bound[2] - bound[1] <= WIDEST * widths[len(widths) // 2]]
    if not kept:
        return None
    moments = [at for at, _, _ in kept]
    length = (moments[-1] - moments[0]) / 1e9
    # The bounds that all measurements have in common; there are none if low > high.
    low, high = max(bound[1] for bound in kept), min(bound[2] for bound in kept)
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
    error += max(_deviations(moments, middles), default=0.0)
    slope = (middles[-1] - middles[0]) / (moments[-1] - moments[0])
    # Before the first measurement and after the last, the clock is taken to drift as on the whole: two
    # neighbours may be too close to each other for a slope.
    drift = Drift(
        (moments[0] - BEYOND, *moments, moments[-1] + BEYOND),
        (middles[0] - slope * BEYOND, *middles, middles[-1] + slope * BEYOND),
    )
    return FittedDrift(drift, len(kept), length, middles[-1] - middles[0], error)


def _deviations(moments: Sequence[int], values: Sequence[float]) -> Iterator[float]:
    """The distance of each value, but the first and the last, from the line between its neighbours."""
    for n in range(1, len(moments) - 1):
        yield abs(values[n] - _between(moments, values, n - 1, n + 1, moments[n]))


def _between(
    moments: Sequence[int], values: Sequence[float], left: int, right: int, t: int
) -> float:
    """The value at ``t`` on the line through the values with the indices ``left`` and ``right``."""
    share = (t - moments[left]) / (moments[right] - moments[left])
    return values[left] + share * (values[right] - values[left])


def measurement_of(data: Any) -> ClockReading | None:
    """The measurement in ``data`` of an event; None if it is none."""
    if not isinstance(data, dict):
        return None
    at, low, high = (data.get(key) for key in ("at", "low", "high"))
    if not isinstance(at, int) or not isinstance(low, float) or not isinstance(high, float):
        return None
    return ClockReading(at, low, high) if low <= high else None


def is_there(folder: str) -> bool:
    """Whether the run in ``folder`` has files of measurements."""
    try:
        return any(name.endswith(SUFFIX) for name in os.listdir(os.path.join(folder, "raw")))
    except OSError:
        return False
