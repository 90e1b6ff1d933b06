"""Epochs as rows: where each begins, whatever the loop looks like, with its items, losses and cost."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from layouts import EPOCH, Program, only, report

from injector.analysis.epochs import with_cost
from injector.analysis.event_samples import TimedLoss
from injector.analysis.profiling import profile
from injector.analysis.training_loop import Epoch, TrainingLoop
from injector.report.training_loops import epoch_table
from injector.store.folder import open_run
from injector.value_class import replace

ms = pytest.approx
STEPS = 10


def _begun(p: Program) -> None:
    p.span("io.start", 0.5, of=1, line=10)
    for _ in range(STEPS):
        p.turn()
    p.dry()


def _made_anew(p: Program) -> None:
    """A loader of its own for each epoch."""
    of = 1 + p.now
    p.span("io.start", 0.5, of=of, line=10)
    for _ in range(STEPS):
        p.io(of=of)
        p.train()
    p.dry(of=of)


def _ends_only(p: Program) -> None:
    for _ in range(STEPS):
        p.turn()
    p.dry()


def _marked(p: Program) -> None:
    """Each turn of a loader's loop is a step, as `ov.loader` marks it."""
    for _ in range(STEPS):
        with p.around("step", items=8, of=1, how="items"):
            p.turn()
    p.dry()


def _left_early(p: Program) -> None:
    """``break`` after so many batches: the loader never runs dry."""
    p.span("io.start", 0.5, of=1, line=10)
    for _ in range(STEPS):
        p.turn()


def _accumulated(p: Program) -> None:
    p.span("io.start", 0.5, of=1, line=10)
    for _ in range(STEPS):
        p.io(0.5)
        p.forward(0.5, items=4)
        p.backward(0.5)
        p.io(0.5)
        p.forward(0.5, items=4)
        p.backward(0.5)
        p.update()
    p.dry()


def _ahead(p: Program) -> None:
    """Three batches are fetched before the first is trained with."""
    p.span("io.start", 0.5, of=1, line=10)
    for batch in range(STEPS + 3):
        if batch < STEPS:
            p.io()
        elif batch == STEPS:
            p.dry()
        if batch >= 3:
            p.train()


def _said(p: Program) -> None:
    """A region of a library's own, with its validation in it."""
    with p.around("epoch", line=5):
        _begun(p)
        p.validate()


def _fetched_before(p: Program) -> None:
    """A region of a library's own, which looks for the first batch before it begins."""
    p.span("io.start", 0.5, of=1, line=10)
    p.io()
    with p.around("epoch", line=5):
        for batch in range(STEPS):
            if batch:
                p.io()
            p.train()
        p.dry()


def _made_by_hand(p: Program) -> None:
    """A library's own epoch around batches of an iterable that is no loader: updates pace the steps."""
    with p.around("epoch", line=5):
        for _ in range(STEPS):
            p.wait(1)
            p.train()


def _validated(p: Program) -> None:
    _begun(p)
    p.validate()


def _validated_on_the_same_data(p: Program) -> None:
    _begun(p)
    p.span("io.start", 0.5, of=1, line=21)
    p.validate(of=1)


def _validated_within(p: Program) -> None:
    p.span("io.start", 0.5, of=1, line=10)
    for step in range(STEPS):
        p.turn()
        if step == 4:
            p.span("io.start", 0.5, of=1, line=21)
            p.validate(of=1)
    p.dry()


LAYOUTS = [
    _begun, _made_anew, _ends_only, _marked, _left_early, _accumulated, _ahead, _said, _fetched_before,
    _made_by_hand,
    _validated, _validated_on_the_same_data, _validated_within,
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda each: each.__name__[1:])
@pytest.mark.parametrize("ranks", [1, 2])
def test_each_begins_where_the_loop_does(
    tmp_path: Path, layout: Callable[[Program], None], ranks: int
) -> None:
    programs = [Program(n + 1, n if ranks > 1 else None) for n in range(ranks)]
    begins = []
    for _ in range(4):
        begins.append(programs[0].now)
        for p in programs:
            layout(p)
        for p in programs:
            p.wait(3)
    found = only(report(tmp_path / "r", *programs)).epochs
    assert [each.number for each in found] == [0, 1, 2, 3]
    assert [each.steps for each in found] == [STEPS] * 4
    assert [each.items for each in found] == [8.0 * STEPS * ranks] * 4
    whole = [each.seconds + each.after for each in found[:-1]]
    apart = [(b - a) / 1e9 for a, b in pairwise(begins)]
    assert whole == [ms(each, abs=1e-3) for each in apart]
    assert all(each.throughput == ms(each.items / each.seconds) for each in found)


@pytest.mark.parametrize(
    ("line", "first", "function"),
    [(10, 10, "main"), (10, 10, "<genexpr>"), (9, 10, "main"), (9, 9, "main"), (8, 9, "main")],
)
def test_an_epoch_may_begin_within_a_step(
    tmp_path: Path, line: int, first: int, function: str
) -> None:
    """Five batches in each, two in a step. A generator expression is a function of its own, the loader may
    start at the line of an iterator, and the first batch be fetched apart.
    """
    p = Program()
    for batch in range(20):
        if batch % 5 == 0:
            p.span("io.start", 0.5, of=1, line=line)
        p.io(0.5, line=10 if batch % 5 else first, function=function)
        p.forward(0.5, items=4)
        p.backward(0.5)
        if batch % 2:
            p.update()
        if batch % 5 == 4:
            p.dry(function=function)
    found = only(report(tmp_path / "r", p)).epochs
    assert [each.steps for each in found] == [3, 2, 3, 2]


