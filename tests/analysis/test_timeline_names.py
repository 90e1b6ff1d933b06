"""Checkpoints and logging between steps are time segments of their own, and no gap."""

from __future__ import annotations

from pathlib import Path

import pytest
from layouts import Program, report, stretch


@pytest.mark.parametrize("where", ["between", "after a validation", "at the end", "in a step"])
@pytest.mark.parametrize("region", ["checkpoint", "logging"])
def test_they_have_their_lines(tmp_path: Path, where: str, region: str) -> None:
    p = Program()
    for _ in range(3):
        for step in range(10):
            p.io()
            p.train()
            if where == "in a step" and step == 4:
                p.span(region, 20, line=40)
        p.dry()
        if where == "after a validation":
            p.validate()
        if where in ("between", "after a validation"):
            p.wait(2)
            p.span(region, 20, line=40)
            with p.around(region, line=41):
                p.span(region, 1, line=42)
            p.wait(3)
    if where == "at the end":
        p.wait(5)
        p.span(region, 20, line=40)
    found = report(tmp_path / "r", p, end=7)
    mine = [each for each in found.segments if each.name == region]
    calls = {"between": 3, "after a validation": 3, "at the end": 1, "in a step": 0}[where]
    assert stretch(found, region) == 20 * calls + (3 if calls == 3 else 0)
    lines = [each.place.line for each in mine if each.place]
    assert lines == ([40, 41] if calls == 3 else [40] * bool(calls))
    # Of the last pass, what follows the last call is no gap.
    assert stretch(found, "gap") == pytest.approx({3: 2 * 5 + 2, 1: 5, 0: 0}[calls], abs=0.5)
    one = next((each for each in found.verdict.bounds if each.kind == region), None)
    assert one is not None and one.of == ("run" if calls else "step")


def test_a_callback_has_its_line_and_not_the_logging_in_it(tmp_path: Path) -> None:
    p = Program()
    for _ in range(10):
        for _ in range(5):
            p.io()
            p.train()
        p.dry()
        with p.around("callback", line=40):
            p.span("logging", 3, line=50)
            p.wait(2)
            p.span("logging", 4, line=51)
    found = report(tmp_path / "r", p)
    assert stretch(found, "logging") == 70
    assert stretch(found, "gap") == 1  # the fetches that found nothing more
    [mine] = [each for each in found.segments if each.name == "callback"]
    assert mine.seconds * 1e3 == pytest.approx(20) and mine.place and mine.place.line == 40


def test_before_the_first_step_it_is_start_up(tmp_path: Path) -> None:
    p = Program()
    p.span("checkpoint", 20, line=40)
    for _ in range(10):
        p.turn()
    found = report(tmp_path / "r", p)
    assert stretch(found, "checkpoint") == 0 and stretch(found, "start-up") == 20
