"""The scores of benchmarks and suites: the formulas of docs/scores.md, and the table of a suite.

Scores are built in three levels, of which each is milabench's, so that results can be compared with published
ones. A benchmark that ran on two devices, and failed in one of four runs::

    rates of device 0   100 101 103 104 140   perf 102.67   (without 100 and 140)
    rates of device 1    98  99                perf  98.5    (of fewer than five rates, all count)

    score = (102.67 + 98.5) * (1 - 1 / 4) = 150.9

The suite's score is the weighted geometric mean of those of its benchmarks. A benchmark that did not run
failed in all of its runs, so that it scores 0 and lowers the mean: it cannot be absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, fsum, isfinite, log, sqrt
from typing import NamedTuple

from ...analysis.statistics import deviation, mean_of_known
from .suite_summary import BenchmarkSummary, SuiteSummary

TRIMMED_FROM = 5
"""The least number of values of which the smallest and the largest are left out."""
SAMPLE, POPULATION = 1, 0
"""Degrees of freedom that a standard deviation lacks: squares are averaged over n - 1, in milabench n."""


class Perf(NamedTuple):
    """The trimmed mean of a benchmark's rates, and their spread, in items per second."""

    n: int
    """How many rates there are, with those that are left out."""
    mean: float
    std: float
    """The standard deviation of the rates that are left; 0 if these are fewer than two."""
    sem: float
    """The standard error of the mean."""

    @property
    def std_share(self) -> float | None:
        """The standard deviation as a fraction of the mean; None if that is 0."""
        return self.std / self.mean if self.mean else None


def trimmed(values: Iterable[float]) -> list[float]:
    """The finite values in ascending order, of five or more without the smallest and the largest."""
    ordered = sorted(value for value in values if isfinite(value))
    return ordered[1:-1] if len(ordered) >= TRIMMED_FROM else ordered


def perf(rates: Iterable[float], ddof: int = SAMPLE) -> Perf | None:
    """The trimmed mean of ``rates`` (items per second) with its spread; None without a finite rate.

    This is ``summary._metrics`` of milabench. There, and for its run folders, the standard deviation is that
    of the population (``ddof`` 0); here it is the sample's.
    """
    finite = [rate for rate in rates if isfinite(rate)]
    kept = trimmed(finite)
    if not kept:
        return None
    n = len(kept)
    mean = fsum(kept) / n
    std = deviation(kept, mean, ddof)
    return Perf(len(finite), mean, std, std / sqrt(n))


def benchmark_score(
    by_device: Mapping[str, Sequence[float]], runs: int, failures: int, ddof: int = SAMPLE
) -> float:
    """(Σ over its devices of perf) × (1 - failures / runs): ``report._make_row`` of milabench.

    ``by_device`` has the rates of each process that works beside others, over all repeats; a job that
    spans all devices is one entry. Returns 0 if nothing was measured.
    """
    perfs = (perf(rates, ddof) for rates in by_device.values())
    added = fsum(one.mean for one in perfs if one)
    succeeded = 1 - failures / runs if runs else 0.0
    return added * max(succeeded, 0.0)


def suite_score(scores: Iterable[tuple[float, float]]) -> float | None:
    """exp(Σ w·ln(score + 1) / Σ w) of ``(score, weight)``: ``report.make_report`` of milabench.

    It is a weighted geometric mean; adding 1 keeps a benchmark of score 0 from making everything 0. Returns
    None if no weight is above 0.
    """
    counted = [(score, weight) for score, weight in scores if weight > 0]
    total = fsum(weight for _, weight in counted)
    if not total:
        return None
    return exp(fsum(weight * log(score + 1) for score, weight in counted) / total)


# --- the table of benchmarks ----------------------------------------------------------------------


class Row(NamedTuple):
    """The figures of one benchmark, which docs/scores.md defines; None for what is not known."""

    benchmark: str
    fail: int
    """How many runs failed; 1 for a benchmark that should have run and did not."""
    n: int
    """How many runs there should have been."""
    ngpu: int
    perf: float | None
    unit: str
    sem: float | None
    """The standard error of perf, as a fraction of it."""
    std: float | None
    """The standard deviation of the rates, as a fraction of perf."""
    peak_memory: float | None
    """Bytes, the most that any of its devices held."""
    energy: float | None
    """Joules of one run, on average."""
    perf_per_watt: float | None
    """perf divided by the mean watts of a run."""
    score: float
    weight: float
    """The weight in the suite's score."""


class Total(NamedTuple):
    """The figures of the whole suite."""

    fail: int
    n: int
    score: float | None
    """None where no benchmark has a weight, and where none scores more than 0."""
    weight: float
    """The weight of all that the score counts."""
    left_out: float
    """The weight of benchmarks that were left out, which count with a score of 0."""
    score_of_run: float | None
    """The score without the benchmarks that were left out."""

    @property
    def failure_rate(self) -> float:
        """The fraction of runs that failed."""
        return self.fail / self.n if self.n else 0.0


def rows(suite: SuiteSummary) -> list[Row]:
    """A row for each benchmark that ran or should have run."""
    return [row_of(benchmark, suite.ddof) for benchmark in suite.benchmarks]


def row_of(benchmark: BenchmarkSummary, ddof: int = SAMPLE) -> Row:
    """The figures of ``benchmark``."""
    perf_of_all = perf(benchmark.rates, ddof)
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
        perf=perf_of_all.mean if perf_of_all else None,
        unit=" or ".join(dict.fromkeys(units)) or "items/s",
        sem=perf_of_all.sem / perf_of_all.mean if perf_of_all and perf_of_all.mean else None,
        std=perf_of_all.std_share if perf_of_all else None,
        peak_memory=max(peaks, default=None) if benchmark.peak_memory is None else benchmark.peak_memory,
        energy=mean_of_known(record.energy for record in records),
        perf_per_watt=perf_of_all.mean / power if perf_of_all and power else None,
        score=benchmark_score(benchmark.by_slot, benchmark.runs, benchmark.failures, ddof),
        weight=benchmark.weight if benchmark.enabled else 0.0,
    )  # fmt: skip


def total(suite: SuiteSummary) -> Total:
    """The figures of all benchmarks together.

    As in milabench, benchmarks that this machine cannot run count with a score of 0: otherwise a machine with
    fewer devices would score higher for leaving out what is too large for it.
    """
    benchmarks = rows(suite)
    ran = [(row.score, row.weight) for row in benchmarks]
    # What should have run and did not is among the rows already, as a failure.
    absent = [(0.0, skipped.weight) for skipped in suite.left_out if not skipped.failure]
    return Total(
        fail=sum(row.fail for row in benchmarks),
        n=sum(row.n for row in benchmarks),
        score=_measured_score([*ran, *absent]),
        weight=fsum(weight for _, weight in (*ran, *absent)),
        left_out=fsum(weight for _, weight in absent),
        score_of_run=_measured_score(ran),
    )


def _measured_score(weighted: Sequence[tuple[float, float]]) -> float | None:
    """The suite's score; None if nothing scores above 0: the formula's 1 would look like a result."""
    measured = any(score > 0 and weight > 0 for score, weight in weighted)
    return suite_score(weighted) if measured else None
