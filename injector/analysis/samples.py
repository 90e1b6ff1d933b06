"""Statistics of columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .recorded import Statistics

_TIMES, _PART, _MANY = 10, 0.1, 200


def statistics_of(values: npt.NDArray[np.floating]) -> Statistics:
    """As :func:`.recorded.statistics`, of a column; all 0 if there is nothing."""
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


def exceptional(seconds: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    """Which of these steps stand for nothing but themselves: one, of 200 steps or more at most two.

    They take more than ten times the median, and together a tenth of all the time. What comes back,
    as a checkpoint after each epoch does, is no exception.
    """
    n = len(seconds)
    none = np.zeros(n, np.bool_)
    if n < 3:
        return none
    usual = median_of(seconds)
    slow = np.flatnonzero(seconds > _TIMES * usual) if usual > 0 else np.empty(0, np.int64)
    if not 0 < len(slow) <= (1 if n < _MANY else 2):
        return none
    if seconds[slow].sum(dtype=np.float64) < _PART * seconds.sum(dtype=np.float64):
        return none
    none[slow] = True
    return none


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
