"""Medians and how sure they are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

RESAMPLES = 400


class Spread(NamedTuple):
    """A median, the bounds that hold 95 of 100 resampled medians, and the number of samples."""

    median: float
    low: float
    high: float
    n: int

    def text(self, digits: int) -> str:
        """For a table, with so many digits after the point."""
        bounds = f"{self.low:+.{digits}f} … {self.high:+.{digits}f}"
        return f"{self.median:+{digits + 4}.{digits}f}  ({bounds}, n={self.n})"


def spread(samples: Sequence[float]) -> Spread:
    """The median of ``samples`` with its bootstrap interval; the same samples give the same answer.

    Raises:
        ValueError: there is no sample.
    """
    if not samples:
        raise ValueError("a median of nothing")
    chance = random.Random(0)
    drawn = sorted(median(chance.choices(samples, k=len(samples))) for _ in range(RESAMPLES))
    edge = RESAMPLES // 40
    return Spread(median(samples), drawn[edge], drawn[-1 - edge], len(samples))


def differences(pairs: Sequence[tuple[float, float]]) -> list[float]:
    """What the second of each pair costs over the first: drift of the machine cancels in a pair."""
    return [with_ - without for without, with_ in pairs]
