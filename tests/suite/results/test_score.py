"""The formulas, against numbers computed by hand."""

from __future__ import annotations

from math import exp, isclose, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.suite.results.scores import POPULATION, benchmark_score, perf, suite_score, trimmed

rates = st.lists(st.floats(0.001, 1e9), min_size=1, max_size=30)


def test_of_five_rates_the_smallest_and_the_largest_are_left_out():
    # 10 11 12 13 1000 → 11 12 13: mean 12, sample std 1, sem 1/√3
    found = perf([12, 1000, 10, 13, 11])
    assert found is not None
    assert (found.n, found.mean, found.std) == (5, 12, 1)
    assert found.sem == pytest.approx(1 / sqrt(3))
    assert found.std_share == pytest.approx(1 / 12)
    population = perf([12, 1000, 10, 13, 11], POPULATION)
    assert population is not None and population.std == pytest.approx(sqrt(2 / 3))


def test_of_four_none_is_left_out():
    found = perf([1, 2, 3, 10])
    assert found is not None and (found.mean, found.n) == (4, 4)
    assert found.std == pytest.approx(sqrt((9 + 4 + 1 + 36) / 3))


def test_one_rate_has_no_spread_and_none_no_perf():
    found = perf([7.5])
    assert found is not None and (found.mean, found.std, found.sem) == (7.5, 0, 0)
    assert perf([]) is None
    assert perf([float("nan"), float("inf")]) is None


def test_what_is_no_number_is_no_rate():
    assert perf([1, 2, 3, float("nan")]) == perf([1, 2, 3])


def test_a_benchmark_is_the_sum_over_its_devices_by_its_failures():
    by_device = {"D0": [10.0] * 6, "D1": [30.0] * 6}
    assert benchmark_score(by_device, runs=2, failures=0) == 40
    assert benchmark_score(by_device, runs=4, failures=1) == 30
    assert benchmark_score(by_device, runs=2, failures=2) == 0
    assert benchmark_score({}, runs=1, failures=1) == 0


def test_a_suite_is_the_weighted_geometric_mean_of_scores_and_one():
    # exp((1·ln 10 + 2·ln 1) / 3) = ∛10
    assert suite_score([(9, 1), (0, 2)]) == pytest.approx(10 ** (1 / 3))
    # milabench's own: one benchmark gives its score + 1
    assert suite_score([(7979.818309641412, 2)]) == pytest.approx(7980.818309641412)
    assert suite_score([(5, 0)]) is None
    assert suite_score([]) is None


@given(rates, st.integers(0, 29), st.floats(1, 1e6))
def test_a_faster_step_never_lowers_the_score(values, at, more):
    faster = [*values]
    faster[at % len(values)] += more
    assert perf(faster).mean >= perf(values).mean * (1 - 1e-12)


@given(st.lists(rates, min_size=1, max_size=4), st.integers(1, 20), st.data())
def test_a_failure_lowers_the_score(devices, runs, data):
    by_device = {f"D{n}": values for n, values in enumerate(devices)}
    failures = data.draw(st.integers(1, runs))
    fewer = benchmark_score(by_device, runs, failures - 1)
    assert benchmark_score(by_device, runs, failures) < fewer
    assert benchmark_score(by_device, runs, runs) == 0


@given(rates, st.randoms())
def test_the_order_of_steps_does_not_matter(values, random):
    shuffled = [*values]
    random.shuffle(shuffled)
    assert perf(shuffled) == perf(values)


scores = st.lists(st.tuples(st.floats(0, 1e9), st.floats(0.01, 100)), min_size=1, max_size=10)


@given(scores, st.randoms())
def test_the_order_of_benchmarks_does_not_matter(found, random):
    shuffled = [*found]
    random.shuffle(shuffled)
    assert isclose(suite_score(shuffled), suite_score(found))


@given(scores, st.integers(0, 9), st.floats(1, 1e6))
def test_a_better_benchmark_never_lowers_the_suite(found, at, more):
    better = [*found]
    value, weight = better[at % len(found)]
    better[at % len(found)] = value + more, weight
    assert suite_score(better) >= suite_score(found) * (1 - 1e-12)


@given(scores)
def test_it_lies_between_its_benchmarks(found):
    values = [value + 1 for value, _ in found]
    assert min(values) * (1 - 1e-9) <= suite_score(found) <= max(values) * (1 + 1e-9)


@given(rates)
def test_it_is_milabenchs_own(values):
    """Its `_metrics`, as numpy would compute it."""
    import numpy as np

    kept = sorted(values)[1:-1] if len(values) >= 5 else sorted(values)
    found = perf(values, POPULATION)
    assert found.mean == pytest.approx(float(np.mean(kept)), rel=1e-12)
    assert found.std == pytest.approx(float(np.std(kept)), rel=1e-9, abs=1e-9)
    assert found.sem == pytest.approx(float(np.std(kept)) / len(kept) ** 0.5, rel=1e-9, abs=1e-9)


def test_the_suites_formula_in_other_words():
    found = [(12.0, 3.0), (700.0, 1.0)]
    assert suite_score(found) == pytest.approx(exp((3 * log(13) + log(701)) / 4))
    assert trimmed([3, 1, 2]) == [1, 2, 3]
