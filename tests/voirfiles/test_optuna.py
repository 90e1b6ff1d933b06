"""Optuna: studies, their trials, and what these ended with."""

from __future__ import annotations

import pytest
from boosted import run, studies
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
    [study] = studies(tmp_path)
    assert [trial.state for trial in study.trials] == [
        "complete", "pruned", "failed", "complete", "complete", "complete"
    ]  # fmt: skip
    assert [trial.error for trial in study.trials] == ["", "", "ValueError: no value", "", "", ""]
    assert [trial.reports for trial in study.trials] == [0, 1, 0, 0, 0, 0]
    best = min((value, n) for n, value in zip([0, 1, 3, 4, 5], values, strict=True) if n != 1)
    assert (study.best, study.goals, study.sampler) == ((best[1],), ("minimize",), "RandomSampler")
    assert study.trials[0].params["x"] ** 2 == pytest.approx(study.trials[0].values[""])
    assert study.workers == 1
    assert {"deploy", "setup", "framework", "store"} <= {phase.name for phase in study.phases}


def test_trials_reported_from_outside(tmp_path):
    found = run(tmp_path, PROGRAM, "told")
    assert found.of("trial") == []
    assert found.values("trial/number") == [0, 1, 2, 3]
    assert found.values("trial/value") == [0.0, 0.5, 1.0, 1.5]
    [study] = studies(tmp_path)
    assert [trial.values[""] for trial in study.trials] == [0.0, 0.5, 1.0, 1.5]
    assert study.best == (0,) and all(trial.seconds > 0 for trial in study.trials)


def test_threads(tmp_path):
    found = run(tmp_path, PROGRAM, "threads")
    assert len(found.of("trial")) == 8
    assert sorted(found.values("trial/number")) == [*range(8)]
    [study] = studies(tmp_path)
    assert study.workers <= 2 and len(study.trials) == 8
    assert min(study.trials, key=lambda trial: trial.values[""]).number == study.best[0]


def test_several_values(tmp_path):
    found = run(tmp_path, PROGRAM, "two")
    assert found.values("trial/value_0") == [0, 1, 2]
    assert found.values("trial/value_1") == [0, -1, -2]
    assert "trial/value" not in found.series
    [study] = studies(tmp_path)
    assert study.best == (0,) and study.trials[2].values == {"0": 2, "1": -2}
