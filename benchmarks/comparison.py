"""``python -m benchmarks.comparison``: how often ``inject compare`` is wrong, by simulation.

The steps of a run are an autoregressive series of order one, since slow steps come in groups on real
machines; and each run is faster or slower than others by a factor of its own. Each row of the table compares
a program with itself a thousand times, where every difference that is found is wrong, and with one whose
steps take 5 % longer.
"""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

from injector.analysis.loops import edges_of, sums_of
from injector.compare.statistics import Process, ratio

STEPS = 300
"""Steps of a run."""
SPREAD = 0.1
"""Standard deviation of a step's seconds, as a fraction of their mean."""
SETTLING = 200
"""Values of a series that are dropped, until its start has no influence any more."""


def simulated_run(
    random: np.random.Generator, correlation: float, run_to_run: float, mean: float
) -> npt.NDArray[np.float64]:
    """Seconds of the steps of one run.

    ``correlation`` is that of each step with the one before, ``run_to_run`` the relative spread between runs,
    and ``mean`` the mean seconds of a step.
    """
    noise = random.standard_normal(STEPS + SETTLING)
    # Scaled so that the variance is 1, whatever the correlation.
    values = lfilter([np.sqrt(1 - correlation**2)], [1, -correlation], noise)
    speed = mean * (1 + run_to_run * random.standard_normal())
    return speed * np.maximum(1 + SPREAD * values[SETTLING:], 0.05)


def process(seconds: npt.NDArray[np.float64]) -> Process:
    """A run as the statistics of ``inject compare`` take it: sums over blocks of steps."""
    edges = edges_of(seconds)
    steps = np.diff(edges, append=len(seconds)).astype(np.float64)
    return sums_of(seconds, edges), steps


def finds_difference(
    random: np.random.Generator, runs: int, correlation: float, run_to_run: float, mean: float
) -> bool:
    """Whether ``runs`` of steps of 1 s and as many of ``mean`` seconds are found to be different."""
    sides = [
        [process(simulated_run(random, correlation, run_to_run, size)) for _ in range(runs)]
        for size in (1.0, mean)
    ]
    comparison = ratio(*sides)
    assert comparison is not None
    low, high = comparison.interval()
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
                sum(
                    finds_difference(random, runs, correlation, run_to_run, mean)
                    for _ in range(pairs)
                )
                for mean in (1.0, 1.05)
            )
            what = f"{runs} run{'s' * (runs > 1)} a side, correlation {correlation:g}"
            print(f"| {what} | {wrong} | {right / pairs * 100:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
