"""Loops over several ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from layouts import Program, only, report

ms = pytest.approx


def rank(number: int, slow: float = 0, comm: float = 5, steps: int = 30, **more: object) -> Program:
    p = Program(pid=more.pop("pid", number + 1), rank=number, world=4, **more)  # type: ignore[arg-type]
    for _ in range(steps):
        p.io(1 + slow)
        p.forward()
        with p.around("backward"):
            p.wait(4)
            p.span("comm", comm, nbytes=1000)
        p.update()
    return p


def test_a_straggler_is_named_with_what_it_is_slow_at(tmp_path: Path) -> None:
    found = report(tmp_path / "r", rank(0), rank(1), rank(2, slow=4.9, comm=0.1), rank(3))
    loop = only(found)
    assert (loop.steps, [track.steps for track in loop.tracks]) == (30, [30] * 4)
    assert [track.waits for track in loop.tracks] == [ms(5e-3), ms(5e-3), ms(0.1e-3), ms(5e-3)]
    straggler = loop.straggler
    assert straggler and (straggler.rank, straggler.slow_at) == (2, "io")
    assert straggler.score == ms(4.9 / 13, rel=1e-4) and straggler.excess == ms(4.9e-3, rel=1e-4)
    assert (found.verdict.kind, found.verdict.severity) == ("straggler", "critical")
    assert "rank 2 for 38 % of a step, slow at io" in found.verdict.sentence
    # Four ranks of 8 items each, in the same 13 ms.
    assert loop.throughput.items == ms(4 * 8 / 13e-3, rel=1e-4)
    assert loop.throughput.steps == ms(1 / 13e-3, rel=1e-4)


def test_a_straggler_without_collectives(tmp_path: Path) -> None:
    programs = []
    for number in range(3):
        p = Program(pid=number + 1, rank=number, world=3)
        for _ in range(30):
            p.io(1)
            p.forward(6 if number == 1 else 2)
            p.backward(4 if number == 1 else 8)
            p.update()
        programs.append(p)
    found = report(tmp_path / "r", *programs)
    straggler = only(found).straggler
    assert straggler and (straggler.rank, straggler.slow_at) == (1, "forward")
    assert any("collectives: none were seen" in text for text in found.unmeasured)


def test_communication_bound(tmp_path: Path) -> None:
    found = report(tmp_path / "r", *(rank(number, comm=8) for number in range(4)))
    assert found.verdict.kind == "communication-bound" and "50 %" in found.verdict.sentence
    straggler = only(found).straggler
    assert straggler is None or straggler.score < 0.1


def test_ranks_with_unequal_numbers_of_steps(tmp_path: Path) -> None:
    found = report(tmp_path / "r", rank(0), rank(1, steps=7), rank(2), rank(3))
    loop = only(found)
    assert [track.steps for track in loop.tracks] == [30, 7, 30, 30] and loop.steps == 30
    assert any("rank 1: 7, others up to 30" in text for text in found.unmeasured)


def test_a_rank_that_was_restarted(tmp_path: Path) -> None:
    again = rank(1, steps=20, pid=9, origin=6_000_000_000)
    found = report(tmp_path / "r", rank(0), rank(1, steps=7), again)
    loop = only(found)
    assert [(track.rank, track.steps) for track in loop.tracks] == [(0, 30), (1, 7), (1, 20)]
    assert loop.throughput.items == ms(2 * 8 / 13e-3, rel=1e-4)
    assert any("rank 1 was started 2 times" in text for text in found.unmeasured)


def test_a_rank_that_is_told_late(tmp_path: Path) -> None:
    p = rank(0)
    p.rank = None
    p.records.append(("rank", {"rank": 3, "world": 4, "local": 3}))
    found = report(tmp_path / "r", p)
    assert only(found).tracks[0].rank == 3
    assert "ranks 0, 1, 2 of 4 recorded nothing" in found.unmeasured


def test_processes_of_their_own(tmp_path: Path) -> None:
    programs = [rank(0, pid=pid) for pid in (1, 2)]
    for program in programs:
        program.rank = None
        program.process.clear()
    loop = only(report(tmp_path / "r", *programs))
    assert loop.straggler is None and [track.rank for track in loop.tracks] == [None, None]
    assert loop.throughput.steps == ms(2 / 13e-3, rel=1e-4)


@pytest.mark.parametrize(
    ("steps", "slow", "named"),
    [(30, 4.9, True), (20, 4.9, False), (25, 4.9, True), (30, 0.4, False), (30, 0.6, True)],
)
def test_how_much_it_takes_to_name_a_rank(
    tmp_path: Path, steps: int, slow: float, named: bool
) -> None:
    programs = [rank(n, steps=steps, comm=slow) for n in range(3)]
    programs.append(rank(3, steps=steps, slow=slow, comm=0))
    straggler = only(report(tmp_path / "r", *programs)).straggler
    assert (straggler is not None) == named
    assert straggler is None or straggler.rank == 3


@pytest.mark.parametrize(("late", "named"), [(10, True), (9, True), (7, False), (5, False)])
def test_a_rank_is_not_named_by_chance(tmp_path: Path, late: int, named: bool) -> None:
    """``late`` of ten steps wait for the second rank, the others for the first."""
    programs = [Program(pid=n + 1, rank=n, world=2) for n in range(2)]
    for step in range(100):
        second = step * 7 % 10 < late
        for n, p in enumerate(programs):
            p.io(1 if (n == 1) == second else 0.1)
            p.forward()
            p.backward()
            p.span("comm", 1 if (n == 1) == second else 5, nbytes=1000)
            p.update()
    found = report(tmp_path / "r", *programs)
    straggler = only(found).straggler
    assert (straggler is not None) == named
    assert straggler is None or straggler.rank == 1
    assert (found.verdict.kind == "straggler") == named
