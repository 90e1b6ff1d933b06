"""How often the intervals are wrong, by simulation, and how often they see what is there."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from sampled import blocks, process, steps

from injector.analysis.step_blocks import MOST, correlation_time
from injector.compare.statistics import RUN_TO_RUN, geometric_mean, ratio


def called(before, after):
    """Whether the interval excludes that both are the same."""
    found = ratio(before, after)
    low, high = found.interval()
    return low > 1 or high < 1


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("runs", "run_to_run"), [(1, 0.01), (3, 0.0), (3, 0.02), (5, 0.02)])
def test_the_same_program_twice_is_not_called_different(correlation, runs, run_to_run):
    random = np.random.default_rng(7)
    wrong = 0
    for _ in range(60):
        one, two = (
            [
                process(steps(random, correlation=correlation, run_to_run=run_to_run))
                for _ in range(runs)
            ]
            for _ in range(2)
        )
        wrong += called(one, two)
    assert wrong <= 3, wrong


def test_five_runs_each_find_five_percent():
    random = np.random.default_rng(8)
    found = 0
    for _ in range(60):
        one = [process(steps(random, run_to_run=0.005)) for _ in range(5)]
        two = [process(steps(random, mean=1.05, run_to_run=0.005)) for _ in range(5)]
        low, _ = ratio(one, two).interval()
        found += low > 1
    assert found >= 54, found


def test_one_run_each_finds_what_runs_do_not_differ_by():
    random = np.random.default_rng(9)
    one, two = process(steps(random, 1000)), process(steps(random, 1000, mean=1.3))
    low, high = ratio([one], [two]).interval()
    assert 1.2 < low < 1.3 < high < 1.4
    assert ratio([one], [one]).error > RUN_TO_RUN  # it is taken to differ from another of its own


@pytest.mark.parametrize("number", [1, 3, 9, 19])
def test_few_steps_of_one_run_say_nothing(number):
    one = process(steps(np.random.default_rng(1), number))
    assert ratio([one], [one]).interval() == (0.0, inf)


def test_more_comparisons_make_wider_intervals():
    random = np.random.default_rng(3)
    found = ratio([process(steps(random))], [process(steps(random))])
    widths = [high - low for low, high in map(found.interval, (1, 2, 10, 100))]
    assert widths == sorted(widths) and widths[-1] > 1.2 * widths[0]


def test_what_is_not_there_has_no_ratio():
    nothing = (np.zeros(5), np.ones(5))
    assert ratio([nothing], [process(steps(np.random.default_rng(1)))]) is None


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_the_correlation_time_of_a_known_series(correlation):
    """1 + 2 Σ φ^k = (1 + φ) / (1 - φ) of an autoregressive series of order one."""
    random = np.random.default_rng(5)
    found = np.median(
        [correlation_time(steps(random, 4000, correlation=correlation)) for _ in range(9)]
    )
    assert found == pytest.approx((1 + correlation) / (1 - correlation), rel=0.25)


@pytest.mark.parametrize("number", [1, 2, 7, 100, 5000, 20_000])
@pytest.mark.parametrize("correlation", [0.0, 0.95])
def test_blocks_hold_all_steps(number, correlation):
    seconds = steps(np.random.default_rng(2), number, correlation=correlation)
    made = blocks(seconds, {"io": 0.25, "forward": 0.75})
    assert sum(made.steps) == number and 1 <= len(made.steps) <= MOST
    assert max(made.steps) - min(made.steps) <= 1
    assert sum(made.seconds) == pytest.approx(seconds.sum(), rel=1e-5)
    for name, part in (("io", 0.25), ("forward", 0.75)):
        assert sum(made.regions[name]) == pytest.approx(part * seconds.sum(), rel=1e-5)


def test_a_series_that_never_changes():
    assert correlation_time(np.full(100, 2.0, np.float32)) == 1.0


def test_geometric_mean():
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
