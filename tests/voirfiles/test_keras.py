"""Keras 3 on PyTorch: its own layers and optimizers are seen as torch's are."""

from __future__ import annotations

import pytest
from recorded import run

PROGRAM = "trainers/keras_fit.py"

pytest.importorskip("keras")


def test_a_fit(tmp_path):
    ran = run(tmp_path, PROGRAM)
    told, [process] = ran.told[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err

    updates, forward = process.of("optimizer"), process.of("forward", "train")
    assert len(updates) == told["global_step"] == told["batches"] == 20
    assert len(forward) == len(process.of("backward")) == 20
    assert all(span.items == 4 for span in forward)
    assert {span.site["what"] for span in updates} == {"Adam"}
    assert {span.site["what"] for span in forward} == {"Sequential"}

    evaluations = process.of("evaluation")
    assert len(evaluations) == told["passes"] == 3
    evaluated = process.of("forward", "eval")
    assert len(evaluated) == 3 * 2
    assert all(any(one.holds(span) for one in evaluations) for span in evaluated)

    history = told["history"]
    assert process.values["train/epoch"] == [0, 1]
    assert process.values["train/loss"][9::10] == pytest.approx(history["loss"])
    assert process.values["train/mae"][9::10] == pytest.approx(history["mae"])
    assert process.values["eval/loss"] == pytest.approx(history["val_loss"])


def test_a_loop_of_its_own_that_accumulates(tmp_path):
    ran = run(tmp_path, PROGRAM, "--own-loop", "--accumulate", "2")
    told, [process] = ran.told[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    assert len(process.of("optimizer")) == told["global_step"] == 10
    assert len(process.of("forward", "train")) == len(process.of("backward")) == 20
