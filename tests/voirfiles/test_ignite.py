"""Ignite's engines: trainers train, evaluators evaluate, and what they count is recorded."""

from __future__ import annotations

import pytest
from trained import needs, run

PROGRAM = "trainers/ignite_engine.py"

needs("ignite")


def test_engines(tmp_path):
    ran = run(tmp_path, PROGRAM)
    reported, [process] = ran.reported[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err

    updates = process.of("optimizer")
    # Losses and metrics are modules as well.
    forward = [span for span in process.of("forward", "train") if span.site["what"] == "Linear"]
    assert len(updates) == reported["global_step"] == 20
    assert len(forward) == len(process.of("backward")) == 20
    assert ran.steps() == [[20]]

    evaluations = process.of("evaluation")
    assert len(evaluations) == reported["passes"] == 5
    evaluated = [span for span in process.of("forward", "eval") if span.site["what"] == "Linear"]
    assert len(evaluated) == 5 * 2
    assert all(any(one.holds(span) for one in evaluations) for span in evaluated)

    assert process.values["train/epoch"] == [1, 2]
    assert process.values["train/global_step"] == list(range(1, 21))
    assert process.values["train/loss"] == pytest.approx(reported["losses"])
    assert len(process.values["train/running"]) == 2
    assert process.values["eval/mse"][:2] == pytest.approx(reported["mse"])
