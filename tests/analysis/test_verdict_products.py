"""Verdicts of programs of every make: what is named is what could save most, and advice fits."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from layouts import EPOCH, Program, only, report

from injector.analysis import verdict as verdicts
from injector.analysis.machines import HostUsage
from injector.analysis.profile import Profile, Verdict
from injector.analysis.profiling import profile
from injector.analysis.recorded import ValueSeries
from injector.analysis.training_loop import TrainingLoop
from injector.store.folder import open_run
from injector.value_class import replace

REGIONS = ("io", "h2d", "forward", "backward", "optimizer", "comm", "wait", "other")
KINDS = {
    "io": "input-bound",
    "h2d": "transfer-bound",
    "comm": "communication-bound",
    "wait": "wait-bound",
    "other": "overhead-bound",
    "compute": "compute-bound",
}
CROWDED = "other programs kept 1.5 of 2 cores of h busy, this one 0.4"


class Shape(NamedTuple):
    """One program."""

    parts: dict[str, float]
    """Milliseconds of a step."""
    changing: bool
    """Whether the second half of its steps is another program's."""
    bursts: bool
    """Whether what is waited for comes every fourth step, four times as long."""
    steps: int
    crowded: bool
    full: bool
    workers: int
    data: str
    compiled: bool
    nan: bool
    first: float
    """Milliseconds of the first step more than of others."""
    start: float
    """Milliseconds of start-up."""


def shapes(seed: int, count: int) -> list[Shape]:
    """Drawn so that each region is the largest now and then."""
    draw = random.Random(seed)
    return [
        Shape(
            parts={name: draw.choice((0, 0.2, 1, 3, 8)) for name in REGIONS},
            changing=draw.random() < 0.2,
            bursts=draw.random() < 0.3,
            steps=draw.choice((4, 9, 17, 40, 130)),
            crowded=draw.random() < 0.3,
            full=draw.random() < 0.3,
            workers=draw.choice((0, 1, 4)),
            data=draw.choice(("MNIST", "TensorDataset", "list")),
            compiled=draw.random() < 0.4,
            nan=draw.random() < 0.2,
            first=draw.choice((0, 0, 60_000)),
            start=draw.choice((0, 500, 100_000)),
        )
        for _ in range(count)
    ]


def program(shape: Shape) -> Program:
    """The program of a shape: a line for each region."""
    workers = f", {shape.workers} workers" if shape.workers else ""
    model = "OptimizedModule of Net" if shape.compiled else "Net"
    p = Program()
    for step in range(shape.steps):
        parts = dict(shape.parts)
        if shape.bursts:
            parts["io"] = 4 * parts["io"] if step % 4 == 0 else 0
        if shape.changing and 2 * step >= shape.steps:
            parts["io"], parts["other"] = parts["other"], parts["io"]
        p.io(parts["io"], what=f"DataLoader of {shape.data}{workers}")
        if parts["h2d"]:
            p.span("h2d", parts["h2d"], nbytes=1000)
        if parts["wait"]:
            p.span("wait", parts["wait"], line=33, what="Event.wait")
        p.forward(parts["forward"] + 0.1 + (0 if step else shape.first), what=model)
        with p.around("backward"):
            p.wait(parts["backward"])
            if parts["comm"]:
                p.span("comm", parts["comm"], nbytes=1000)
        p.update(parts["optimizer"])
        p.wait(parts["other"])
    return p


def told(shape: Shape, folder: Path) -> Profile:
    """What is said of the program of ``shape``."""
    p = program(shape)
    report(folder, p, start=shape.start)
    load = tuple((EPOCH + i * 0.01, 0.99 if shape.full else 0.5) for i in range(20_000))
    facts: dict[str, Any] = {key: {} for key in ("metrics", "shortage", "container", "ranks")}
    facts.update(processes=(), devices=(), problems=())
    machine = HostUsage(
        "h", 9, load=load, total_cores=8, crowded=CROWDED if shape.crowded else "", **facts
    )
    found = profile(open_run(str(folder)), None, [machine])
    assert found is not None
    series = [ValueSeries("", "train", "loss", 50, 1.0, "NaN", None, 20)] if shape.nan else []
    return replace(found, verdict=verdicts.with_losses(found.verdict, series))