@pytest.mark.parametrize("others", [1, 2])
def test_a_loader_that_another_thread_reads_ahead(tmp_path: Path, others: int) -> None:
    """Batches come from a queue. Of several such loaders, which one's are trained with is not known."""
    p = Program()
    p.span("io.start", 0.5, of=3, line=5)
    for _ in range(3):
        p.span("io.start", 0.5, of=1, line=10)
        for _ in range(STEPS):
            p.span("io", 1, line=19)
            p.train()
        if others == 2:
            p.span("io.start", 0.5, of=2, line=20)
            p.predict()
    found = only(report(tmp_path / "r", p)).epochs
    assert [each.steps for each in found] == ([STEPS] * 3 if others == 1 else [])


def test_what_is_validated_before_the_loader_runs_dry_comes_after_the_epoch(tmp_path: Path) -> None:
    p = Program()
    for _ in range(3):
        p.span("io.start", 0.5, of=1, line=10)
        for _ in range(STEPS):
            p.turn()
        p.validate()
        p.dry()
    found = only(report(tmp_path / "r", p)).epochs
    assert [each.steps for each in found] == [STEPS] * 3
    assert [each.seconds for each in found] == [ms(80.5e-3)] * 3
    assert [each.after for each in found] == [ms(9.8e-3), ms(9.8e-3), ms(9.7e-3)]


def test_what_is_no_epoch(tmp_path: Path) -> None:
    p = Program()
    for _ in range(20):  # next(iter(loader)) for each batch
        p.span("io.start", 0.5, of=1, line=10)
        p.turn()
    assert len(only(report(tmp_path / "one", p)).epochs) <= 1
    p = Program()
    for _ in range(20):  # without a loader
        p.train()
    assert only(report(tmp_path / "two", p)).epochs == ()
    p = Program()
    for _ in range(20):  # steps that a voirfile marks as calls of a function
        with p.around("step"):
            p.turn()
    p.dry()
    assert only(report(tmp_path / "three", p)).epochs == ()


def test_the_losses_of_an_epoch_are_those_of_its_time(tmp_path: Path) -> None:
    p = Program()
    times, values = array("d"), array("d")
    for epoch in range(3):
        p.span("io.start", 0.5, of=1, line=10)
        for step in range(STEPS):
            p.io()
            p.forward()
            times.append(EPOCH + p.now / 1e9)
            values.append(10.0 * epoch + step)
            p.backward()
            p.update()
        p.dry()
    report(tmp_path / "r", p)
    losses = [TimedLoss(0, "loss", times, values), TimedLoss(1, "other", times, values)]
    found = profile(open_run(str(tmp_path / "r")), losses=losses)
    assert found is not None
    told = [each.losses for each in only(found).epochs]
    assert [(one.name, one.n, one.first, one.last, one.mean) for (one,) in told] == [
        ("loss", 10, 10.0 * epoch, 10.0 * epoch + 9, 10.0 * epoch + 4.5) for epoch in range(3)
    ]


def test_the_cost_and_the_rows(tmp_path: Path) -> None:
    p = Program()
    for _ in range(30):
        _validated(p)
    loop: TrainingLoop = with_cost(only(report(tmp_path / "r", p)), 3600.0)
    first: Epoch = loop.epochs[0]
    assert first.cost == ms(first.seconds + first.after)
    text = epoch_table(loop, "EUR")
    assert "cost EUR" in text[0] and text[4].strip() == "… 18 epochs between these"
    assert [line.split()[0] for line in text[1:4]] == ["0", "1", "2"]
    assert text[-2].split()[:2] == ["29", "10"]
    assert epoch_table(replace(loop, epochs=loop.epochs[:1])) != []  # its cost is known
    assert epoch_table(replace(loop, epochs=(replace(first, cost=None),))) == []


@pytest.mark.parametrize(("line", "epochs"), [(10, [3, 2] * 4), (40, [20])])
def test_an_epoch_that_begins_within_a_step(tmp_path: Path, line: int, epochs: list[int]) -> None:
    """Steps of two batches, epochs of five, by a generator that goes on; another line reads beside them."""
    p = Program()
    p.span("io.start", 0.5, of=1, line=10)
    for batch in range(40):
        if batch and batch % 5 == 0:
            p.dry(line=line)
            p.span("io.start", 0.5, of=1, line=line)
        p.io(0.5)
        p.forward(0.5, items=8)
        p.backward(0.5)
        if batch % 2:
            p.update()
    loop = only(report(tmp_path / "r", p))
    assert loop.steps == 20
    assert [epoch.steps for epoch in loop.epochs] == epochs


@pytest.mark.parametrize("is_beside", [False, True])
def test_an_iterator_that_another_line_makes(tmp_path: Path, is_beside: bool) -> None:
    """``batches = iter(loader)`` before each inner loop begins an epoch, unless one batch is looked at."""
    p = Program()
    for batch in range(40):
        if batch % 10 == 0 and not (is_beside and batch):
            p.span("io.start", 0.5, of=1, line=9)
        p.turn()
        if is_beside and batch % 10 == 9:
            p.span("io.start", 0.5, of=1, line=9)
            p.io(line=9)
    loop = only(report(tmp_path / "r", p))
    assert loop.steps == 40
    assert [epoch.steps for epoch in loop.epochs] == ([40] if is_beside else [10] * 4)
