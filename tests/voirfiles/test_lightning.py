"""Lightning's Trainer and Fabric: what is recorded is what they counted themselves."""

from __future__ import annotations

import pytest
from trained import needs, on_two, run

FIT = "trainers/lightning_fit.py"
FABRIC = "trainers/fabric_loop.py"

needs("lightning", "pytorch_lightning")


@pytest.mark.parametrize(
    "package", ["lightning.pytorch", pytest.param("pytorch_lightning", marks=pytest.mark.release)]
)
def test_a_fit(package, tmp_path):
    ran = run(tmp_path, FIT, "--package", package)
    reported, [process] = ran.reported[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err

    updates, backward = process.of("optimizer"), process.of("backward")
    forward = process.of("forward", "train")
    assert len(updates) == reported["global_step"] == 20
    assert process.plans() == [{"epochs": 2, "steps": None}]
    assert len(backward) == len(forward) == 20
    assert all(span.items == 4 for span in forward)
    assert ran.steps() == [[20]]
    assert ran.epochs() == [[10, 40], [10, 40]]
    # The closure that is handed to the optimizer is the training step.
    for update, step, back in zip(updates, forward, backward, strict=True):
        assert update.holds(step) and update.holds(back) and step.end <= back.start

    evaluations, epochs = process.of("evaluation"), process.of("epoch")
    assert (
        len(evaluations) == reported["passes"] == 4
    )  # the sanity check, two validations, a prediction
    assert all(span.site["phase"] == "eval" for span in evaluations)
    evaluated = process.of("forward", "eval")
    assert len(evaluated) == 1 + 3 + 3 + 2
    assert all(any(one.holds(span) for one in evaluations) for span in evaluated)
    assert len(epochs) == reported["epochs"] == 2
    assert [sum(epoch.holds(span) for span in updates) for epoch in epochs] == [10, 10]

    assert process.values["train/loss"] == pytest.approx(reported["losses"])
    assert process.values["train/epoch"] == [0, 1]
    assert process.values["train/global_step"] == list(range(1, 21))
    assert process.values["train/fit_loss"] == pytest.approx(reported["losses"][1::2])
    assert process.values["eval/val_loss"][-1] == pytest.approx(reported["logged"]["val_loss"])
    assert len(process.values["eval/val_loss"]) == 2


@pytest.mark.release
def test_accumulation_and_a_loader_without_a_length(tmp_path):
    ran = run(tmp_path, FIT, "--accumulate", "2", "--no-length")
    reported, [process] = ran.reported[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    assert len(process.of("optimizer")) == reported["global_step"] == 10
    assert len(process.of("forward", "train")) == len(process.of("backward")) == 20
    assert ran.steps() == [[10]]
    # The loss of each batch is its part of the update's.
    halves = [loss / 2 for loss in reported["losses"]]
    assert process.values["train/loss"] == pytest.approx(halves)
    assert process.values["train/global_step"][-1] == 10


def test_batches_of_an_iterable_that_is_no_loader_of_torch(tmp_path):
    ran = run(tmp_path, FIT, "--own")
    [process] = ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    assert {span.site["what"] for span in process.of("io")} == {"batches of Batches"}
    # Of each data set, that of the check before the first epoch with one batch.
    assert len(process.of("io")) == 2 * 10 + 1 + 2 * 3 + 2
    assert ran.steps() == [[20]]
    assert ran.epochs() == [[10, 40], [10, 40]]


@pytest.mark.release
def test_two_optimizers_by_hand(tmp_path):
    ran = run(tmp_path, FIT, "--manual")
    reported, [process] = ran.reported[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    # Lightning counts each update; two of them share a batch.
    assert len(process.of("optimizer")) == reported["global_step"] == 40
    assert len({span.site["of"] for span in process.of("optimizer")}) == 2
    assert len(process.of("forward", "train")) == 20
    assert ran.steps() == [[20]]


@pytest.mark.release
def test_two_ranks(tmp_path):
    ran = run(tmp_path, FIT, "--devices", "2")
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    assert sorted(ran.processes) == sorted(ran.reported) == [0, 1]
    for rank, process in ran.processes.items():
        reported = ran.reported[rank]
        assert len(process.of("optimizer")) == reported["global_step"] == 10
        assert len(process.of("evaluation")) == reported["passes"]
        assert ran.steps() == [[10, 10]]
        assert process.values["train/loss"] == pytest.approx(reported["losses"])


def test_fabric(tmp_path):
    ran = run(tmp_path, FABRIC)
    reported, [process] = ran.reported[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    assert len(process.of("optimizer")) == reported["global_step"] == 20
    assert len(process.of("forward", "train")) == len(process.of("backward")) == 20
    assert process.values["train/fit_loss"] == reported["losses"]
    assert ran.steps() == [[20]]


@pytest.mark.release
def test_fabric_on_two_ranks(tmp_path):
    ran = run(tmp_path, *on_two(FABRIC, "--devices", "2"))
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    assert sorted(ran.processes) == sorted(ran.reported) == [0, 1]
    for rank, process in ran.processes.items():
        assert len(process.of("optimizer")) == ran.reported[rank]["global_step"] == 10
    assert ran.steps() == [[10, 10]]
