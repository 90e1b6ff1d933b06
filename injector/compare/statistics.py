"""The ratio of two rates with an interval, by bootstrap: processes before steps, steps in blocks.

Where there are several processes (runs, repeats, jobs of a study), whole processes are resampled: they differ
from each other by more than the steps within one do, and their differences include those of steps. Of a
single process, blocks of consecutive steps are resampled, since neighbouring steps depend on each other
(Künsch, "The jackknife and the bootstrap for general stationary observations", 1989; Davison and Hinkley,
"Bootstrap methods and their application", 1997, section 3.8); :data:`RUN_TO_RUN` stands for what another run
would differ by.

The bootstrap gives the standard error of the logarithm of the ratio. The interval takes the quantile of
Student's t with the degrees of freedom of Welch and Satterthwaite: percentiles of a bootstrap over three or
five processes would be too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf, isfinite, log, sqrt

import numpy as np
import numpy.typing as npt

from ..errors import UserError

CONFIDENCE = 0.99
"""The probability that all intervals of one table together hold the true ratios."""
RUN_TO_RUN = 0.015
"""The standard deviation, as a part, of runs of one program on one machine, if there is only one run."""
LEAST_BLOCKS = 4
"""Blocks that a single process needs: fewer do not tell how much they differ."""
_DRAWS = 2000
_SEED = 20_240_601
Column = npt.NDArray[np.float64]
Process = tuple[Column, Column]
"""Sums of one process by block: what is counted (seconds, items), and its divisor (steps, seconds)."""


@dataclass(frozen=True)
class Ratio:
    """How many times as large one rate is as another."""

    value: float
    error: float
    """Standard error of its logarithm; infinite if one side is too little to tell."""
    freedom: float
    """Degrees of freedom of that error."""

    def interval(self, comparisons: int = 1) -> tuple[float, float]:
        """The interval of the true ratio, such that ``comparisons`` intervals hold with :data:`CONFIDENCE`.

        By Bonferroni's correction. It is (0, inf) if nothing is known. Raises UserError without scipy.
        """
        if not isfinite(self.error):
            return 0.0, inf
        try:
            from scipy.special import stdtrit  # half a second less than all of scipy.stats
        except ImportError:
            raise UserError(
                "comparing needs scipy: pip install 'overlay-injector[compare]'"
            ) from None

        tail = (1 - CONFIDENCE) / 2 / max(comparisons, 1)
        # exp(710) is infinite.
        half_width = min(float(stdtrit(self.freedom, 1 - tail)) * self.error, 700.0)
        return self.value * exp(-half_width), self.value * exp(half_width)


def ratio(before: Sequence[Process], after: Sequence[Process]) -> Ratio | None:
    """The ratio of the rate ``after`` to the rate ``before``; None if either is 0 or not known."""
    rates = [rate(side) for side in (before, after)]
    if not all(isfinite(each) and each > 0 for each in rates):
        return None
    errors = [_error(side) for side in (before, after)]
    variance = sum(error**2 for error, _ in errors)
    if not isfinite(variance):
        return Ratio(rates[1] / rates[0], inf, 1.0)
    # Welch and Satterthwaite: (Σ e²)² / Σ (e⁴ / freedom).
    weights = sum(error**4 / freedom for error, freedom in errors)
    return Ratio(rates[1] / rates[0], sqrt(variance), variance**2 / weights if weights else 1.0)


def rate(side: Sequence[Process]) -> float:
    """What the processes of ``side`` counted together by their divisors; 0 if those are 0."""
    counted = sum(float(process[0].sum()) for process in side)
    by = sum(float(process[1].sum()) for process in side)
    return counted / by if by else 0.0


def _error(side: Sequence[Process]) -> tuple[float, float]:
    """The standard error of the logarithm of the rate of ``side``, and its degrees of freedom."""
    has_several = len(side) > 1
    size = len(side) if has_several else len(side[0][0])
    if size < (2 if has_several else LEAST_BLOCKS):
        return inf, 1.0
    if has_several:
        units = np.array([[float(column.sum()) for column in process] for process in side])
    else:
        units = np.stack(side[0], axis=1)
    counted, by = (_draw_counts(size) @ units).T
    usable = (counted > 0) & (by > 0)
    if usable.mean() < 0.5:
        return inf, 1.0
    # A bootstrap of n units has (n - 1) / n of their variance.
    spread = float(np.log(counted[usable] / by[usable]).std()) * sqrt(size / (size - 1))
    return (spread if has_several else sqrt(spread**2 + RUN_TO_RUN**2)), float(size - 1)


@lru_cache(maxsize=16)
def _draw_counts(size: int) -> Column:
    """How often each of ``size`` units is in each draw of so many with replacement: shape (draws, size).

    Kept for all sides with as many units, since drawing takes nearly all of a comparison's time.
    """
    drawn = np.random.default_rng(_SEED).integers(size, size=(_DRAWS, size))
    drawn += np.arange(_DRAWS)[:, None] * size  # one bincount for all draws
    return np.bincount(drawn.ravel(), minlength=_DRAWS * size).reshape(_DRAWS, size).astype(float)


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean of positive ``ratios``. Raises ZeroDivisionError if there are none."""
    return exp(sum(map(log, ratios)) / len(ratios))
