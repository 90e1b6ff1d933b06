"""``python -m benchmarks.comparison``: how often ``inject compare`` is wrong, by simulation.

Steps are an autoregressive series of order one; runs differ by a factor of their own. Each row compares a
program with itself a thousand times, and with one whose steps take 5 % longer.
"""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

from injector.analysis.loops import edges_of, sums_of
from injector.compare.statistics import Process, ratio

STEPS, SPREAD = 300, 0.1
"""Of a run; and of a step, as a part."""


def series(
    random: np.random.Generator, correlation: float, run_to_run: float, mean: float
) -> npt.NDArray[np.float64]:
    """Seconds of the steps of one run."""
    noise = random.standard_normal(STEPS + 200)
    found = lfilter([np.sqrt(1 - correlation**2)], [1, -correlation], noise)
    speed = mean * (1 + run_to_run * random.standard_normal())
    return speed * np.maximum(1 + SPREAD * found[200:], 0.05)


def process(seconds: npt.NDArray[np.float64]) -> Process:
    """What the statistics take of it."""
    edges = edges_of(seconds)
    steps = np.diff(edges, append=len(seconds)).astype(np.float64)
    return sums_of(seconds, edges), steps


def called(
    random: np.random.Generator, runs: int, correlation: float, run_to_run: float, mean: float
) -> bool:
    """Whether ``runs`` of both are called different."""
    sides = [
        [process(series(random, correlation, run_to_run, size)) for _ in range(runs)]
        for size in (1.0, mean)
    ]
    found = ratio(*sides)
    assert found is not None
    low, high = found.interval()
    return low > 1 or high < 1


def main() -> None:
    """Print the table of docs/compare.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000)
    pairs = parser.parse_args().pairs
    random = np.random.default_rng(2026)
    for runs, run_to_run in ((1, 0.01), (3, 0.01), (5, 0.01)):
        for correlation in (0.0, 0.5, 0.9):
            wrong, right = (
                sum(called(random, runs, correlation, run_to_run, mean) for _ in range(pairs))
                for mean in (1.0, 1.05)
            )
            what = f"{runs} run{'s' * (runs > 1)} a side, correlation {correlation:g}"
            print(f"| {what} | {wrong} | {right / pairs * 100:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
