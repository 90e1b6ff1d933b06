"""Clocks that drift apart: what follows from measurements of a simulated clock, whose error is known."""

from __future__ import annotations

import math
import random
import re
from itertools import product

import pytest

from injector.run.node_clock import drift_sentence
from injector.store.drift import ClockReading, Drift, fit, measurement_of
from injector.store.logs import Clock

HOUR = 3600.0
BEGAN = Clock(1_000_000.0, 5_000_000_000_000)
"""Of the host, as it was aligned before the run."""

DRIFTS = {
    "none": lambda t: 0.0,
    "slow": lambda t: 2e-6 * t,
    "fast": lambda t: -50e-6 * t,
    "turning": lambda t: 0.02 * math.sin(2 * math.pi * t / HOUR),
    "set right": lambda t: 30e-6 * min(t, HOUR / 2),
}
"""Seconds by which the run's clock is ahead of the host's after ``t`` seconds."""
ERRORS = {"10 us": 1e-5, "300 us": 3e-4, "20 ms": 2e-2}
COUNTS = (2, 3, 10, 61)


def measured(drift, count, error, seed=0, late=0.0):
    """So many measurements in an hour, each uncertain by up to ``error``, some by ``late`` s more."""
    chance = random.Random(seed)
    for n in range(count):
        t = HOUR * n / (count - 1)
        true = BEGAN.unix + t + drift(t)
        more = late * (chance.random() < 0.1)
        low, high = true - error * chance.random(), true + (error + more) * chance.random() + 1e-9
        yield ClockReading(BEGAN.monotonic + round(t * 1e9), low, high)


def off(drift, found, moments):
    """By how much times are off, at most, once they are put right."""
    clock = BEGAN._replace(drift=found.drift)
    return max(
        abs(clock.at(BEGAN.monotonic + round(t * 1e9)) - (BEGAN.unix + t + drift(t)))
        for t in moments
    )


CASES = list(product(DRIFTS, ERRORS, COUNTS))


@pytest.mark.parametrize(
    ("drift", "error", "count"), CASES, ids=["-".join(map(str, c)) for c in CASES]
)
def test_the_error_that_is_stated_holds(drift, error, count):
    moves = DRIFTS[drift]
    for seed in range(5):
        found = fit(measured(moves, count, ERRORS[error], seed), BEGAN.at)
        assert found.measured == count and found.length == pytest.approx(HOUR)
        at = [HOUR * n / (count - 1) for n in range(count)]
        assert off(moves, found, at) <= found.error + 1e-6
        between = [HOUR * n / 500 for n in range(501)]
        if drift in ("none", "slow", "fast") or count == 61:
            assert off(moves, found, between) <= found.error + 1e-6
        if drift in ("none", "slow", "fast"):  # and it says something
            assert found.error <= 3 * ERRORS[error] + (found.drift is None) * abs(moves(HOUR))
            assert found.change == pytest.approx(
                moves(HOUR) * (found.drift is not None), abs=2 * ERRORS[error]
            )


def test_clocks_that_stay_together_are_left_alone():
    for seed in range(20):
        found = fit(measured(DRIFTS["none"], 61, 3e-4, seed), BEGAN.at)
        assert found.drift is None and found.change == 0 and found.error <= 4e-4


def test_drift_is_put_right_to_a_fraction_of_what_it_was():
    found = fit(measured(DRIFTS["fast"], 61, 3e-4), BEGAN.at)
    assert found.change == pytest.approx(-0.18, abs=1e-3)
    every = [HOUR * n / 500 for n in range(501)]
    assert off(DRIFTS["fast"], found, every) < 5e-4
    after = [HOUR + n for n in range(600)]  # until its process ended
    assert off(DRIFTS["fast"], found, after) < 1e-3


def test_answers_that_come_late_count_for_little():
    found = fit(measured(DRIFTS["slow"], 61, 1e-4, late=5.0), BEGAN.at)
    assert 40 <= found.measured < 61 and found.error < 1e-3
    assert off(DRIFTS["slow"], found, [HOUR * n / 500 for n in range(501)]) < 1e-3


@pytest.mark.parametrize("count", [1, 61])
def test_a_clock_that_was_not_aligned_is_moved(count):
    """As where the question before the program was not answered."""
    found = fit(list(measured(lambda t: 3600.0, 61, 3e-4))[:count], BEGAN.at)
    assert found.change == 0 and found.error < 1e-3
    assert off(lambda t: 3600.0, found, (0, 1800, 3600)) <= found.error


def test_what_the_report_says():
    def says(moves, count=61):
        return drift_sentence("a", "b", fit(list(measured(moves, 61, 1e-7))[:count], BEGAN.at))

    def of(text):
        return re.sub(r"\S+ ms$", "X ms", text)

    assert of(says(DRIFTS["none"])[: -len(", measured 61 times in 3600 s")]) == (
        "the clocks of a and b stayed together within X ms"
    )
    assert of(says(DRIFTS["fast"])) == (
        "the clock of b gained 180 ms (50 ppm) on that of a, measured 61 times in 3600 s: "
        "its times are put right, with an error of at most X ms"
    )
    assert of(says(lambda t: 3600.0, 1)) == (
        "the clock of b is moved by +3600 s to that of a, measured once in 0 s; the error is at most X ms"
    )
    assert of(says(lambda t: 5.0 - 50e-6 * t)) == (
        "the clock of b is moved by +5 s to that of a, and gained 180 ms (50 ppm), measured 61 times in "
        "3600 s: its times are put right, with an error of at most X ms"
    )


def test_no_measurement():
    assert fit([], BEGAN.at) is None


def test_between_and_beyond_moments():
    drift = Drift((0, 10, 20), (0.0, 1.0, 4.0))
    assert [drift.at(t) for t in (-10, 0, 5, 10, 12, 20, 30)] == [-1, 0, 0.5, 1, 1.6, 4, 7]


@pytest.mark.parametrize(
    "data", [None, {}, {"at": 1, "low": 2.0}, {"at": 1, "low": 3.0, "high": 2.0}]
)
def test_what_is_no_measurement(data):
    assert measurement_of(data) is None
