"""The ratio of two rates with an interval, by bootstrap: processes before steps, steps in blocks.

Where there are several processes (runs, repeats, jobs of a study), those are resampled whole: they differ
from each other by more than the steps inside one do, and that holds what their steps vary. Of a single
process it is blocks of consecutive steps, since neighbouring steps depend on each other (Künsch, "The
jackknife and the bootstrap for general stationary observations", 1989; Davison and Hinkley, "Bootstrap
methods and their application", 1997, section 3.8), and :data:`RUN_TO_RUN` stands for what another run would
differ by.

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
"""Of all the intervals of one table together that they hold what is true."""
RUN_TO_RUN = 0.015
"""Standard deviation, as a part, by which runs of one program on one machine are taken to differ where one
run alone cannot tell."""
LEAST_BLOCKS = 4
"""Of a single process: fewer say nothing of how much its blocks differ."""
_DRAWS = 2000
_SEED = 20_240_601
Column = npt.NDArray[np.float64]
Process = tuple[Column, Column]
"""Of one process by block: what is counted (seconds, items), and what by (steps, seconds)."""


@dataclass(frozen=True)
class Ratio:
    """How many times as large a rate is in B as in A."""

    value: float
    error: float
    """Standard error of its logarithm; infinite where one side is too little to tell."""
    freedom: float
    """Degrees of freedom of that error."""

    def interval(self, comparisons: int = 1) -> tuple[float, float]:
        """That holds the true ratio with :data:`CONFIDENCE`, for all of so many ``comparisons`` together.

        Bonferroni's correction. From 0 to infinity where nothing is known. Raises UserError where
        scipy is not installed.
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
        wide = min(float(stdtrit(self.freedom, 1 - tail)) * self.error, 700.0)
        return self.value * exp(-wide), self.value * exp(wide)


def ratio(before: Sequence[Process], after: Sequence[Process]) -> Ratio | None:
    """Of the rate ``after`` to the rate ``before``; None where one of them is 0 or not known."""
    rates = [_rate(side) for side in (before, after)]
    if not all(isfinite(rate) and rate > 0 for rate in rates):
        return None
    errors = [_error(side) for side in (before, after)]
    total = sum(error**2 for error, _ in errors)
    if not isfinite(total):
        return Ratio(rates[1] / rates[0], inf, 1.0)
    weights = sum(error**4 / freedom for error, freedom in errors)
    return Ratio(rates[1] / rates[0], sqrt(total), total**2 / weights if weights else 1.0)


def _rate(side: Sequence[Process]) -> float:
    counted = sum(float(process[0].sum()) for process in side)
    by = sum(float(process[1].sum()) for process in side)
    return counted / by if by else 0.0


def _error(side: Sequence[Process]) -> tuple[float, float]:
    """Standard error of the logarithm of the rate of ``side``, and its degrees of freedom."""
    number = len(side)
    size = number if number > 1 else len(side[0][0])
    if size < (2 if number > 1 else LEAST_BLOCKS):
        return inf, 1.0
    if number > 1:  # what differs between processes holds what differs within them
        things = np.array([[float(part.sum()) for part in process] for process in side])
    else:
        things = np.stack(side[0], axis=1)
    counted, by = (_drawn(size) @ things).T
    usable = (counted > 0) & (by > 0)
    if usable.mean() < 0.5:
        return inf, 1.0
    # A bootstrap of n things has (n - 1) / n of their variance.
    spread = float(np.log(counted[usable] / by[usable]).std()) * sqrt(size / (size - 1))
    return (spread if number > 1 else sqrt(spread**2 + RUN_TO_RUN**2)), float(size - 1)


@lru_cache(maxsize=16)
def _drawn(size: int) -> Column:
    """How often each of ``size`` things is in each draw, (draws, size): what a comparison draws is alike
    for all that have as many, and drawing is nearly all of its time."""
    which = np.random.default_rng(_SEED).integers(size, size=(_DRAWS, size))
    which += np.arange(_DRAWS)[:, None] * size
    return np.bincount(which.ravel(), minlength=_DRAWS * size).reshape(_DRAWS, size).astype(float)


def geometric_mean(ratios: Sequence[float]) -> float:
    """Raises ZeroDivisionError when there are none."""
    return exp(sum(map(log, ratios)) / len(ratios))
