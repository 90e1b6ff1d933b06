"""The scores of benchmarks and suites: the formulas of docs/scores.md, and the table of a suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, fsum, isfinite, log, sqrt
from typing import NamedTuple

from ...analysis.recorded import mean_of_known
from .suite_summary import BenchmarkSummary, SuiteSummary

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


# --- the table of benchmarks ----------------------------------------------------------------------


class Row(NamedTuple):
    """The figures of one benchmark; docs/md defines each. None for what is not known."""

    benchmark: str
    fail: int
    """Runs that failed; one for a benchmark that should have run and did not."""
    n: int
    """Runs that there should have been."""
    ngpu: int
    """Devices of one run."""
    perf: float | None
    unit: str
    sem: float | None
    """The standard error of perf, as a fraction of it."""
    std: float | None
    """The standard deviation of the rates, as a fraction of perf."""
    peak_memory: float | None
    """Bytes, the most that any of its devices held."""
    energy: float | None
    """Joules of one run."""
    perf_per_watt: float | None
    """perf by the watts of one run."""
    score: float
    weight: float
    """What it counts in the suite's score."""


class Total(NamedTuple):
    """The whole suite."""

    fail: int
    n: int
    score: float | None
    """None where no benchmark has a weight, and where none scores more than 0."""
    weight: float
    """Of everything that the score counts."""
    left_out: float
    """Weight of what was left out, which counts with 0."""
    score_of_run: float | None
    """The score without what was left out."""

    @property
    def failure_rate(self) -> float:
        """0…1."""
        return self.fail / self.n if self.n else 0.0


def rows(suite: SuiteSummary) -> list[Row]:
    """A row for each benchmark that ran or should have."""
    return [row_of(benchmark, suite.ddof) for benchmark in suite.benchmarks]


def row_of(benchmark: BenchmarkSummary, ddof: int = SAMPLE) -> Row:
    """The figures of ``benchmark``."""
    found = perf(benchmark.rates, ddof)
    records = [process.record for process in benchmark.processes if process.record]
    units = [
        process.record.unit for process in benchmark.processes if process.record and process.rates
    ]
    power = mean_of_known(record.power for record in records)
    peaks = [record.memory for record in records if record.memory is not None]
    return Row(
        benchmark=benchmark.name,
        fail=benchmark.failures,
        n=benchmark.runs,
        ngpu=benchmark.devices,
        perf=found.mean if found else None,
        unit=" or ".join(dict.fromkeys(units)) or "items/s",
        sem=found.sem_share if found else None,
        std=found.std_share if found else None,
        peak_memory=max(peaks, default=None) if benchmark.peak_memory is None else benchmark.peak_memory,
        energy=mean_of_known(record.energy for record in records),
        perf_per_watt=found.mean / power if found and power else None,
        score=benchmark_score(benchmark.by_slot, benchmark.runs, benchmark.failures, ddof),
        weight=benchmark.weight if benchmark.enabled else 0.0,
    )  # fmt: skip


def total(suite: SuiteSummary) -> Total:
    """All benchmarks together, and as in milabench those that this machine is not made for, with 0."""
    found = rows(suite)
    ran = [(row.score, row.weight) for row in found]
    absent = [(0.0, each.weight) for each in suite.left_out if not each.failure]
    return Total(
        fail=sum(row.fail for row in found),
        n=sum(row.n for row in found),
        score=_measured_score([*ran, *absent]),
        weight=fsum(weight for _, weight in (*ran, *absent)),
        left_out=fsum(weight for _, weight in absent),
        score_of_run=_measured_score(ran),
    )


def _measured_score(weighted: Sequence[tuple[float, float]]) -> float | None:
    """The suite's score; None where all are 0, since the 1 that the formula gives looks like a result."""
    measured = any(each > 0 and weight > 0 for each, weight in weighted)
    return suite_score(weighted) if measured else None
