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
    ordered = np.sort(values)  # of single floats that takes half of what a partition does
    middle, late = _at(ordered, 0.5), _at(ordered, 0.95)
    return Statistics(n, mean, middle, late, std, float(ordered[0]), float(ordered[-1]))


def median_of(values: npt.NDArray[np.floating]) -> float:
    """0 of nothing."""
    return _at(np.sort(values), 0.5) if len(values) else 0.0


def _at(ordered: npt.NDArray[np.floating], fraction: float) -> float:
    place = (len(ordered) - 1) * fraction
    low, high = float(ordered[int(place)]), float(ordered[min(int(place) + 1, len(ordered) - 1)])
    return low + (high - low) * (place - int(place))


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
    usual = median_of(seconds[most:])
    slow = seconds[:most] > 1.5 * usual
    return max(1, most if slow.all() else int(slow.argmin()))
