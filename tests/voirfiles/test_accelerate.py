"""Accelerate: its wrappers hide nothing, and nothing is counted twice."""

from __future__ import annotations

import pytest
from trained import needs, on_two, run

PROGRAM = "trainers/accelerate_loop.py"

needs("accelerate")


def test_accumulation(tmp_path):
    ran = run(tmp_path, PROGRAM, "--accumulate", "3")
    reported, [process] = ran.reported[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    # Of 10 batches the 3rd, 6th, 9th, and the last one update.
    assert len(process.of("optimizer")) == reported["global_step"] == 8
    assert {span.site["what"] for span in process.of("optimizer")} == {"SGD"}
    forward = process.of("forward", "train")
    assert len(forward) == len(process.of("backward")) == len(reported["losses"]) == 20
    assert len(process.of("forward", "eval")) == 2 * reported["passes"]
    assert process.values["train/fit_loss"] == pytest.approx(reported["losses"])
    assert len(process.of("io")) == 2 * (10 + 2)
    assert ran.steps() == [[8]]


@pytest.mark.release  # test_launchers has two ranks of Accelerate that start PyTorch once
def test_two_ranks(tmp_path):
    ran = run(tmp_path, *on_two(PROGRAM, "--accumulate", "2"))
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    assert sorted(ran.processes) == sorted(ran.reported) == [0, 1]
    for rank, process in ran.processes.items():
        assert len(process.of("optimizer")) == ran.reported[rank]["global_step"] == 6
    assert ran.steps() == [[6, 6]]


@pytest.mark.release
def test_the_first_rank_reads_for_all(tmp_path):
    ran = run(tmp_path, *on_two(PROGRAM, "--dispatch"))
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    first, second = (ran.processes[rank] for rank in (0, 1))
    assert len(first.of("optimizer")) == len(second.of("optimizer")) == 10
    # Two batches are read for the two ranks; the other one waits once for what is its part.
    assert len(first.of("io")) == 2 * (10 + 2)
    assert len(second.of("io")) >= 2 * (5 + 1)
    assert ran.steps() == [[10, 10]]
