"""Medians with their confidence intervals."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

RESAMPLES = 400
"""How many resampled medians an interval is made of."""


class Spread(NamedTuple):
    """A median, its 95 % interval by bootstrap, and the number of samples."""

    median: float
    low: float
    high: float
    n: int

    def text(self, digits: int) -> str:
        """The text for a table, with so many digits after the point."""
        bounds = f"{self.low:+.{digits}f} … {self.high:+.{digits}f}"
        return f"{self.median:+{digits + 4}.{digits}f}  ({bounds}, n={self.n})"


def spread(samples: Sequence[float]) -> Spread:
    """The median of ``samples`` with its bootstrap interval. Raises ValueError if there is no sample."""
    if not samples:
        raise ValueError("a median of nothing")
    generator = random.Random(0)  # the same samples always give the same interval
    medians = sorted(median(generator.choices(samples, k=len(samples))) for _ in range(RESAMPLES))
    edge = RESAMPLES // 40  # 2.5 % on either side
    return Spread(median(samples), medians[edge], medians[-1 - edge], len(samples))


def differences(pairs: Sequence[tuple[float, float]]) -> list[float]:
    """By how much the second of each pair is larger than the first: slow changes of the machine cancel."""
    return [with_ - without for without, with_ in pairs]
