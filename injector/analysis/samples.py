"""Statistics of columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .rates import Statistics

_BLOCKS = 16
_LONGEST = 64


def statistics_of(values: npt.NDArray[np.floating]) -> Statistics:
    """As :func:`.rates.statistics`, of a column; all 0 if there is nothing."""
    n = len(values)
    if not n:
        return Statistics(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    mean = float(values.mean(dtype=np.float64))
    std = float(values.std(ddof=1, dtype=np.float64)) if n > 1 else 0.0
    middle, late = _percentiles(values, (0.5, 0.95))
    return Statistics(n, mean, middle, late, std, float(values.min()), float(values.max()))


def _percentiles(values: npt.NDArray[np.floating], fractions: tuple[float, ...]) -> list[float]:
    places = [(len(values) - 1) * fraction for fraction in fractions]
    wanted = {min(int(place) + more, len(values) - 1) for place in places for more in (0, 1)}
    parted = np.partition(values, sorted(wanted))
    found = []
    for place in places:
        low = float(parted[int(place)])
        high = float(parted[min(int(place) + 1, len(values) - 1)])
        found.append(low + (high - low) * (place - int(place)))
    return found


def typical_share(part: npt.NDArray[np.floating], whole: npt.NDArray[np.floating]) -> float:
    """Which part of ``whole`` is usually ``part``, 0…1: the median over blocks of steps.

    Not the median of single steps: loaders with several workers hand out batches in bursts, so that a
    wait that is long in every eighth step is no exception.
    """
    n = len(whole)
    size = max(1, min(_LONGEST, n // _BLOCKS))
    edges = np.arange(0, n - size + 1, size)
    if not len(edges):
        return 0.0
    parts = np.add.reduceat(part, edges, dtype=np.float64)
    wholes = np.add.reduceat(whole, edges, dtype=np.float64)
    good = wholes > 0
    return float(np.median(parts[good] / wholes[good])) if good.any() else 0.0


def warmup_of(seconds: npt.NDArray[np.floating]) -> int:
    """How many of the first steps are not like the rest: slower than 1.5 times their median.

    At most a tenth of all, and at least one of five.
    """
    n = len(seconds)
    most = min(max(1, n // 10), n // 2)
    if n < 5:
        return 0
    usual = float(np.median(seconds[most:]))
    slow = seconds[:most] > 1.5 * usual
    return max(1, most if slow.all() else int(slow.argmin()))
