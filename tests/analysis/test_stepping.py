"""The rates of single steps, over all ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from layouts import Program

from injector.analysis.timeseries import Stepping, stepping
from injector.store.folder import open_run


def steps_of(folder: Path, *programs: Program, skip: int = 0) -> Stepping | None:
    for program in programs:
        program.write(folder)
    (folder / "run.json").write_text(json.dumps({"schema": 1}))
    return stepping(open_run(str(folder)), skip)


def rank(number: int | None, ms: float = 1, steps: int = 6, pid: int | None = None) -> Program:
    world = {} if number is None else {"world": 2}
    p = Program(pid=pid or (number or 0) + 1, rank=number, **world)
    for _ in range(steps):
        p.turn(io=ms)  # 7 ms more: 8 items
    return p


def test_one_rate_a_step(tmp_path: Path) -> None:
    found = steps_of(tmp_path, rank(None))
    assert found is not None
    assert found.rates == pytest.approx([8 / 8e-3] * 6)
    assert (found.unit, found.ranks, found.world, found.task) == ("items/s", 1, None, "train")
    assert (found.seconds, found.items) == (pytest.approx(8e-3), 8)


def test_exactly_so_many_are_skipped_and_nothing_else_is_warm_up(tmp_path: Path) -> None:
    p = Program()
    p.turn(io=93)  # the first one is slow
    for _ in range(9):
        p.turn()
    found = steps_of(tmp_path, p)
    assert found is not None and len(found.rates) == 10
    assert found.rates[0] == pytest.approx(8 / 0.1)
    # Its time and items are those of the report, without the warm-up.
    assert (found.seconds, found.items) == (pytest.approx(8e-3), 8)
    found = stepping(open_run(str(tmp_path)), 4)
    assert found is not None and found.rates == pytest.approx([1000] * 6)
    none = stepping(open_run(str(tmp_path)), 40)
    assert none is not None and (none.rates, none.seconds, none.items) == ((), 0, None)


def test_ranks_add_up_step_by_step(tmp_path: Path) -> None:
    found = steps_of(tmp_path, rank(0), rank(1, ms=9, steps=5))
    assert found is not None
    assert found.rates == pytest.approx([8 / 8e-3 + 8 / 16e-3] * 5)
    assert (found.ranks, found.world, found.items) == (2, 2, 16)


def test_a_rank_that_was_started_again_goes_on(tmp_path: Path) -> None:
    first, again = rank(0, steps=2), rank(0, steps=3, pid=7)
    again.origin += 10**9
    found = steps_of(tmp_path, first, again)
    assert found is not None and (len(found.rates), found.ranks) == (5, 1)


def test_processes_without_a_rank_one_after_the_other_are_no_two_at_a_time(tmp_path: Path) -> None:
    first, then = rank(None, steps=3), rank(None, steps=3, pid=2)
    then.origin += 10**9
    found = steps_of(tmp_path, first, then)
    assert found is not None and (len(found.rates), found.ranks) == (6, 1)
    assert found.rates == pytest.approx([1000] * 6)


def test_processes_without_a_rank_side_by_side_add_up(tmp_path: Path) -> None:
    found = steps_of(tmp_path, rank(None), rank(None, pid=2))
    assert found is not None and (found.rates, found.ranks) == (pytest.approx([2000] * 6), 2)


def test_steps_whose_items_cannot_be_told_are_counted_themselves(tmp_path: Path) -> None:
    programs = []
    for number in range(2):
        p = Program(pid=number + 1, rank=number, world=2)
        for _ in range(4):
            p.io()
            p.forward(items=0)
            p.backward()
            p.update()
        programs.append(p)
    found = steps_of(tmp_path, *programs)
    assert found is not None and (found.unit, found.items) == ("steps/s", None)
    assert found.rates == pytest.approx([1 / 8e-3] * 4), "ranks make each step together"


def test_a_run_that_trained_nothing_has_the_steps_of_its_inference(tmp_path: Path) -> None:
    p = Program()
    p.validate(4)
    found = steps_of(tmp_path, p)
    assert (found.task, found.unit, len(found.rates)) == ("inference", "items/s", 4)
