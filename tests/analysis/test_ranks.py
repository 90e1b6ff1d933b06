"""Loops over several ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from layouts import MS, Program, only, report

from injector.report.terminal import profile as lines

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
    assert (loop.steps, [track.steps for track in loop.ranks]) == (30, [30] * 4)
    assert [track.waits for track in loop.ranks] == [ms(5e-3), ms(5e-3), ms(0.1e-3), ms(5e-3)]
    straggler = loop.straggler
    assert straggler and (straggler.rank, straggler.slow_at) == (2, "io")
    assert straggler.score == ms(4.9 / 13, rel=1e-4) and straggler.excess == ms(4.9e-3, rel=1e-4)
    assert (found.verdict.kind, found.verdict.severity) == ("straggler", "critical")
    assert "rank 2 for 38 % of a step, slow in io" in found.verdict.sentence
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
    [collectives] = [text for text in found.unmeasured if text.startswith("collectives")]
    # MPI called from C is in no region: that ranks wait in backward is not known.
    assert collectives.endswith("it is part of another region or of `other`")


@pytest.mark.parametrize("parts", [False, True])
def test_communication_bound(tmp_path: Path, parts: bool) -> None:
    programs = [rank(number, comm=8) for number in range(4)]
    for number, p in enumerate(programs):
        p.records.append(("rank", {"rank": number, "world": 4, "shares_batches": parts}))
    found = report(tmp_path / "r", *programs)
    assert found.verdict.kind == "communication-bound" and "50 %" in found.verdict.sentence
    # Ranks that have a part of the model each exchange activations: no gradients to accumulate.
    assert any("accumulate gradients" in tip for tip in found.verdict.advice) is not parts
    straggler = only(found).straggler
    assert straggler is None or straggler.score < 0.1


def test_ranks_with_unequal_numbers_of_steps(tmp_path: Path) -> None:
    found = report(tmp_path / "r", rank(0), rank(1, steps=7), rank(2), rank(3))
    loop = only(found)
    assert [track.steps for track in loop.ranks] == [30, 7, 30, 30] and loop.steps == 30
    assert any("rank 1: 7, others up to 30" in text for text in found.unmeasured)


def test_a_rank_that_was_restarted(tmp_path: Path) -> None:
    again = rank(1, steps=20, pid=9, origin=6_000_000_000)
    found = report(tmp_path / "r", rank(0), rank(1, steps=7), again)
    loop = only(found)
    assert [(track.rank, track.steps) for track in loop.ranks] == [(0, 30), (1, 7), (1, 20)]
    assert loop.throughput.items == ms(2 * 8 / 13e-3, rel=1e-4)
    assert any("rank 1 was started 2 times" in text for text in found.unmeasured)


def test_a_rank_that_is_told_late(tmp_path: Path) -> None:
    p = rank(0)
    p.rank = None
    p.records.append(("rank", {"rank": 3, "world": 4, "local": 3}))
    found = report(tmp_path / "r", p)
    assert only(found).ranks[0].rank == 3
    assert "ranks 0, 1, 2 of 4 recorded nothing" in found.unmeasured


@pytest.mark.parametrize("world", [None, 1])
def test_processes_of_their_own(tmp_path: Path, world: int | None) -> None:
    """Trials of a study: no launcher, and no group of more than one, says that they are ranks."""
    steps = (100, 1, 1, 90)
    programs = []
    for pid, number in enumerate(steps, 1):
        p = Program(pid=pid, rank=world and 0, world=world, origin=5_000 * MS + 1000 * pid * MS)
        for _ in range(number):
            p.turn()
        programs.append(p)
    found = report(tmp_path / "r", *programs)
    assert [loop.steps for loop in found.loops] == sorted(steps, reverse=True)
    assert [len(loop.ranks) for loop in found.loops] == [1] * 4
    assert {loop.job for loop in found.loops} == {f"process {n}" for n in range(4)}
    assert all(loop.throughput.steps == ms(125, rel=1e-3) for loop in found.loops)
    text = "\n".join(lines(found))
    assert "train, process 0: 100 steps, one" in text and "on each of" not in text
    assert "other loops" in text and "train, process 3" in text
    assert not found.outcomes and not any("was started" in each for each in found.unmeasured)


def test_a_process_that_was_before_is_no_start_up(tmp_path: Path) -> None:
    programs = [Program(pid=n, origin=(5_000 + 100 * n) * MS) for n in (1, 2)]
    for p, number in zip(programs, (5, 10), strict=True):
        for _ in range(number):
            p.turn()
    found = report(tmp_path / "r", *programs)
    first = found.segments[0]
    assert (first.name, first.note) == ("other processes", "before process 1")


def test_jobs_of_several_ranks_follow_each_other(tmp_path: Path) -> None:
    """Each trial of a study is a job of two ranks; a rank that was started again alone is none."""
    programs = []
    for n in range(4):
        origin = (5_000 + 1_000 * (n // 2)) * MS
        programs.append(Program(pid=n + 1, rank=n % 2, world=2, origin=origin))
        for _ in range(10 + 20 * (n // 2)):
            programs[-1].turn()
    found = report(tmp_path / "r", *programs)
    assert [(loop.job, loop.steps, len(loop.ranks)) for loop in found.loops] == [
        ("job 1", 30, 2), ("job 0", 10, 2),
    ]  # fmt: skip
    again = only(report(tmp_path / "again", *programs[:3]))
    assert again.job is None and len(again.ranks) == 3


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


def test_gaps_and_epochs_are_those_of_the_first_rank_that_trains(tmp_path: Path) -> None:
    def program(number: int, epochs: int) -> Program:
        p = Program(pid=number + 1, rank=number, world=3)
        p.span("checkpoint", 5)
        for _ in range(epochs):
            for _ in range(30):
                p.turn(other=3)
            p.dry()
        return p

    # Rank 0 trains nothing: what is known of a loop's gaps and epochs is found in rank 1.
    found = report(tmp_path / "r", *(program(number, 3 * (number > 0)) for number in range(3)))
    loop = only(found)
    assert [each.rank for each in loop.ranks] == [1, 2] and len(loop.epochs) == 3
    assert (
        loop.tree.children[-1].what == "between train.py:13 (backward) and train.py:14 (optimizer)"
    )
    assert "rank 0 made no steps" in found.unmeasured
