"""Keras 3 on PyTorch: its own optimizers are seen as torch's are."""

from __future__ import annotations

import pytest
from trained import needs, run

PROGRAM = "trainers/keras_fit.py"

needs("keras")


def test_a_fit(tmp_path):
    ran = run(tmp_path, PROGRAM)
    told, [process] = ran.told[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err

    updates, forward = process.of("optimizer"), process.of("forward", "train")
    assert len(updates) == told["global_step"] == told["batches"] == 20
    assert len(forward) == len(process.of("backward")) == 20
    assert all(span.items == 4 for span in forward)
    assert {span.site["what"] for span in updates} == {"Adam"}
    # Each epoch has a loader of its own.
    assert ran.steps() == [[20]]
    assert ran.epochs() == [[10, 40], [10, 40]]
    assert {span.site["what"] for span in forward} == {"Sequential"}

    evaluations = process.of("evaluation")
    assert len(evaluations) == told["passes"] == 3
    evaluated = process.of("forward", "eval")
    assert sum(any(one.holds(span) for one in evaluations) for span in evaluated) == 2 * 2 + 1
    # The others ask what shapes the model would give, before it is trained.
    assert all(span.start < updates[0].start for span in evaluated[:-5])

    history = told["history"]
    assert process.values["train/epoch"] == [0, 1]
    assert process.values["train/logged_loss"][9::10] == pytest.approx(history["loss"])
    assert process.values["train/mae"][9::10] == pytest.approx(history["mae"])
    assert process.values["eval/loss"] == pytest.approx(history["val_loss"])


@pytest.mark.release
def test_a_loop_of_its_own_that_accumulates(tmp_path):
    ran = run(tmp_path, PROGRAM, "--own-loop", "--accumulate", "2")
    told, [process] = ran.told[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    assert len(process.of("optimizer")) == told["global_step"] == 10
    assert len(process.of("backward")) == 20
    assert ran.steps() == [[10]]
    assert process.values["train/loss"] == pytest.approx(told["losses"])
