"""Evaluation is told apart from training, wherever it happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from layouts import Program, only, regions, report, stretch

ms = pytest.approx


def test_a_pass_after_each_epoch(tmp_path: Path) -> None:
    p = Program()
    for _ in range(4):
        for _ in range(10):
            p.turn()
        p.dry()
        p.wait(1)
        p.validate(3)
        p.wait(2)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.step.max) == (40, ms(8e-3))
    [evaluation] = found.evaluations
    assert evaluation.place and evaluation.place.line == 21
    assert (evaluation.passes, evaluation.batches, evaluation.items) == (4, 12, 96)
    assert evaluation.seconds == ms(4 * 9.7e-3)
    assert evaluation.regions == {"io": ms(12e-3), "forward": ms(24e-3), "other": ms(2.8e-3)}
    assert stretch(found, "evaluation") == ms(4 * 9.7)


def test_a_slow_pass_in_the_middle_of_a_step(tmp_path: Path) -> None:
    p = Program()
    for batch in range(40):
        p.turn()
        if batch % 10 == 9:
            p.validate(5, io=50)
            p.wait(1)
    p.dry()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert loop.step.median == ms(8e-3) and loop.step.max == ms(9e-3)
    assert regions(loop)["io"] == 1 and found.verdict.kind != "overhead-bound"
    [evaluation] = found.evaluations
    assert (evaluation.passes, evaluation.batches) == (4, 20)
    # What a step waits for is 1 of 8 ms; the 50 ms of validation do not count.
    assert "input-bound as well: 12 % of a step waits at train.py:10" in found.verdict.besides


def test_a_pass_that_is_left_early(tmp_path: Path) -> None:
    p = Program()
    for batch in range(40):
        p.turn()
        if batch % 10 == 9:
            for _ in range(2):
                p.io(5, of=2, line=21)
                p.predict()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.step.max) == (40, ms(8e-3))
    assert loop.place and loop.place.line == 10
    assert [(e.passes, e.batches) for e in found.evaluations] == [(4, 8)]


def test_a_single_batch_now_and_then(tmp_path: Path) -> None:
    p = Program()
    for batch in range(60):
        if batch % 20 == 0:
            p.io(5, of=2, line=21)
            p.predict()
        p.turn()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.step.max) == (60, ms(8e-3))
    assert [(e.passes, e.batches) for e in found.evaluations] == [(3, 3)]


def test_several_loaders(tmp_path: Path) -> None:
    p = Program()
    for _ in range(3):
        for _ in range(10):
            p.turn()
        p.dry()
        p.validate(2)
        p.validate(4, of=3, line=25)
    found = report(tmp_path / "r", p)
    assert only(found).steps == 30
    assert [(e.place and e.place.line, e.passes, e.batches) for e in found.evaluations] == [
        (21, 3, 6),
        (25, 3, 12),
    ]


def test_a_loader_in_a_loader_evaluates(tmp_path: Path) -> None:
    p = Program()
    for _ in range(20):
        p.turn()
        p.validate(2)
    p.dry()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.step.max) == (20, ms(8e-3))
    assert found.evaluations[0].passes == 20


def test_without_a_loader(tmp_path: Path) -> None:
    p = Program()
    for step in range(40):
        if step % 10 == 0:
            for _ in range(6):
                p.predict(3, of=1)
                p.wait(0.5)
        p.wait(1)
        p.train()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.paced_by, loop.step.max) == (40, "optimizer", ms(8e-3))
    [evaluation] = found.evaluations
    assert (evaluation.passes, evaluation.batches, evaluation.items) == (4, 24, 4 * 48)
    assert evaluation.seconds == ms(4 * 20.5e-3)


def test_without_a_loader_in_a_loop_with_one(tmp_path: Path) -> None:
    p = Program()
    for step in range(40):
        p.turn()
        if step % 10 == 9:
            for _ in range(6):
                p.predict(3)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.step.max) == (40, ms(8e-3))
    assert found.evaluations[0].seconds == ms(72e-3)


def test_the_data_that_it_trains_on(tmp_path: Path) -> None:
    p = Program()
    for _ in range(3):
        for _ in range(10):
            p.turn()
        p.dry()
        p.validate(10, of=1, line=21)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.step.max) == (30, ms(8e-3))
    assert [(e.passes, e.batches) for e in found.evaluations] == [(3, 30)]


def test_by_the_same_lines(tmp_path: Path) -> None:
    p = Program()
    for _ in range(3):
        for _ in range(10):
            p.turn()
        p.dry()
        p.validate(10, of=1, line=10)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.step.max) == (30, ms(8e-3))
    assert [(e.passes, e.batches) for e in found.evaluations] == [(3, 30)]


def test_a_model_left_in_training_mode(tmp_path: Path) -> None:
    p = Program()
    for _ in range(3):
        for _ in range(10):
            p.turn()
        p.dry()
        for _ in range(5):
            p.io(1, of=2, line=21)
            p.forward(line=22)
        p.dry(of=2, line=21)
    found = report(tmp_path / "r", p)
    assert only(found).steps == 30
    assert [(e.passes, e.batches) for e in found.evaluations] == [(3, 15)]


def test_spans_of_a_library(tmp_path: Path) -> None:
    p = Program()
    for _ in range(3):
        for _ in range(10):
            p.turn()
        p.dry()
        with p.around("evaluation", phase="eval", line=30):
            p.wait(3)
            p.validate(2)
            p.wait(4)
    found = report(tmp_path / "r", p)
    assert only(found).steps == 30
    [evaluation] = found.evaluations
    assert evaluation.place and evaluation.place.line == 30
    assert (evaluation.passes, evaluation.batches, evaluation.seconds) == (3, 6, ms(3 * 13.5e-3))


def test_nothing_but_evaluation(tmp_path: Path) -> None:
    p = Program()
    p.validate(10)
    found = report(tmp_path / "r", p)
    assert not found.loops and found.verdict.kind == "none"
    assert [(e.passes, e.batches) for e in found.evaluations] == [(1, 10)]
    assert stretch(found, "evaluation") == ms(32.1)
