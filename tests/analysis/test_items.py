"""Whose word counts for the items of a step: the loader's, the model's, the loss's, or nobody's."""

from __future__ import annotations

from pathlib import Path

import pytest
from layouts import Program, only, report

from injector.analysis.training_loop import TrainingLoop


def said(folder: Path, p: Program) -> tuple[float | None, str | None]:
    loop: TrainingLoop = only(report(folder, p))
    return loop.items_per_step, loop.throughput.why_no_items


@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("fetches", [1, 3])
@pytest.mark.parametrize("called", [16, 315, 8, 0])
def test_the_loader_knows_best(tmp_path: Path, called: int, fetches: int, ahead: int) -> None:
    p = Program()
    batches = 24
    for number in range(batches):
        if number == 0 or not ahead:
            p.io(items=16)
        if ahead and number < batches - 1:
            p.io(items=16)
        if ahead and number == batches - 1:
            p.dry()
        p.forward(items=called)
        p.backward()
        if number % fetches == fetches - 1:
            p.update()
    if not ahead:
        p.dry()
    assert said(tmp_path / "r", p) == (16 * fetches, None)


@pytest.mark.parametrize(
    ("drawn", "called", "times", "found"),
    [
        (40, 8, 1, 8),  # time comes first
        (40, 40, 1, 40),
        (16, 32, 1, None),  # two views of each, or the time first
        (40, 8, 2, None),  # in parts
        (40, 0, 1, 40),
    ],
)
def test_a_model_may_know_better_than_the_shape_of_what_was_fetched(
    tmp_path: Path, drawn: int, called: int, times: int, found: int | None
) -> None:
    p = Program()
    for number in range(12):
        p.io(items=drawn, how="counted")
        for _ in range(times):
            p.forward(items=called if number else drawn)
        p.backward()
        p.update()
    p.dry()
    items, why = said(tmp_path / "r", p)
    assert items == found and (why is None) == (found is not None)


@pytest.mark.parametrize(("first", "then", "found"), [(25, 75, None), (16, 16, 64), (16, 0, 64)])
def test_gradients_that_accumulate_nothing_separate_no_pieces(
    tmp_path: Path, first: int, then: int, found: int | None
) -> None:
    """Copies are fitted before each backward (MAML), or its loss has a penalty of gradients."""
    p = Program()
    for _ in range(12):
        for _ in range(4):
            for _ in range(3):
                p.forward(items=first)
                p.backward(selector="/torch.autograd/grad", line=31)
            if then:
                p.forward(items=then)
            p.backward()
        p.update()
    items, why = said(tmp_path / "r", p)
    assert items == found
    assert why == (
        None if found else "its models are called with several batches before each update"
    )


def test_copies_that_are_made_for_one_step_do_not_tell_its_items(tmp_path: Path) -> None:
    p = Program()
    for step in range(12):
        for task in range(4):
            p.forward(items=25, of=100 + 4 * step + task)
            p.backward()
        p.update()
    items, why = said(tmp_path / "r", p)
    assert items is None and why == "its models are called with several batches before each update"


def test_a_loader_that_is_ahead_of_few_steps_of_two_batches(tmp_path: Path) -> None:
    """The last batch of each epoch is smaller, makes a step by itself, and the model does not tell."""
    p = Program()
    for _ in range(2):
        p.span("io.start", 0.1, of=1, line=10)
        p.io(items=8)
        for number in range(7):
            if number == 6:
                p.dry()
            else:
                p.io(items=4 if number == 5 else 8)
            p.forward(items=0)
            p.backward()
            if number in (1, 3, 5, 6):
                p.update()
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.throughput.why_no_items) == (8, None)
    assert [epoch.items for epoch in loop.epochs] == [52, 52]


def test_a_loader_that_is_ahead_when_the_run_is_stopped(tmp_path: Path) -> None:
    """Two calls for each item, as in preference learning; the last batch that was fetched is left."""
    p = Program()
    for batches in (16, 16, 9):
        p.io(items=2)
        for number in range(batches - 1 if batches == 9 else batches):
            if number < batches - 1:
                p.io(items=2)
            else:
                p.dry()
            p.forward(items=4)
            p.backward()
            if number % 2:
                p.update()
    assert said(tmp_path / "r", p) == (4, None)