def saved(loop: TrainingLoop) -> dict[str, float]:
    """What each region could save, from the table as it is shown."""
    shares = dict.fromkeys(REGIONS, 0.0)
    for child in loop.tree.children:
        inner = sum(each.share for each in child.children if each.name == "comm")
        shares[child.name] = shares.get(child.name, 0.0) + child.share - inner
        shares["comm"] += inner
    computing = ("forward", "backward", "optimizer")
    found = {name: share for name, share in shares.items() if name not in computing}
    return {**found, "compute": sum(shares[name] for name in computing) / 3}


def check(shape: Shape, found: Profile) -> None:
    """What holds for every verdict."""
    verdict, loop = found.verdict, only(found)
    words = f"{shape}\n{verdict}"
    saving = saved(loop)
    most = max(saving.values())
    if verdict.kind == "balanced":
        assert saving["compute"] == most, words
    else:
        [named] = [name for name, kind in KINDS.items() if kind == verdict.kind]
        assert saving[named] >= most - 1e-3, words
        share = 3 * saving[named] if named == "compute" else saving[named]
        assert abs(float(re.findall(r": (\d+) %", verdict.sentence)[0]) - 100 * share) < 0.6, words
    for name, part in saving.items():
        kind = KINDS[name]
        if part >= 0.105 and name != "compute" and kind != verdict.kind:
            text = f"{100 * part:.0f} %"
            assert any(b.startswith(f"also {kind}: ") and text in b for b in verdict.besides), words
    _check_severity(shape, verdict, most, loop, words)
    _check_advice(shape, verdict, words)
    _check_dwarfs(shape, verdict, loop, words)


def _check_severity(
    shape: Shape, verdict: Verdict, most: float, loop: TrainingLoop, words: str
) -> None:
    level = verdict.confidence.partition(":")[0]
    assert level in ("high", "medium", "low"), words
    assert (level == "low") == ("uncertain: " in verdict.sentence), words
    if loop.step.n < 16:
        assert level == "low" and f"only {loop.step.n} step" in verdict.confidence, words
    assert shape.crowded == (CROWDED in verdict.confidence), words
    assert level != "high" or not shape.crowded, words
    if verdict.severity == "critical":
        assert most >= 0.2 and level != "low" and loop.step.n >= 16, words
    if verdict.kind in ("compute-bound", "balanced"):
        assert verdict.severity == ("warning" if shape.nan else "info"), words


def _check_advice(shape: Shape, verdict: Verdict, words: str) -> None:
    text = " ".join(verdict.advice)
    assert not (shape.compiled and "compile" in text), words
    if "num_workers" in text:
        assert not shape.full and verdict.kind == "input-bound", words
    if verdict.kind == "input-bound":
        assert ("collating" in text) == (shape.data == "TensorDataset"), words
        assert ("can be stacked" in text) == (shape.data == "list"), words
        workers_help = shape.data != "TensorDataset" and not shape.full
        assert ("num_workers" in text) == workers_help, words
    assert ("pin" in text) == (verdict.kind == "transfer-bound"), words
    assert verdict.advice or verdict.kind == "balanced", words


def _check_dwarfs(shape: Shape, verdict: Verdict, loop: TrainingLoop, words: str) -> None:
    besides = " ".join(verdict.besides)
    assert shape.nan == ("20 of 50 losses (loss) are not finite" in verdict.sentence), words
    if shape.first > shape.start:
        assert "60.0 s" in verdict.sentence or "60.1 s" in verdict.sentence, words
        assert shape.compiled == ("compiling" in verdict.sentence), words
    if shape.start == 100_000:
        assert "start-up takes 100 s" in besides, words
    if not shape.start and not shape.first:
        assert "start-up" not in besides and "one step" not in besides, words
    if loop.exceptional:
        assert "all shares exclude it" in besides, words


@pytest.mark.parametrize("seed", range(6))
def test_verdicts_of_all_makes(seed: int, tmp_path: Path) -> None:
    for number, shape in enumerate(shapes(seed, 40)):
        check(shape, told(shape, tmp_path / str(number)))


@pytest.mark.release
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_verdicts_of_all_makes(seed: int, tmp_path: Path) -> None:
    for number, shape in enumerate(shapes(seed, 100)):
        check(shape, told(shape, tmp_path / str(number)))


def test_the_shares_are_those_of_the_table(tmp_path: Path) -> None:
    for number, shape in enumerate(shapes(7, 20)):
        tree = only(told(shape, tmp_path / str(number))).tree
        assert sum(tree.shares().values()) == pytest.approx(1.0, abs=1e-3)
