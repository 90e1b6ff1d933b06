"""A suite's result as a table: one row a benchmark, and what all of it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import NamedTuple

from . import score
from .outcome import BenchmarkResult, SuiteResult


class Row(NamedTuple):
    """The figures of one benchmark; docs/scores.md defines each. None for what is not known."""

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


def rows(suite: SuiteResult) -> list[Row]:
    """A row for each benchmark that ran or should have."""
    return [row_of(benchmark, suite.ddof) for benchmark in suite.benchmarks]


def row_of(benchmark: BenchmarkResult, ddof: int = score.SAMPLE) -> Row:
    """The figures of ``benchmark``."""
    perf = score.perf(benchmark.rates, ddof)
    power = _mean([p.record.power for p in benchmark.processes if p.record])
    return Row(
        benchmark=benchmark.name,
        fail=benchmark.failures,
        n=benchmark.runs,
        ngpu=benchmark.devices,
        perf=perf.mean if perf else None,
        unit=_unit(benchmark),
        sem=perf.sem_share if perf else None,
        std=perf.std_share if perf else None,
        peak_memory=_peak(benchmark),
        energy=_mean([p.record.energy for p in benchmark.processes if p.record]),
        perf_per_watt=perf.mean / power if perf and power else None,
        score=score.benchmark_score(benchmark.by_slot, benchmark.runs, benchmark.failures, ddof),
        weight=benchmark.weight if benchmark.enabled else 0.0,
    )


def total(suite: SuiteResult) -> Total:
    """All benchmarks together, and as in milabench those that this machine is not made for, with 0."""
    found = rows(suite)
    scores = [(row.score, row.weight) for row in found]
    absent = [(0.0, each.weight) for each in suite.left_out if not each.failure]
    return Total(
        fail=sum(row.fail for row in found),
        n=sum(row.n for row in found),
        score=_score([*scores, *absent]),
        weight=fsum(weight for _, weight in (*scores, *absent)),
        left_out=fsum(weight for _, weight in absent),
        score_of_run=_score(scores),
    )


def _score(scores: Sequence[tuple[float, float]]) -> float | None:
    """The suite's score; None where all are 0, since the 1 that the formula gives looks like a result."""
    measured = any(each > 0 and weight > 0 for each, weight in scores)
    return score.suite_score(scores) if measured else None


def _unit(benchmark: BenchmarkResult) -> str:
    units = [p.record.unit for p in benchmark.processes if p.record and p.rates]
    return " or ".join(dict.fromkeys(units)) or "items/s"


def _peak(benchmark: BenchmarkResult) -> float | None:
    if benchmark.peak_memory is not None:
        return benchmark.peak_memory
    known = [process.record.memory for process in benchmark.processes if process.record]
    return max((each for each in known if each is not None), default=None)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None
