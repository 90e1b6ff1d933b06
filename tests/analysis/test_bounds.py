"""What hiding one thing brings at most: as fast as the same program is without it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from layouts import Program, only, report

from injector.analysis import arrays
from injector.analysis.profile import Profile, UpperBound
from injector.report import terminal

REGIONS = ("io", "h2d", "forward", "other", "backward", "optimizer")
CAN_BE_HIDDEN = ("io", "h2d", "other")
STEPS = 30


def simulated(folder: Path, steps: list[list[dict[str, float]]]) -> Profile:
    """Ranks whose steps last as given (milliseconds by region); a collective of 1 ms ends each backward."""
    ranks = [
        Program(pid=n + 1, rank=n if len(steps) > 1 else None, world=len(steps))
        for n in range(len(steps))
    ]
    for turn in zip(*steps, strict=True):
        for p, parts in zip(ranks, turn, strict=True):
            p.io(parts["io"])
            if "h2d" in parts:
                p.span("h2d", parts["h2d"])
            p.forward(parts["forward"])
            p.wait(parts["other"])
            p.backward(parts["backward"])
        if len(ranks) > 1:
            until = max(p.now for p in ranks) + 1_000_000
            for p in ranks:
                p.row("comm", p.now, until)
                p.now = until
        for p, parts in zip(ranks, turn, strict=True):
            p.update(parts["optimizer"])
    return report(folder, *ranks)


def bound(found: Profile, kind: str) -> UpperBound | None:
    return next((each for each in found.verdict.bounds if each.kind == kind), None)


def parts(draw: random.Random) -> dict[str, float]:
    """Whole microseconds: sums of them are exact."""
    return {name: round(draw.uniform(0.5, 8), 3) for name in REGIONS}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_bound_is_the_time_of_the_program_without_it(
    tmp_path: Path, seed: int, ranks: int
) -> None:
    draw = random.Random(f"{seed} {ranks}")
    # All ranks update in the same time, or the next step's fetches begin apart.
    steps = [[{**parts(draw), "optimizer": 1.0} for _ in range(STEPS)] for _ in range(ranks)]
    found = simulated(tmp_path / "whole", steps)
    assert only(found).warmup.steps
    for name in CAN_BE_HIDDEN:
        less = [[{**turn, name: 0.0} for turn in rank] for rank in steps]
        without = simulated(tmp_path / name, less)
        one = bound(found, name)
        assert one is not None and one.of == "step"
        first = only(found).warmup.steps
        measured = [sum(max(sum(r[i].values()) for r in s) for i in range(first, STEPS))
                    for s in (steps, less)]  # fmt: skip
        extra = (STEPS - first) * (1.0 if ranks > 1 else 0.0)
        assert one.factor == pytest.approx((measured[0] + extra) / (measured[1] + extra), rel=1e-3)
        assert only(without).step.mean == pytest.approx(one.remaining, rel=0.03)
        assert f"{one.factor:.3g} times" in one.text and one.text.startswith("upper bound: ")


@pytest.mark.parametrize("having", [{0}, {2}, {1, 2}], ids=str)
def test_a_region_that_only_some_ranks_have(tmp_path: Path, having: set[int]) -> None:
    draw = random.Random(str(having))
    steps = [[{**parts(draw), "optimizer": 1.0} for _ in range(STEPS)] for _ in range(3)]
    for rank in {0, 1, 2} - having:
        for turn in steps[rank]:
            del turn["h2d"]
    found = simulated(tmp_path / "r", steps)
    first = only(found).warmup.steps
    whole, less = (
        sum(max(sum(rank[i].values()) - rank[i].get(name, 0.0) for rank in steps) + 1.0
            for i in range(first, STEPS)) for name in ("", "h2d"))  # fmt: skip
    one = bound(found, "h2d")
    if one is None:
        assert whole / less < 1.05
    else:
        assert one.factor == pytest.approx(whole / less, rel=1e-3)


@pytest.mark.parametrize("cells", [1 << 22, 7])
def test_a_straggler_as_fast_as_the_others(
    tmp_path: Path, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        arrays, "_CELLS", cells
    )  # how many steps of all ranks are looked at at once
    usual = {"io": 1.0, "h2d": 1.0, "forward": 2.0, "other": 1.0, "backward": 4.0, "optimizer": 1.0}
    steps = [[usual] * 40, [usual] * 40, [{**usual, "forward": 12.0}] * 40]
    found = simulated(tmp_path / "r", steps)
    one = bound(found, "straggler")
    assert one is not None and one.factor == pytest.approx(21 / 11, rel=1e-3)
    assert found.verdict.kind == "straggler" and found.verdict.bounds[0] is one
    comm = bound(found, "comm")
    assert comm is not None and comm.factor == pytest.approx(21 / 20, rel=1e-3)
    assert bound(found, "io").factor == pytest.approx(21 / 20, rel=1e-3)  # type: ignore[union-attr]


def test_a_region_saves_no_more_than_all_ranks_spend_in_it(tmp_path: Path) -> None:
    """Where steps of ranks begin apart, what each waits is more than the others' work of the same step."""
    draw = random.Random(5)
    small = {"io": 0.5, "h2d": 0.03, "forward": 2.0, "other": 0.5, "backward": 2.0}
    steps = [[{**small, "optimizer": draw.uniform(0.1, 6)} for _ in range(40)] for _ in range(2)]
    found = simulated(tmp_path / "r", steps)
    mean = only(found).step.mean
    assert bound(found, "h2d") is None
    for name in ("io", "other"):
        one = bound(found, name)
        assert one is not None and 0 < one.seconds - one.remaining <= 1e-3 * (0.5 + 0.5) + 1e-9
        assert one.seconds == pytest.approx(mean)


def test_a_busy_device_cannot_be_hurried(tmp_path: Path) -> None:
    p = Program()
    for _ in range(40):
        p.io(6)
        begin = p.now
        p.forward(1)
        p.row("forward", begin, begin + 7_000_000, clock="device", of=1, phase="train", line=12)
        p.backward(1)
        p.update(2)
    one = bound(report(tmp_path / "r", p), "io")
    assert one is not None and one.factor == pytest.approx(10 / 7, rel=1e-3)


def test_what_the_run_does_beside_training(tmp_path: Path) -> None:
    p = Program()
    for _ in range(4):
        for _ in range(10):
            p.turn()
        p.dry()
        p.validate(20)
    found = report(tmp_path / "r", p)
    one = bound(found, "evaluation")
    spent = sum(each.seconds for each in found.segments if each.name == "evaluation")
    assert one is not None and one.of == "run"
    assert one.factor == pytest.approx(found.wall / (found.wall - spent))
    assert "without evaluation, the run would be at most" in one.text
    text = "\n".join(terminal._verdict(found.verdict))
    assert " ".join(one.text.split()[:4]) in " ".join(text.split())


def test_what_saves_little_has_no_bound(tmp_path: Path) -> None:
    p = Program()
    for _ in range(40):
        p.turn(io=0.01)
    assert bound(report(tmp_path / "r", p), "io") is None
