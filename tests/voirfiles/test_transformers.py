"""Hugging Face's Trainer: what is recorded is what it counted itself."""

from __future__ import annotations

from importlib.metadata import requires, version

import pytest
from packaging.requirements import Requirement
from trained import needs, on_two, run

PROGRAM = "trainers/transformers_trainer.py"

needs("transformers", "accelerate")
WANTED = [each for each in map(Requirement, requires("transformers") or ()) if each.name == "torch"]
if not all(version("torch") in each.specifier for each in WANTED):
    pytest.skip("this PyTorch is none that transformers uses", allow_module_level=True)


def test_accumulation_and_two_sets_to_evaluate(tmp_path):
    ran = run(tmp_path, PROGRAM, "--accumulate", "2", "--several")
    reported, [process] = ran.reported[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err

    updates, forward = process.of("optimizer"), process.of("forward", "train")
    assert len(updates) == reported["global_step"] == 10
    assert process.plans() == [{"epochs": None, "steps": 10}]
    assert len(forward) == len(process.of("backward")) == 20
    assert all(span.items == 4 for span in forward)
    assert ran.steps() == [[10]]

    # Two sets, evaluated twice in one call each, and a prediction.
    evaluations = process.of("evaluation")
    assert reported["passes"] == 5
    assert len(evaluations) == 3
    assert not any(one.holds(update) for one in evaluations for update in updates)
    evaluated = process.of("forward", "eval")
    assert len(evaluated) == 2 * (2 + 3) + 2
    assert all(any(one.holds(span) for one in evaluations) for span in evaluated)

    assert process.values["train/global_step"] == list(range(1, 11))
    assert process.values["train/epoch"][-1] == reported["epoch"] == 2
    assert process.values["train/logged_loss"] == pytest.approx(reported["losses"])
    assert len(process.values["eval/a_loss"]) == len(process.values["eval/b_loss"]) == 2


@pytest.mark.release
def test_the_loader_is_one_batch_ahead(tmp_path):
    ran = run(tmp_path, PROGRAM)
    reported, [process] = ran.reported[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    assert process.values["eval/loss"] == pytest.approx(reported["eval_losses"])
    updates = process.of("optimizer")
    assert len(updates) == reported["global_step"] == 20
    # The last update of an epoch comes when the loader has ended.
    ends = [span for span in process.of("io.end") if span.start < updates[-1].start]
    assert any(updates[8].end <= end.start and end.end <= updates[9].start for end in ends)
    assert ran.steps() == [[reported["global_step"]]]
    assert ran.epochs() == [[10, 40], [10, 40]]


@pytest.mark.release
def test_two_ranks(tmp_path):
    ran = run(tmp_path, *on_two(PROGRAM))
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    assert sorted(ran.processes) == sorted(ran.reported) == [0, 1]
    assert ran.steps() == [[10, 10]]
    for rank, process in ran.processes.items():
        reported = ran.reported[rank]
        assert len(process.of("optimizer")) == reported["global_step"] == 10
        assert len(process.of("evaluation")) == reported["passes"] == 3
        assert process.values["train/global_step"] == list(range(1, 11))
