"""Optuna: trials, and what they ended with."""

from __future__ import annotations

from boosted import run
from trained import needs

needs("optuna")

PROGRAM = "optuna_study.py"


def test_a_study(tmp_path):
    found = run(tmp_path, PROGRAM, "study")
    assert len(found.of("trial")) == 6
    assert {span.site["place"]["function"] for span in found.of("trial")} == {"study"}
    assert found.values("trial/number") == [0, 1, 2, 3, 4, 5]
    assert found.values("trial/pruned") == [0, 1, 0, 0, 0, 0]
    assert found.values("trial/failed") == [0, 0, 1, 0, 0, 0]
    values = found.values("trial/value")  # a pruned one has its last report, a failed one none
    assert (len(values), values[1]) == (5, 5.0)
    assert found.values("trial/reported") == [5.0]


def test_trials_reported_from_outside(tmp_path):
    found = run(tmp_path, PROGRAM, "told")
    assert found.of("trial") == []
    assert found.values("trial/number") == [0, 1, 2, 3]
    assert found.values("trial/value") == [0.0, 0.5, 1.0, 1.5]


def test_threads(tmp_path):
    found = run(tmp_path, PROGRAM, "threads")
    assert len(found.of("trial")) == 8
    assert sorted(found.values("trial/number")) == [*range(8)]


def test_several_values(tmp_path):
    found = run(tmp_path, PROGRAM, "two")
    assert found.values("trial/value_0") == [0, 1, 2]
    assert found.values("trial/value_1") == [0, -1, -2]
    assert "trial/value" not in found.series