@pytest.mark.parametrize("first", [10, 9], ids=["same line", "first batch apart"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_model_that_is_called_before_the_next_batch_is_fetched(
    tmp_path: Path, first: int, restarts: bool
) -> None:
    """Backward and update come after the fetch, so that the first call is in no step of its own."""
    p, steps = Program(), 30
    p.io(items=8, line=first)
    for number in range(steps):
        p.forward()
        if restarts and number % 10 == 9:
            p.dry()
        p.io(items=8)
        p.backward()
        p.update()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.items_per_step, found.evaluations) == (steps, 8, ())
    assert sum(epoch.items for epoch in loop.epochs) == (8 * steps if restarts else 0)


@pytest.mark.parametrize("together", [1, 2, 3])
def test_each_step_has_the_items_and_tokens_that_it_learns_from(
    tmp_path: Path, together: int
) -> None:
    """The first step calls its model once more, and the last one once less: with those of one batch."""
    p, steps = Program(), 20
    p.io(items=8)
    for number in range(steps * together):
        p.forward(tokens=8 * 32)
        p.io(items=8)
        p.backward()
        if number % together == together - 1:
            p.update()
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.items_per_step) == (steps, 8 * together)
    found = loop.throughput
    assert found.tokens / found.items == pytest.approx(32)


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_call_with_more_than_the_batch_now_and_then_is_none_of_its_items(
    tmp_path: Path, ahead: int
) -> None:
    """A generator that draws pictures of 100 seeds every tenth step, in its mode for training."""
    p = Program()
    for number in range(40):
        if number == 0 or not ahead:
            p.io(items=32)
        if ahead:
            p.io(items=32) if number < 39 else p.dry()
        p.forward(items=32)
        p.backward()
        p.update()
        if number % 10 == 0:
            p.forward(items=100)
    if not ahead:
        p.dry()
    assert said(tmp_path / "r", p) == (32, None)


def test_a_step_whose_model_was_not_seen_has_what_was_drawn(tmp_path: Path) -> None:
    """The first turns of a trainer whose own call is that of a module."""
    p = Program()
    for number in range(12):
        p.io(items=16)
        if number > 1:
            p.forward(items=16)
        p.backward()
        p.update()
    loop = only(report(tmp_path / "r", p))
    assert loop.items_per_step == 16


def test_a_batch_that_is_left_out_is_not_worked_on(tmp_path: Path) -> None:
    for called in (4, 77):
        p = Program()
        for number in range(24):
            p.io(items=4)
            if number % 3:
                p.forward(items=called)
                p.backward()
                p.update()
        assert said(tmp_path / str(called), p) == (4, None)


def test_an_evaluation_does_not_tell_how_many_batches_a_step_was_trained_with(
    tmp_path: Path,
) -> None:
    """Every second batch is left out, weights are moved by hand, and every second step is followed by a
    validation without a loader."""
    p = Program()
    for step in range(12):
        p.io(items=8)
        p.io(items=8)
        p.forward(items=8)
        p.backward()
        for _ in range(3 if step % 2 else 0):
            p.predict(items=4, phase="predict")
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.items_per_step) == (12, 8)


def test_two_loaders_side_by_side_give_what_the_model_takes(tmp_path: Path) -> None:
    for called, expected in ((8, 8), (2, 2), (0, None)):
        p = Program()
        for _ in range(12):
            p.io(items=2)
            p.io(items=6, of=9, line=10)
            p.forward(items=called)
            p.backward()
            p.update()
        items, why = said(tmp_path / str(called), p)
        assert items == expected and bool(why) is (expected is None)


def test_two_loaders_of_the_same_data_give_what_the_first_one_drew(tmp_path: Path) -> None:
    """Two batches of each make a step, and the last batch of an epoch is smaller."""
    p = Program()
    for _ in range(3):
        for batch in range(6):
            p.io(items=2 if batch == 5 else 8)
            p.io(items=2 if batch == 5 else 8, line=9)
            p.forward(items=2 if batch == 5 else 8)
            p.backward()
            if batch % 2:
                p.update()
        p.dry()
    assert said(tmp_path / "r", p) == (13.75, None)  # without the first step


def test_loaders_that_are_made_anew_for_each_epoch_know_best(tmp_path: Path) -> None:
    """The discriminator of a GAN is called with real and generated items at once."""
    p = Program()
    for epoch in range(3):
        for _ in range(8):
            p.io(items=16, of=20 + epoch)
            p.forward(items=32)
            p.backward()
            p.update()
        p.dry(of=20 + epoch)
    assert said(tmp_path / "r", p) == (16, None)


def test_one_draw_that_is_many_items_or_one_of_many_parts(tmp_path: Path) -> None:
    p = Program()
    for _ in range(12):
        p.io(items=1)
        p.forward(items=64)
        p.backward()
        p.update()
    items, why = said(tmp_path / "r", p)
    assert items is None and why is not None and "64" in why


@pytest.mark.parametrize("seen", [1, 16])
def test_one_draw_whose_model_is_not_known(tmp_path: Path, seen: int) -> None:
    """A data set may hold whole batches, of which a loader draws one at a time."""
    p = Program()
    for _ in range(12):
        p.io(items=1)
        p.forward(items=0)
        p.forward(items=seen, of=9, phase=None, line=31)
        p.backward()
        p.update()
    items, why = said(tmp_path / "r", p)
    expected = "its loader drew 1 item at a time, but its loss was called with 16"
    assert (items, why) == ((1, None) if seen == 1 else (None, expected))


