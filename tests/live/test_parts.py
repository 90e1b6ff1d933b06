"""Shares of a run that goes on are those that its report has in the end."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from layouts import Program, only, report

from injector.live.parts import Parts
from injector.live.state import State

MS = 1_000_000


def body(p: Program, io: float, comm: bool) -> None:
    """A turn without its fetch."""
    p.wait(io / 10)
    p.forward(3)
    with p.around("backward"):
        p.wait(2)
        if comm:
            p.span("comm", 3, nbytes=100)
    p.update(1)


def fetched(p: Program, io: float, comm: bool, transform: bool = False) -> None:
    """A turn of a loop over a loader."""
    with p.around("io", of=1):
        p.wait(io)
        if transform:
            p.forward(2, of=7, line=10)
    body(p, io, comm)


def loader(p: Program, io: float, comm: bool) -> None:
    for _ in range(2):
        for _ in range(30):
            fetched(p, io, comm)
        p.dry()
        p.wait(500)


def transforms(p: Program, io: float, comm: bool) -> None:
    for _ in range(60):
        fetched(p, io, comm, transform=True)


def accumulates(p: Program, io: float, comm: bool) -> None:
    for step in range(60):
        p.io(io)
        p.forward(3)
        p.backward(2)
        if step % 4 == 3:
            p.update(4)


def by_hand(p: Program, io: float, comm: bool) -> None:
    """A function makes the next batch, while gradients are accumulated."""
    for _ in range(60):
        for micro_step in range(4):
            p.forward(3)
            p.io(io, of=None, selector="//get_batch")
            p.wait(1)
            p.backward(2, line=13 + micro_step)
        p.update(4)
        p.wait(2)


def evaluates(p: Program, io: float, comm: bool) -> None:
    """In the middle of epochs."""
    for step in range(60):
        fetched(p, io, comm)
        if step % 20 == 9:
            p.validate(batches=200, io=5)


def teacher(p: Program, io: float, comm: bool) -> None:
    """Another model, which never trains, is called in each step."""
    for _ in range(60):
        p.io(io)
        p.predict(4, of=9)
        body(p, io, comm)


def updates(p: Program, io: float, comm: bool) -> None:
    for _ in range(60):
        p.span("augment", io)
        body(p, io, comm)


def explicit(p: Program, io: float, comm: bool) -> None:
    with p.around("epoch", line=5):
        for _ in range(60):
            with p.around("step"):
                fetched(p, io, comm)
            p.wait(7)


def queued(p: Program, io: float, comm: bool) -> None:
    """The batch comes through a queue, and something is waited for after the model was called."""
    for _ in range(60):
        p.span("wait", io, what="Queue.get")
        body(p, io, comm)
        p.span("wait", 2, what="Future.result", line=16)
        p.span("wait", 3, what="Event.wait", line=17)


def waits_inside(p: Program, io: float, comm: bool) -> None:
    """What loaders and collectives wait for is theirs."""
    for _ in range(60):
        with p.around("io", of=1):
            p.span("wait", io, what="Queue.get", line=10)
        with p.around("comm"):
            p.wait(1)
            p.span("wait", 2, what="Event.wait", line=15)
        body(p, io, comm)
        p.span("wait", 1, what="sleep", line=18)


SHAPES = [loader, transforms, accumulates, by_hand, evaluates, teacher, updates, explicit, queued,
          waits_inside]  # fmt: skip


@pytest.mark.parametrize(("shape", "io", "comm"), [*product(SHAPES, (0.5, 17, 60), (False, True))])
def test_live_and_afterwards_the_shares_are_the_same(
    shape: Callable[[Program, float, bool], None], io: float, comm: bool, tmp_path: Path
) -> None:
    p = Program()
    shape(p, io, comm)
    p.rows.sort(key=lambda row: row[1])  # as they are written
    shares = only(report(tmp_path / "r", p)).tree.shares()
    found = State(str(tmp_path / "r")).tick(1_700_000_010.0).regions
    whole = {**found, "other": 1 - sum(found.values())}
    assert whole == pytest.approx({"other": 0, **shares}, abs=0.03)


def predicts(p: Program, models: int) -> None:
    """Batches of a loader that models only predict."""
    for _ in range(60):
        p.io(5)
        for model in range(models):
            p.predict(3, of=model + 1)
        p.wait(2)
    p.dry()


def predicts_by_hand(p: Program, models: int) -> None:
    for _ in range(60):
        p.predict(3)
        p.wait(2)


@pytest.mark.parametrize(("shape", "models"), [(predicts, 1), (predicts, 2), (predicts_by_hand, 1)])
def test_inference_has_steps_and_shares_as_its_report(
    shape: Callable[[Program, int], None], models: int, tmp_path: Path
) -> None:
    p = Program()
    shape(p, models)
    loop = only(report(tmp_path / "r", p))
    found = State(str(tmp_path / "r")).tick(1_700_000_010.0)
    assert [(each.task, each.steps) for each in found.tasks] == [(loop.task, loop.steps)]
    assert (loop.task, found.ranks[0].state) == ("inference", "inference")
    whole = {**found.regions, "other": 1 - sum(found.regions.values())}
    assert whole == pytest.approx(loop.tree.shares(), abs=0.03)
    p.wait(100)
    for _ in range(30):
        loader(p, 10, comm=False)
    shares = only(report(tmp_path / "trained", p)).tree.shares()
    found = State(str(tmp_path / "trained")).tick(1_700_001_000.0)
    assert [each.task for each in found.tasks] == ["train", "evaluation"]
    whole = {**found.regions, "other": 1 - sum(found.regions.values())}
    assert whole == pytest.approx({"other": 0, **shares}, abs=0.03), (
        "what came before was evaluated"
    )


@pytest.mark.parametrize("every", [1, 3, 100])
def test_they_are_true_from_the_first_step_on(every: int, tmp_path: Path) -> None:
    """However often somebody looks, also before and in the middle of steps."""
    p = Program(origin=10**15)
    p.write(tmp_path / "r")
    state = State(str(tmp_path / "r"))
    state.tick(1_700_000_000.0)
    p.wait(4000)  # imports
    for step in range(12):
        p.io(850)
        p.forward(100)
        p.backward(30)
        p.update(20)
        p.write(tmp_path / "r")
        if step % every == 0 and step:
            found = state.tick(1_700_000_000.0 + p.now / 1e9).regions
            assert found == pytest.approx(
                {"io": 0.85, "forward": 0.1, "backward": 0.03, "optimizer": 0.02}
            )


def test_a_long_step_keeps_little() -> None:
    parts = Parts()
    parts.span(0, 10, "io", "a")
    for at in range(10, 10_010, 10):
        parts.span(at, at + 5, "forward")
        parts.evaluated(at + 5, at + 8)
    assert len(parts._pieces) <= 65
    parts.span(10_010, 10_020, "io", "a")
    parts.fetched(10_010, "a")
    assert (parts.total, parts.regions) == (7010, {"io": 10, "forward": 5000})
