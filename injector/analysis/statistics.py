"""Statistics of single samples, in plain Python: what a report of few values needs without NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum, inf, nan, sqrt

from ..value_class import value_class

_NON_FINITE = {"NaN": nan, "Infinity": inf, "-Infinity": -inf}
"""How :func:`.summary.plain` and others write numbers that JSON lacks."""


@value_class
class Statistics:
    """Statistics of one sample, in its own unit."""

    n: int
    mean: float
    median: float
    p95: float
    std: float
    """The sample standard deviation (divided by n - 1); 0 for n < 2."""
    min: float
    max: float


def sum_of_known(values: Iterable[float | None]) -> float | None:
    """The sum of the values that are not None; None if all are."""
    known = [value for value in values if value is not None]
    return fsum(known) if known else None


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """The mean of those that are not None; None where there is none."""
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """The value below which ``fraction`` of the sorted values lies, interpolated between its neighbours.

    This is numpy's default: R-7 of Hyndman and Fan, "Sample quantiles in statistical packages", 1996.
    Raises ValueError if ``ordered`` is empty.
    """
    if not ordered:
        raise ValueError("no percentile of nothing")
    position = (len(ordered) - 1) * fraction
    below = min(int(position), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    low, high = ordered[below], ordered[above]
    return low + (high - low) * (position - below)


def deviation(values: Sequence[float], mean: float, ddof: int = 1) -> float:
    """The standard deviation about ``mean``, by squares averaged over n - ``ddof``; 0 for n < 2."""
    if len(values) < 2:
        return 0.0
    # Scaled, so that neither very large nor very small values leave the range when squared.
    largest = max(abs(value - mean) for value in values) or 1.0
    squares = fsum(((value - mean) / largest) ** 2 for value in values)
    return largest * sqrt(squares / (len(values) - ddof))


def statistics(values: Iterable[float]) -> Statistics | None:
    """Mean, spread and percentiles of ``values``, which are all finite; None if there are none."""
    ordered = sorted(values)
    n = len(ordered)
    if not n:
        return None
    # Divided before they are added up: the sum of a diverging loss may be more than a float can hold.
    mean = fsum(value / n for value in ordered)
    std = deviation(ordered, mean)
    median, p95 = percentile(ordered, 0.5), percentile(ordered, 0.95)
    return Statistics(n, mean, median, p95, std, ordered[0], ordered[-1])


def number(value: object) -> float | None:
    """Convert ``value`` to a float; None if it is no number.

    NaN and infinities may be spelled out, as JSON has no numbers for them. A bool is no number.
    """
    if isinstance(value, str):
        return _NON_FINITE.get(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:  # an int beyond the floats, such as 10**400
            return inf
    return None