@pytest.mark.parametrize(
    ("model", "loss", "agree"),
    [
        (16, 16, True),
        (16, 16 * 50, True),  # each token of each sequence
        (50, 16, False),  # the model has time first, or nodes
        (10, 16, False),
        (64, 1, False),
        (16, 0, True),
        (0, 3, False),  # one observation, of which three numbers come
    ],
)
def test_a_loss_may_contradict_the_model(
    tmp_path: Path, model: int, loss: int, agree: bool
) -> None:
    p = Program()
    for _ in range(12):
        p.forward(items=model)
        if loss:
            p.forward(items=loss, of=7, line=16, phase=None, ms=1)
        p.backward()
        p.update()
    items, why = said(tmp_path / "r", p)
    assert items == (model if agree else None)
    assert agree or why is not None
    assert agree or not model or (str(model) in str(why) and str(loss) in str(why))


@pytest.mark.parametrize(("payload", "items"), [("counted", 16), ("items", 50)])
def test_a_named_loader_that_drew_other_than_its_batches_look(
    tmp_path: Path, payload: str, items: int
) -> None:
    p = Program()
    for _ in range(12):
        start = p.now
        with p.around("io", items=50, of=9, line=10, how=payload, task="train"):
            p.io(items=16, how="items")
        p.train()
        p.row("step", start, p.now, 50, of=9, how=payload, task="train")
    assert said(tmp_path / "r", p) == (items, None)


@pytest.mark.parametrize("learns_after", [True, False])
@pytest.mark.parametrize("acting", [1, 64])
def test_items_of_an_agent_are_those_that_it_learns_of(
    tmp_path: Path, acting: int, learns_after: bool
) -> None:
    """It acts by the same line, with gradients, then learns of a batch, or of its actions (REINFORCE)."""
    p = Program()
    for _ in range(20):
        for _ in range(5):
            p.forward(0.5, items=acting, of=1)
            p.span("env", 0.5)
        if learns_after:
            p.forward(items=24, of=1)
        p.backward()
        p.update()
    assert said(tmp_path / "r", p) == (24 if learns_after else 5 * acting, None)


def test_two_updates_of_an_agent_learn_of_one_batch_each(tmp_path: Path) -> None:
    """A critic learns after each step of the environment, an actor after every other one."""
    p = Program()
    for step in range(40):
        p.forward(0.5, items=1, of=1)
        p.span("env", 0.5)
        p.forward(items=16, of=2, line=32)
        p.backward(line=33)
        p.update(of=2, line=34)
        if step % 2:
            p.forward(items=16, of=1)
            p.backward()
            p.update()
    assert said(tmp_path / "r", p) == (16, None)


@pytest.mark.parametrize("loader", [True, False])
@pytest.mark.parametrize("left", [2, 10])
def test_a_model_left_in_evaluation_mode_is_trained_all_the_same(
    tmp_path: Path, left: int, loader: bool
) -> None:
    """After the first epoch's evaluation, or that of most epochs, nothing puts it back."""
    p = Program()
    for epoch in range(12):
        for _ in range(5):
            if loader:
                p.io()
            p.forward(3, phase="train" if epoch < left else "predict")
            p.backward()
            p.update()
        if loader:
            p.dry()
        p.wait(0.5)
        p.predict(20, items=30)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.items_per_step) == (60, 8)
    assert (loop.step.min, loop.step.max) == pytest.approx(
        (9e-3,) * 2 if loader else (8e-3,) * 2, abs=2e-4
    )
    assert [(each.passes, each.items) for each in found.evaluations] == [(12, 360)]


def test_items_that_few_steps_tell_are_none_of_all(tmp_path: Path) -> None:
    """A model that is called in its training once, and a loss that says nothing in all steps."""
    p = Program()
    for number in range(24):
        if number % 8 == 0:
            p.forward(items=9)
        p.forward(items=0, of=2, line=16)
        p.backward()
        p.update()
    assert said(tmp_path / "r", p) == (
        None,
        "the calls of its models tell them in only 3 of 24 steps",
    )


def test_a_copy_that_is_fitted_between_two_updates_does_not_tell_the_items(tmp_path: Path) -> None:
    """Meta-learning: its test adapts copies of the model, by gradients, every few updates."""
    p = Program()
    for number in range(24):
        p.forward(items=2, of=1)
        p.backward()
        p.update()
        if number % 8 == 0:
            for copy in (5, 6):
                for _ in range(3):
                    p.forward(items=9, of=copy, line=40)
                    p.backward(line=41)
    assert said(tmp_path / "r", p) == (2, None)


@pytest.mark.parametrize("looks_at", [16, 4])
def test_calls_beside_a_closure_are_not_what_the_step_learns_from(
    tmp_path: Path, looks_at: int
) -> None:
    """A trainer by L-BFGS, which calls the model once more after each step, of this data or of other."""
    p = Program()
    for _ in range(12):
        with p.around("optimizer", of=1):
            for _ in range(3):
                p.forward(items=16)
                p.backward()
        p.forward(items=looks_at)
    assert said(tmp_path / "r", p) == (16, None)
