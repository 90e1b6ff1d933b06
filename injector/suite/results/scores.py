"""What benchmarks and suites come to: the formulas of docs/scores.md, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, fsum, isfinite, log, sqrt
from typing import NamedTuple

TRIMMED_FROM = 5
"""Values from which on the smallest and the largest are left out."""
SAMPLE, POPULATION = 1, 0
"""What is taken from n where squares are averaged: milabench divides by n, everything here by n - 1."""


class Perf(NamedTuple):
    """The rates of a benchmark, the smallest and the largest left out where there are five or more."""

    n: int
    """Rates, those that were left out as well."""
    mean: float
    std: float
    """0 where fewer than two are left."""
    sem: float
    """The standard error of the mean."""

    @property
    def std_share(self) -> float | None:
        """Of the mean; None where that is 0."""
        return self.std / self.mean if self.mean else None

    @property
    def sem_share(self) -> float | None:
        """Of the mean; None where that is 0."""
        return self.sem / self.mean if self.mean else None


def trimmed(values: Iterable[float]) -> list[float]:
    """The finite ones of ``values`` in order; of five or more without the smallest and the largest."""
    ordered = sorted(value for value in values if isfinite(value))
    return ordered[1:-1] if len(ordered) >= TRIMMED_FROM else ordered


def perf(rates: Iterable[float], ddof: int = SAMPLE) -> Perf | None:
    """The trimmed mean of ``rates`` (items per second) with its spread; None of nothing.

    milabench's ``summary._metrics``. There, and for its run folders, the standard deviation is that of
    the population (``ddof`` 0); here it is the sample's.
    """
    given = [rate for rate in rates if isfinite(rate)]
    kept = trimmed(given)
    if not kept:
        return None
    n = len(kept)
    mean = fsum(kept) / n
    largest = max(abs(rate - mean) for rate in kept) or 1.0
    squares = fsum(((rate - mean) / largest) ** 2 for rate in kept)
    std = largest * sqrt(squares / (n - ddof)) if n > 1 else 0.0
    return Perf(len(given), mean, std, std / sqrt(n))


def benchmark_score(
    by_device: Mapping[str, Sequence[float]], runs: int, failures: int, ddof: int = SAMPLE
) -> float:
    """(Σ over its devices of perf) × (1 - failures / runs): milabench's ``report._make_row``.

    ``by_device``: the rates of each process that works beside others, over all repeats; a job that
    spans all devices is one entry. 0 where nothing was measured.
    """
    found = (perf(rates, ddof) for rates in by_device.values())
    whole = fsum(each.mean for each in found if each)
    share = 1 - failures / runs if runs else 0.0
    return whole * max(share, 0.0)


def suite_score(scores: Iterable[tuple[float, float]]) -> float | None:
    """exp(Σ w·ln(score + 1) / Σ w) of ``(score, weight)``: milabench's ``report.make_report``.

    A weighted geometric mean; adding 1 keeps a benchmark of score 0 from making everything 0. None
    where no weight is above 0.
    """
    counted = [(score, weight) for score, weight in scores if weight > 0]
    total = fsum(weight for _, weight in counted)
    if not total:
        return None
    return exp(fsum(weight * log(score + 1) for score, weight in counted) / total)
