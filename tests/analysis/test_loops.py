"""Every shape of a training loop, and the steps that are found in it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from layouts import Program, only, regions, report, stretch

from injector.analysis.query import run_query
from injector.analysis.views import views
from injector.report import training_loops
from injector.store.folder import open_run

ms = pytest.approx


def test_a_loader_drives_the_loop(tmp_path: Path) -> None:
    p = Program()
    p.wait(100)
    for _ in range(3):
        for _ in range(10):
            p.turn(io=1, other=0.5)
        p.dry(2)
        p.wait(5)
    found = report(tmp_path / "r", p, start=50, end=20)
    loop = only(found)
    assert (loop.paced_by, loop.steps, loop.warmup.steps) == ("loader", 30, 1)
    assert loop.place and loop.place.line == 10
    assert loop.step.median == ms(8.5e-3)
    assert regions(loop) == {"io": 1, "forward": 2, "backward": 4, "optimizer": 1, "other": 0.5}
    assert loop.items_per_step == 8 and loop.throughput.items == ms(8 / 8.5e-3, rel=1e-4)
    assert (loop.fetches_per_step, loop.updates_per_step) == (1, 1)
    assert stretch(found, "start-up") == 150 and stretch(found, "training") == ms(29 * 8.5)
    assert stretch(found, "warm-up") == 8.5 and stretch(found, "gap") == ms(14)
    assert stretch(found, "shutdown") == ms(22)
    io = loop.tree.children[0]
    assert (io.name, io.calls, io.share) == ("io", 1, ms(1 / 8.5, rel=1e-4))
    assert loop.tree.children[-1].name == "other"
    assert (
        loop.tree.children[-1].what == "between train.py:13 (backward) and train.py:14 (optimizer)"
    )


def test_without_a_loader_the_optimizer_paces(tmp_path: Path) -> None:
    p = Program()
    p.wait(300)
    for _ in range(20):
        p.wait(0.5)
        p.train()
    loop = only(report(tmp_path / "r", p))
    assert (loop.paced_by, loop.steps) == ("optimizer", 20)
    assert loop.place and loop.place.line == 14
    assert loop.step.median == ms(7.5e-3) and loop.step.max == ms(7.5e-3)
    assert regions(loop) == {"forward": 2, "backward": 4, "optimizer": 1, "other": 0.5}
    assert loop.items_per_step == 8 and loop.fetches_per_step == 0


def test_the_first_step_begins_with_its_gradients(tmp_path: Path) -> None:
    """As where JAX derives them outside of compiled code: neither a loader nor a model is seen."""
    p = Program()
    for _ in range(10):
        p.span("gradients", 4)
        p.update()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.step.min) == (10, ms(5e-3))
    assert stretch(found, "start-up") == 0


def test_iter_and_next_at_two_lines(tmp_path: Path) -> None:
    p = Program()
    for epoch in range(4):
        for batch in range(10):
            p.io(1, line=9 if epoch and not batch else 10)
            p.train()
        p.dry()
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.fetches_per_step, loop.updates_per_step) == (40, 1, 1)
    assert loop.step.median == ms(8e-3) and loop.step.max == ms(8e-3)
    assert loop.place and loop.place.line == 10


@pytest.mark.parametrize(("model", "items"), [("train", 8), ("eval", 800), (None, 800)])
def test_a_loss_need_not_know_how_many_items_there_are(
    tmp_path: Path, model: str | None, items: int
) -> None:
    p = Program()
    for _ in range(20):
        p.io()
        if model is not None:
            p.forward(phase=model)
        p.forward(0.1, items=800, phase=None, of=4, line=16)
        p.backward()
        p.update()
    assert only(report(tmp_path / "r", p)).items_per_step == items


def test_gradients_are_accumulated(tmp_path: Path) -> None:
    p = Program()
    for _ in range(2):
        for batch in range(10):
            p.io()
            p.forward()
            p.backward()
            if batch % 4 == 3:
                p.update()
        p.dry()
    found = report(tmp_path / "r", p)
    loop = only(found)
    # What is left of an epoch is no step: its gradients go nowhere.
    assert (loop.steps, loop.fetches_per_step, loop.items_per_step) == (4, 4, 32)
    assert loop.step.median == ms(29e-3)
    assert stretch(found, "gap") == ms(14.1)


@pytest.mark.parametrize(("batches", "together"), [(10, 4), (7, 5), (10, 9), (5, 4), (4, 10)])
def test_what_is_left_of_an_epoch_goes_on_in_the_next(
    tmp_path: Path, batches: int, together: int
) -> None:
    p = Program()
    for batch in range(10 * together):
        p.io()
        p.forward()
        p.backward()
        if (batch + 1) % together == 0:
            p.update()
        if (batch + 1) % batches == 0:
            p.dry(0.5)
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.fetches_per_step, loop.items_per_step) == (10, together, 8 * together)


@pytest.mark.parametrize(("batches", "together"), [(10, 4), (5, 4), (7, 5), (103, 4)])
def test_what_is_left_of_an_epoch_may_be_dropped(
    tmp_path: Path, batches: int, together: int
) -> None:
    p = Program()
    for _ in range(6):
        for batch in range(batches):
            p.io()
            p.forward()
            p.backward()
            if (batch + 1) % together == 0:
                p.update()
        p.dry(0.5)
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.fetches_per_step) == (6 * (batches // together), together)
    assert loop.items_per_step == 8 * together


def test_what_is_left_is_stepped_after_the_loop(tmp_path: Path) -> None:
    p = Program()
    for _ in range(3):
        for batch in range(10):
            p.io()
            p.forward()
            p.backward()
            if batch % 4 == 3:
                p.update()
        p.dry()
        p.update(line=16)
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.updates_per_step) == (9, 1)
    assert loop.fetches_per_step == ms(30 / 9)


def test_accumulation_without_a_loader(tmp_path: Path) -> None:
    p = Program()
    for _ in range(10):
        for _ in range(5):
            p.forward(items=4, tokens=400)
            p.backward()
        p.update()
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.items_per_step, loop.tokens_per_step) == (10, 20, 2000)


def gan(p: Program, critics: int, loader: bool) -> None:
    if loader:
        p.io()
    for _ in range(critics):
        p.forward(of=1, line=31)
        p.forward(of=1, line=32)
        p.backward(line=33)
        p.update(of=1, line=34)
    p.forward(of=2, line=35)
    p.forward(of=1, line=36)
    p.backward(line=37)
    p.update(of=2, line=38)


@pytest.mark.parametrize("critics", [1, 5])
def test_two_optimizers_with_a_loader(tmp_path: Path, critics: int) -> None:
    p = Program()
    for _ in range(20):
        gan(p, critics, loader=True)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.paced_by, loop.updates_per_step) == (20, "loader", critics + 1)
    assert loop.items_per_step == 8 and loop.step.median == ms((10 + 9 * critics) / 1e3)
    assert found.verdict.kind == "compute-bound"


@pytest.mark.parametrize("critics", [1, 5])
def test_two_optimizers_without_a_loader(tmp_path: Path, critics: int) -> None:
    p = Program()
    for _ in range(20):
        gan(p, critics, loader=False)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.paced_by, loop.updates_per_step) == (20, "optimizer", critics + 1)
    assert loop.place and loop.place.line == 38
    assert loop.items_per_step == 8 and loop.step.median == ms((9 + 9 * critics) / 1e3)
    assert found.verdict.kind == "compute-bound"


def test_trainings_one_after_the_other_that_leave_their_loaders(tmp_path: Path) -> None:
    """Nothing ends their last iterations; that of a check before each one lies around its training."""
    p = Program()
    for job in range(3):
        train, valid = {"of": 10 + job}, {"of": 20 + job, "line": 21}
        for epoch in range(job + 2):
            p.span("io.start", 0.1, **valid)
            for _ in range(2):
                p.io(**valid)
                p.predict()
            if epoch == job + 1:
                break
            p.span("io.start", 0.1, line=10, **train)
            for _ in range(7):
                p.io(**train)
                p.train(of=30 + job)
    found = report(tmp_path / "r", p)
    assert [loop.steps for loop in found.loops] == [21, 14, 7]
    for loop in found.loops:
        assert {epoch.items for epoch in loop.epochs} <= {56}
        assert loop.step.max == ms(8.1e-3, abs=2e-4) and regions(loop)["optimizer"] == 1


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("tests", [0, 30])
def test_copies_that_are_fitted_now_and_then_are_no_part_of_a_step(
    tmp_path: Path, tests: int, inside: bool
) -> None:
    """Meta-learning without a loader: the model, whose call may train it, is tested by what copies learn."""
    p = Program()
    for step in range(24):
        with p.around("forward", of=1, phase="train", line=9) if inside else nullcontext():
            for _ in range(3):
                p.forward(of=2)
                p.backward(line=15)
            p.train()
        for copy in range(tests if step % 8 == 7 else 0):
            p.forward(of=100 * step + copy, line=60)
            p.backward(line=61)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert loop.steps == 24 and loop.step.median == loop.step.max == ms(25e-3)
    assert stretch(found, "gap") == ms(2 * 6 * tests)  # what follows the last step is not


@pytest.mark.parametrize("policies", [1, 3])
def test_turns_that_begin_with_the_optimizer_of_fewest_updates(
    tmp_path: Path, policies: int
) -> None:
    """A policy is updated, then the values are fitted several times: the last turn is whole as well."""
    p = Program()
    for _ in range(20):
        for _ in range(policies):
            p.train(of=2, line=38)
        for _ in range(20):
            p.train(line=34)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.updates_per_step) == (20, policies + 20)
    assert loop.place and loop.place.line == 34
    assert loop.step.median == loop.step.max == ms(7e-3 * (policies + 20))
    assert stretch(found, "shutdown") == 0


@pytest.mark.parametrize("calls", [1, 16])
def test_a_step_after_an_evaluation_begins_with_what_it_calls_without_gradients(
    tmp_path: Path, calls: int
) -> None:
    """A teacher; or an equation's solver, whose function is wrapped anew and has an adjoint's gradients."""
    p = Program()
    for step in range(20):
        p.span("zero_grad", 1, line=29)
        for _ in range(calls):
            of = 9 if calls == 1 else 9 + step
            p.predict(1, of=of, line=30, items=0, phase="predict", label="Solved")
        if calls == 1:
            p.forward(2)
        p.backward()
        p.update()
        if step % 5 == 4:
            p.validate()
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.step.min, loop.step.max) == (
        20,
        *(ms(0.009 if calls == 1 else 0.022),) * 2,
    )
    why = None if calls == 1 else "its steps call models without gradients alone"
    assert loop.throughput.why_no_items == why


def test_what_one_optimizer_does_at_an_epochs_end_is_a_step_of_the_loop(tmp_path: Path) -> None:
    """No steps of ten updates: gradients that are left over, or one more batch, at a line of their own."""
    p = Program()
    for _ in range(5):
        p.train(line=40)
        for _ in range(9):
            p.train()
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.updates_per_step, loop.items_per_step) == (50, 1, 8)
    assert loop.place and loop.place.line == 14
    assert loop.step.median == loop.step.max == ms(7e-3)


def test_two_updates_of_one_optimizer_in_each_turn_are_one_step(tmp_path: Path) -> None:
    p = Program()
    for _ in range(20):
        p.train()
        p.train(line=40)
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.updates_per_step) == (20, 2)
    assert loop.step.median == ms(14e-3)


def test_two_stages_of_one_optimizer_are_two_loops(tmp_path: Path) -> None:
    p = Program()
    for _ in range(3):
        for line in (14, 40):
            for _ in range(9):
                p.train(line=line)
    found = report(tmp_path / "r", p)
    assert [(loop.place.line, loop.steps) for loop in found.loops if loop.place] == [
        (14, 27),
        (40, 27),
    ]


def test_gradients_for_an_optimizer_tell_the_items(tmp_path: Path) -> None:
    """As of JAX, whose weights are made by a function that it traces and copies a constant for."""
    p = Program()
    with p.around("trace", line=3):
        p.span("h2d", 1, nbytes=4, line=3)
    p.wait(100)
    for _ in range(4):
        p.span("gradients", 5, 8, of=1, phase="gradients", line=12)
        p.update(1)
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.items_per_step) == (4, 8)
    assert loop.step.max == ms(6e-3)


def test_a_loader_in_a_loader_trains(tmp_path: Path) -> None:
    p = Program()
    for _ in range(5):
        p.io(3, of=7, line=5)
        p.wait(1)
        for _ in range(8):
            p.turn()
        p.dry()
    p.dry(of=7, line=5)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.fetches_per_step) == (40, 1)
    assert loop.place and loop.place.line == 10 and loop.step.max == ms(8e-3)
    assert stretch(found, "gap") == ms(4 * 4.1)


def test_two_loaders_side_by_side(tmp_path: Path) -> None:
    p = Program()
    for _ in range(20):
        p.io(1)
        p.io(2, of=2, line=11)
        p.train()
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.fetches_per_step) == (20, 1)
    assert loop.place and loop.place.line == 10
    assert loop.step.median == ms(10e-3)
    assert [n.host.median for n in loop.tree.children if n.name == "io"] == [ms(1e-3), ms(2e-3)]


def test_loaders_that_take_turns_at_random(tmp_path: Path) -> None:
    p = Program()
    for which in [1, 2, 2, 1, 1, 1, 2, 1, 2, 2, 2, 1, 2, 1, 1, 2, 1, 2, 2, 1] * 2:
        p.io(1, of=which, line=10 + which)
        p.train()
    loop = sorted(report(tmp_path / "r", p).loops, key=lambda loop: -loop.steps)
    assert sum(each.steps for each in loop) == 40
    assert all(each.step.max == ms(8e-3) for each in loop)


def test_pretraining_and_finetuning(tmp_path: Path) -> None:
    p = Program()
    for _ in range(10):
        p.turn()
    p.dry()
    p.wait(50)
    for _ in range(30):
        p.io(3, of=2, line=40)
        p.train(line=44)
    p.dry(of=2, line=40)
    found = report(tmp_path / "r", p)
    assert [(loop.place and loop.place.line, loop.steps) for loop in found.loops] == [
        (40, 30),
        (10, 10),
    ]
    assert stretch(found, "gap") == ms(50.1)


def test_a_loop_that_is_left_before_another_without_a_loader(tmp_path: Path) -> None:
    p = Program()
    for _ in range(10):
        p.turn()
    p.wait(50)
    for _ in range(30):
        p.train(line=44)
    found = report(tmp_path / "r", p)
    assert [
        (loop.place and loop.place.line, loop.steps, loop.step.max) for loop in found.loops
    ] == [
        (44, 30, ms(7e-3)),
        (10, 10, ms(8e-3)),
    ]


@pytest.mark.parametrize("evaluates", [False, True])
@pytest.mark.parametrize("loader", [False, True])
def test_a_training_by_hand_is_no_part_of_the_first_step_after_it(
    tmp_path: Path, loader: bool, evaluates: bool
) -> None:
    """Nothing but its backwards shows it."""
    p = Program()
    for _ in range(12):
        if loader:
            p.io()
        p.forward(20, line=42)
        p.backward(40, line=43)
    if loader:
        p.dry()
    if evaluates:
        p.predict()
    for _ in range(4):
        p.train()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.items_per_step, loop.step.max) == (4, 8, ms(7e-3))
    assert {node.name: node.calls for node in loop.tree.children}["backward"] == 1


def test_a_model_that_is_also_called_whole_is_trained_by_its_parts(tmp_path: Path) -> None:
    """What a loop calls are functions and parts without a mode, also where the model has one elsewhere."""
    p = Program()
    for stage in (1, 2):
        for _ in range(4):
            p.forward(phase=None, of=stage)
            p.backward()
            p.update(of=stage)
        p.wait(30)
    for _ in range(5):
        p.forward(of=9, line=60)
    for loop in report(tmp_path / "r", p).loops:
        assert (loop.steps, loop.items_per_step, loop.step.max) == (4, 8, ms(7e-3))


def test_stages_without_loaders(tmp_path: Path) -> None:
    p = Program()
    for _ in range(12):
        p.train(of=1, line=14)
    p.wait(100)
    for _ in range(6):
        p.train(of=2, line=24)
    found = report(tmp_path / "r", p)
    assert [
        (loop.place and loop.place.line, loop.steps, loop.step.max) for loop in found.loops
    ] == [
        (14, 12, ms(7e-3)),
        (24, 6, ms(7e-3)),
    ]
    assert stretch(found, "gap") == ms(100)


def test_one_batch_for_all_updates(tmp_path: Path) -> None:
    p = Program()
    p.io()
    for _ in range(50):
        p.train()
    loop = only(report(tmp_path / "r", p))
    assert (loop.paced_by, loop.steps) == ("optimizer", 50)


@pytest.mark.parametrize("phase", ["eval", None])
def test_an_agent_plays_between_bursts_of_updates(tmp_path: Path, phase: str | None) -> None:
    p = Program()
    for _ in range(5):
        for _ in range(30):
            p.forward(1, items=1, line=50, phase=phase)
            p.wait(3)
        for _ in range(20):
            p.train()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.step.max) == (100, ms(7e-3))
    assert stretch(found, "gap") > 4 * 100 and not found.evaluations
    assert any(s.note.startswith("rollout") for s in found.segments)


def test_a_teacher_is_part_of_the_step(tmp_path: Path) -> None:
    p = Program()
    for _ in range(20):
        p.io()
        p.predict(3, of=2, line=12)
        p.train()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.step.median) == (20, ms(11e-3)) and not found.evaluations


def test_explicit_steps_win(tmp_path: Path) -> None:
    p = Program()
    with p.around("fit", line=3):
        for _ in range(2):
            for _ in range(10):
                with p.around("step", items=16, line=4, task="train"):
                    p.turn(other=1)
                p.wait(0.5)
            p.validate()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.paced_by, loop.steps, loop.items_per_step) == ("step", 20, 16)
    assert loop.step.median == ms(9e-3) and regions(loop)["other"] == 1
    assert [(each.passes, each.batches) for each in found.evaluations] == [(2, 6)]
    assert [node.name for node in found.others] == ["fit"]


def test_explicit_steps_of_several_tasks(tmp_path: Path) -> None:
    p = Program()
    for _ in range(10):
        with p.around("step", line=4, task="student"):
            p.train()
        with p.around("step", line=5, task="teacher"):
            p.train()
            p.train()
        with p.around("step", line=6, task="train", phase="eval"):
            p.wait(1)
    found = report(tmp_path / "r", p)
    assert [(loop.task, loop.steps) for loop in found.loops] == [("teacher", 10), ("student", 10)]
    assert stretch(found, "evaluation") == 10


def test_a_wait_within_a_wait_at_the_same_line_is_one(tmp_path: Path) -> None:
    """A loader that a voirfile names draws from one that is watched anyway."""
    p = Program()
    for _ in range(20):
        with p.around("io", line=10, of=1):
            p.io(of=2, line=10)
            p.wait(1)
        p.train()
    loop = only(report(tmp_path / "r", p))
    found = [node for node in loop.tree.children if node.name == "io"]
    assert [(node.calls, node.children) for node in found] == [(1, ())]


def test_a_wait_within_a_wait_at_another_line_is_seen(tmp_path: Path) -> None:
    p = Program()
    for _ in range(20):
        with p.around("io", line=10, of=1):
            p.io(of=2, line=99)
            p.wait(1)
        p.train()
    loop = only(report(tmp_path / "r", p))
    (found,) = [node for node in loop.tree.children if node.name == "io"]
    assert [node.name for node in found.children] == ["io", "other"]


def test_a_stage_beside_explicit_steps(tmp_path: Path) -> None:
    """Boosting, of which its library says what a step is; then a loop of which nobody does."""
    p = Program()
    for _ in range(30):
        with p.around("step", items=500, line=4, task="train"):
            p.wait(2)
    p.wait(5)
    for _ in range(2):
        for _ in range(20):
            p.turn(other=1)
        p.validate()
    for _ in range(40):  # no loader
        p.train()
    found = report(tmp_path / "r", p)
    loops = sorted((loop.paced_by, loop.steps) for loop in found.loops)
    assert loops == [("loader", 40), ("optimizer", 40), ("step", 30)]
    items = {loop.paced_by: loop.items_per_step for loop in found.loops}
    assert items == {"loader": 8, "optimizer": 8, "step": 500}
    assert [(each.passes, each.batches) for each in found.evaluations] == [(2, 6)]


def test_explicit_steps_within_an_evaluation(tmp_path: Path) -> None:
    """After each epoch a probe is fitted on what the model makes, by a library that says its steps."""
    p = Program()
    for _ in range(3):
        for _ in range(20):
            p.turn(other=1)
        for _ in range(4):
            with p.around("step", line=9, task="train"):
                p.wait(1)
    found = report(tmp_path / "r", p)
    loops = sorted((loop.paced_by, loop.steps) for loop in found.loops)
    assert loops == [("loader", 60), ("step", 12)]


def test_explicit_steps_in_each_step_of_a_loop(tmp_path: Path) -> None:
    p = Program()
    for _ in range(20):
        p.io()
        p.train()
        with p.around("step", line=9, task="train"):
            p.wait(1)
    found = report(tmp_path / "r", p)
    assert [(loop.paced_by, loop.steps) for loop in found.loops] == [("step", 20)]


def test_only_a_fit(tmp_path: Path) -> None:
    p = Program()
    p.span("fit", 100, line=5, what="RandomForestClassifier")
    p.span("predict", 10, line=6)
    found = report(tmp_path / "r", p)
    assert not found.loops and found.verdict.kind == "none"
    assert [(n.name, n.calls, n.host.mean) for n in found.others] == [
        ("fit", 1, ms(0.1)),
        ("predict", 1, ms(0.01)),
    ]


def test_short_steps_are_all_found(tmp_path: Path) -> None:
    p = Program()
    for _ in range(60_000):
        p.io(0.01)
        p.forward(0.05)
        p.backward(0.1)
        p.update(0.02)
    loop = only(report(tmp_path / "r", p))
    assert loop.steps == 60_000 and loop.step.median == ms(0.18e-3)


def test_one_step(tmp_path: Path) -> None:
    p = Program()
    p.wait(5)
    p.turn()
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.warmup.steps) == (1, 0)


def test_calls_are_those_of_measured_steps(tmp_path: Path) -> None:
    """The first step plays an environment until there is enough to learn of."""
    p = Program()
    for step in range(20):
        p.io()
        for _ in range(200 if step == 0 else 2):
            p.span("env", 1)
        p.span("h2d", 1, nbytes=1_000_000 if step else 9_000_000)
        p.train()
    tree = only(report(tmp_path / "r", p)).tree
    [env] = [node for node in tree.children if node.name == "env"]
    [h2d] = [node for node in tree.children if node.name == "h2d"]
    assert (env.calls, h2d.calls, h2d.nbytes) == (2, 1, 1_000_000)


def test_no_step(tmp_path: Path) -> None:
    p = Program()
    for _ in range(5):
        p.io()
        p.wait(3)
    found = report(tmp_path / "r", p)
    assert not found.loops and not found.evaluations
    assert (
        found.verdict.kind == "none" and "no training steps were recorded" in found.verdict.sentence
    )
    assert [node.name for node in found.others] == ["io"]


def test_updates_within_an_evaluation_are_no_steps(tmp_path: Path) -> None:
    p = Program()
    with p.around("evaluation", phase="eval"):
        for _ in range(5):
            p.train()
    for _ in range(5):
        p.train(phase="eval")
    found = report(tmp_path / "r", p)
    assert not found.loops


def test_loops_made_anew_again_and_again_are_one(tmp_path: Path) -> None:
    p = Program()
    for fold in range(10):
        for _ in range(5):
            p.io(of=fold)
            p.train(of=fold + 100)
        p.dry(of=fold)
    assert only(report(tmp_path / "r", p)).steps == 50


def test_threads_that_train_side_by_side(tmp_path: Path) -> None:
    p = Program()
    for thread in (0, 1):
        p.thread, p.now = thread, 3 * thread * 1_000_000
        for _ in range(10):
            p.turn()
    p.thread, p.now = 2, 0
    for _ in range(10):
        p.span("decode", 5, line=99)
    p.rows.sort(key=lambda row: row[1])
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert [track.steps for track in loop.ranks] == [10, 10] and loop.step.max == ms(8e-3)
    assert [(n.name, n.what) for n in found.others] == [("decode", "another thread")]


def test_a_region_around_each_turn(tmp_path: Path) -> None:
    p = Program()
    for _ in range(20):
        with p.around("iteration", line=8):
            p.wait(0.5)
            p.turn()
            p.wait(0.5)
    loop = only(report(tmp_path / "r", p))
    assert loop.steps == 20 and loop.step.median == ms(9e-3)
    [iteration] = [n for n in loop.tree.children if n.name == "iteration"]
    assert iteration.calls == ms(1, abs=0.06) and iteration.host.median == ms(9e-3)


def test_a_new_iterator_for_each_batch(tmp_path: Path) -> None:
    p = Program()
    for _ in range(20):
        p.span("io.start", 5, of=1, line=10)
        p.turn()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.step.max) == (20, ms(13e-3))
    assert found.verdict.kind == "input-bound" and "46 %" in found.verdict.sentence


@pytest.mark.parametrize("fits", [3, 12])
def test_fits_of_a_library_that_starts_loaders_more_often_than_they_fetch(
    tmp_path: Path, fits: int
) -> None:
    """As Keras does for building, for each epoch and each validation, at one line and to no end."""
    p = Program()
    for fit in range(fits):
        for _ in range(2):
            p.span("io.start", 1, of=4 * fit + 1, line=10)
            p.io(of=4 * fit + 1)  # looked at, to build the model
        p.span("io.start", 1, of=4 * fit + 2, line=10)
        p.span("io.start", 1, of=4 * fit + 2, line=10)
        for _ in range(3):
            p.io(of=4 * fit + 2)
            p.train()
        for _ in range(6):
            p.span("io.start", 1, of=4 * fit + 3, line=10)
        with p.around("evaluation", phase="eval"):
            for _ in range(3):
                p.io(of=4 * fit + 3)
                p.predict()
        p.wait(500)
    found = report(tmp_path / "r", p)
    steps = [(loop.steps, loop.step.max) for loop in found.loops]
    assert sum(number for number, _ in steps) == 3 * fits
    assert max(longest for _, longest in steps) == ms(8e-3)


@pytest.mark.parametrize("line", [10, 9])
def test_an_epoch_that_is_left_early(tmp_path: Path, line: int) -> None:
    """Of ``for x in loader``, and of ``it = iter(loader)`` above a loop of ``next(it)``."""
    p = Program()
    for _ in range(3):
        p.span("io.start", 5, of=1, line=line)
        for _ in range(10):
            p.turn()
        p.wait(30)
    found = report(tmp_path / "r", p)
    loop = only(found)
    # What it does after an epoch is no part of its last step, nor is the loader's next start.
    assert (loop.steps, stretch(found, "gap")) == (30, ms(2 * (30 + 5)))


@pytest.mark.parametrize("always", [False, True])
def test_a_validation_that_was_left_early_holds_no_update_of_a_loader_that_is_ahead(
    tmp_path: Path, always: bool
) -> None:
    """Lightning's check before the first epoch, of data without a length; or a few batches each time."""
    p = Program()
    for batches in (2, 3, 3, 3):
        if batches == 3:
            p.span("io.start", 0.1, of=1, line=10)
            p.io()
            for number in range(10):
                if number < 9:
                    p.io()
                else:
                    p.dry()
                p.train()
        p.span("io.start", 0.1, of=2, line=21)
        for _ in range(batches):
            p.io(of=2, line=21)
            p.predict()
        if batches == 3 and not always:
            p.dry(of=2, line=21)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert loop.steps == 30 and [epoch.steps for epoch in loop.epochs] == [10, 10, 10]
    assert [(each.passes, each.batches) for each in found.evaluations] == [(4, 11)]


@pytest.mark.parametrize("loss", [True, False])
@pytest.mark.parametrize("of_loader", [True, False])
def test_a_validation_that_was_left_early_paces_no_loop(
    tmp_path: Path, of_loader: bool, loss: bool
) -> None:
    """A few batches of an endless loader; the training has its own from a function, or from a list."""
    p = Program()
    for _ in range(4):
        for _ in range(3):
            p.io(of=2, line=21)
            p.predict()
        for _ in range(5):
            if of_loader:
                p.span("io", 1, line=10)
            p.forward()
            if loss:
                p.span("forward", 1, line=16)
            p.backward()
            p.update()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.updates_per_step, loop.items_per_step) == (20, 1, 8)
    assert [(each.passes, each.batches) for each in found.evaluations] == [(4, 12)]


def test_a_teacher_predicts_first_while_gradients_are_accumulated(tmp_path: Path) -> None:
    p = Program()
    for batch in range(40):
        p.io()
        p.predict(of=2, line=11)
        p.forward()
        p.backward()
        if batch % 2:
            p.update()
    found = report(tmp_path / "r", p)
    assert (only(found).steps, only(found).fetches_per_step) == (20, 2)
    assert not found.evaluations


@pytest.mark.parametrize(("optimizers", "loops"), [(1, 1), (2, 2)])
def test_a_loader_made_anew_is_no_new_loop(tmp_path: Path, optimizers: int, loops: int) -> None:
    p = Program()
    for epoch in range(2):
        for _ in range(10):
            p.io(of=epoch)
            p.train(of=min(epoch + 1, optimizers))
        p.dry(of=epoch)
    assert len(report(tmp_path / "r", p).loops) == loops


def test_a_loader_made_anew_for_a_compiled_update_is_no_new_loop(tmp_path: Path) -> None:
    p = Program()
    for epoch in range(3):
        for _ in range(4):
            p.io(of=epoch)
            p.span("compiled", 5, 8, line=13, phase="train", what="step")
        p.dry(of=epoch)
    assert only(report(tmp_path / "r", p)).steps == 12


def ahead(
    p: Program, batches: int, line: int = 14, of: int = 1, together: int = 1, first: int = 10
) -> None:
    """An epoch whose loader is one batch ahead: dry before its last batch is trained with.

    Its first batch is fetched at the line ``first``.
    """
    p.io(of=of, line=first)
    for batch in range(batches):
        if batch + 1 < batches:
            p.io(of=of)
        else:
            p.dry(of=of)
        p.forward()
        p.backward()
        if (batch + 1) % together == 0 or batch + 1 == batches:
            p.update(line=line)


@pytest.mark.parametrize("validates", [False, True])
def test_a_loader_that_is_one_batch_ahead(tmp_path: Path, validates: bool) -> None:
    p = Program()
    for _ in range(3):
        ahead(p, 10)
        if validates:
            p.validate()
        p.wait(30)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.paced_by, loop.steps, loop.updates_per_step) == ("loader", 30, 1)
    assert (loop.fetches_per_step, loop.items_per_step) == (1, 8)
    # The first of an epoch has two fetches; the last one has none, but the loader's end.
    assert (loop.step.median, loop.step.min, loop.step.max) == (ms(8e-3), ms(7.1e-3), ms(9e-3))
    assert stretch(found, "gap") == ms(2 * 30)
    assert sum(each.passes for each in found.evaluations) == 3 * validates


@pytest.mark.parametrize("together", [1, 2])
def test_a_loader_that_is_one_batch_ahead_is_left_within_an_epoch(
    tmp_path: Path, together: int
) -> None:
    p = Program()
    p.io()
    for batch in range(4 * together):  # a maximum of steps: one more batch is fetched
        p.io()
        p.forward()
        p.backward()
        if (batch + 1) % together == 0:
            p.update()
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.fetches_per_step, loop.items_per_step) == (4, together, 8 * together)


@pytest.mark.parametrize(("together", "steps"), [(2, 5), (3, 4), (4, 3), (10, 1)])
def test_gradients_are_accumulated_one_batch_ahead(
    tmp_path: Path, together: int, steps: int
) -> None:
    p = Program()
    for _ in range(4):
        ahead(p, 10, together=together)
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.updates_per_step) == (4 * steps, 1)
    warmup = loop.warmup.steps
    measured = 8 * (4 * 10 - warmup * together) / (4 * steps - warmup)
    assert loop.items_per_step == ms(measured)


@pytest.mark.parametrize(
    ("batches", "together"), [(5, 2), (10, 3), (10, 4), (7, 5), (15, 2), (4, 9)]
)
def test_a_batch_left_of_an_epoch_that_was_ahead_goes_on_in_the_next(
    tmp_path: Path, batches: int, together: int
) -> None:
    p = Program()
    for batch in range(4 * batches * together):
        if batch % batches == 0:
            p.io()
        if batch % batches + 1 < batches:
            p.io()
        else:
            p.dry()
        p.forward()
        p.backward()
        if (batch + 1) % together == 0:
            p.update()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.items_per_step) == (4 * batches, 8 * together)
    assert stretch(found, "gap") == 0
    assert found.others == ()


def test_another_stage_after_an_epoch_is_none_of_its_steps(tmp_path: Path) -> None:
    p = Program()
    for _ in range(4):
        for batch in range(9):
            p.io()
            if batch:  # the first one is only looked at
                p.forward()
                p.backward()
            if batch % 3 == 2:
                p.update()
        p.dry()
        for _ in range(5):
            p.forward(of=5, line=40)
            p.backward(line=41)
            p.update(of=5, line=42)
    first, second = report(tmp_path / "r", p).loops
    assert {(first.paced_by, first.steps), (second.paced_by, second.steps)} == {
        ("loader", 12),
        ("optimizer", 20),
    }
    items = sorted(loop.items_per_step or 0 for loop in (first, second))
    assert items == [8, ms((3 * 16 + 8 * 24) / 11)]  # without the first step, which is warm-up


def test_batches_of_a_step_are_fetched_together_one_ahead(tmp_path: Path) -> None:
    p = Program()
    for _ in range(3):
        p.io()
        for step in range(5):
            for batch in range(2):
                if (step, batch) == (4, 1):
                    p.dry()
                else:
                    p.io()
            for _ in range(2):
                p.forward()
                p.backward()
            p.update()
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.fetches_per_step, loop.items_per_step) == (15, 2, 16)


def test_two_optimizers_one_batch_ahead(tmp_path: Path) -> None:
    p = Program()
    for _ in range(3):
        p.io()
        for batch in range(10):
            p.io() if batch < 9 else p.dry()
            for of in (1, 2):
                p.forward(of=of)
                p.backward()
                p.update(of=of, line=13 + of)
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.updates_per_step, loop.items_per_step) == (30, 2, 8)


@pytest.mark.parametrize("first", [10, 9])
@pytest.mark.parametrize("together", [1, 2])
@pytest.mark.parametrize("validates", [False, True])
@pytest.mark.parametrize("looks", [False, True])
def test_a_loader_that_is_made_anew_and_one_batch_ahead(
    tmp_path: Path, looks: bool, validates: bool, together: int, first: int
) -> None:
    p = Program()
    if looks:  # at the shape of a batch
        p.span("io.start", 0.1, of=1, line=8)
        p.io(of=1, line=8)
        p.predict(line=8)
        p.wait(5)
    for epoch in range(3):
        p.span("io.start", 0.1, of=epoch + 1, line=first)
        ahead(p, 10, of=epoch + 1, together=together, first=first)
        if validates:
            p.validate(of=9)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.fetches_per_step) == (30 // together, together)
    assert loop.place.line == 10
    assert [each.steps for each in loop.epochs] == 3 * [10 // together]
    assert sum(each.passes for each in found.evaluations) == 3 * validates + looks


@pytest.mark.parametrize("teacher", [False, True])
@pytest.mark.parametrize("accumulated", [1, 2])
@pytest.mark.parametrize("line", [13, 19])
def test_what_follows_a_loader_that_has_run_dry(
    tmp_path: Path, line: int, accumulated: int, teacher: bool
) -> None:
    """``itertools.cycle`` repeats the batches that it kept; another backward is another loop."""
    p = Program()
    for turn in range(30):
        if turn < 10:
            p.io()
        elif turn == 10:
            p.dry()
        if teacher:
            p.predict(of=3, line=11)
        p.forward()
        p.backward(**({"line": line} if turn >= 10 else {}))
        if turn % accumulated == accumulated - 1:
            p.update()
    found = report(tmp_path / "r", p)
    steps = [("optimizer", 20 // accumulated), ("loader", 10 // accumulated)]
    assert [(loop.paced_by, loop.steps) for loop in found.loops] == (
        [("optimizer", 30 // accumulated)] if line == 13 else steps
    )
    assert not found.evaluations
    assert {loop.items_per_step for loop in found.loops} == {8 * accumulated}


def test_another_optimizer_after_a_loader_that_was_ahead(tmp_path: Path) -> None:
    p = Program()
    ahead(p, 10)
    for _ in range(20):
        p.train(of=2, line=18)
    found = report(tmp_path / "r", p)
    assert [(loop.paced_by, loop.steps) for loop in found.loops] == [
        ("optimizer", 20), ("loader", 10)
    ]  # fmt: skip


def test_a_loader_made_anew_and_never_exhausted(tmp_path: Path) -> None:
    p = Program()
    for epoch in range(3):
        for _ in range(10):
            p.io(of=epoch + 1, what="DataLoader of Batches")
            p.train()
        p.validate(of=epoch + 11)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.fetches_per_step, loop.step.max) == (30, 1, ms(8e-3))
    assert sum(each.passes for each in found.evaluations) == 3


def test_a_batch_ahead_whose_training_lies_in_the_update(tmp_path: Path) -> None:
    p = Program()
    for _ in range(3):
        p.io()
        for batch in range(10):
            p.io() if batch < 9 else p.dry()
            if batch % 2:
                with p.around("optimizer", of=1):
                    p.forward()
                    p.backward()
            else:
                p.forward()
                p.backward()
    loop = only(report(tmp_path / "r", p))
    assert (loop.steps, loop.fetches_per_step, loop.items_per_step) == (15, 2, 16)


def test_a_model_that_is_trained_in_its_mode_for_evaluation(tmp_path: Path) -> None:
    p = Program()
    for _ in range(2):
        for _ in range(10):
            p.io()
            p.predict(items=4, line=12)
            p.backward()
            p.update()
        p.dry()
        p.validate()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.items_per_step) == (20, 4)
    assert sum(each.passes for each in found.evaluations) == 2


@pytest.mark.parametrize("epochs", [2, 3, 5])
def test_a_loader_that_a_voirfile_names_is_one_loop_however_often_it_is_made(
    tmp_path: Path, epochs: int
) -> None:
    p = Program()
    for epoch in range(epochs):
        mine = {"of": 10 + epoch, "task": "train", "asked": "//main > loader"}
        for _ in range(6):
            start = p.now
            with p.around("io", **mine):
                p.io(1)
            p.train()
            p.row("step", start, p.now, 8, **mine)
    found = report(tmp_path / "r", p)
    assert only(found).steps == 6 * epochs
    assert [node.name for node in only(found).tree.children].count("io") == 1
    assert not [each for each in found.others if each.name == "io"]


def test_a_slow_turn_without_a_loader_is_a_slow_step(tmp_path: Path) -> None:
    p = Program()
    for turn in range(60):
        p.wait(90 if turn % 6 == 5 else 1)  # a batch made by hand, and a host that is busy
        p.train()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, stretch(found, "gap")) == (60, 0)
    assert loop.throughput.items == pytest.approx(8 / ((8 + 89 / 6) * 1e-3), rel=0.1)


def test_a_slow_turn_without_a_model_is_a_slow_step(tmp_path: Path) -> None:
    """Losses and distributions alone say nothing of a mode, as what an agent acts with."""
    p = Program()
    for step in range(30):
        p.forward(1, items=0, of=None, line=12, phase=None)
        p.wait(60 if step == 20 else 1)
        p.forward(1, items=0, of=None, line=14, phase=None)
        p.backward(1)
        p.update()
    loop = only(report(tmp_path / "r", p))
    assert loop.steps == 30
    assert (loop.step.median, loop.step.max) == (ms(5e-3), ms(64e-3))


def test_a_slow_turn_of_an_agent_that_acts_in_each_is_a_slow_step(tmp_path: Path) -> None:
    """How often its policy is asked differs: at times it acts at random."""
    p = Program()
    for turn in range(60):
        for _ in range(3 + turn % 4):
            p.forward(1, items=1, line=50, of=1, phase="predict")
            p.wait(90 if turn % 12 == 11 else 0)
        p.span("compiled", 2, 8, phase="train")
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, stretch(found, "gap")) == (60, 0)
    assert loop.step.min >= 4e-3


def test_an_agent_that_plays_in_training_mode_and_with_gradients_takes_no_step(
    tmp_path: Path,
) -> None:
    """It acts once in each turn, and every 20 turns many times, to test what it has learnt."""
    p = Program()
    for turn in range(60):
        if turn % 20 == 19:
            for _ in range(40):
                p.forward(1, items=1, line=60)
                p.span("env", 1, line=61)
        p.forward(1, items=1, line=50)
        p.span("env", 1, line=51)
        p.train()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.items_per_step) == (60, 8)
    assert loop.step.max == ms(9e-3)
    assert stretch(found, "gap") == pytest.approx(3 * 82, abs=1)
    assert any(s.note.startswith("rollout") for s in found.segments)


@pytest.mark.parametrize("line", [50, 60])
def test_an_agent_that_begins_at_random_plays_where_it_did_at_first(
    tmp_path: Path, line: int
) -> None:
    """Its policy is asked only once it has learnt. What steps the environment at another line evaluates."""
    p = Program()
    for _ in range(30):
        p.span("env", 1, line=50)
    for _ in range(6):
        for _ in range(10):
            p.train()
        for _ in range(10):
            p.predict(1, items=1, phase="predict")
            p.span("env", 3, line=line)
    p.train()
    found = report(tmp_path / "r", p)
    assert only(found).steps == 61
    assert sum(each.passes for each in found.evaluations) == (0 if line == 50 else 6)
    assert (stretch(found, "gap") > 200) == (line == 50)


@pytest.mark.parametrize(("plays", "size"), [(True, 1), (False, 0), (False, 8), (False, 64)])
def test_only_an_agent_makes_a_gap_a_rollout(tmp_path: Path, plays: bool, size: int) -> None:
    p = Program()
    for _ in range(5):
        for _ in range(30):
            p.forward(1, items=size, line=50, of=1 if plays else 7, phase=None)
            p.wait(3)
        for _ in range(20):
            p.train()
    found = report(tmp_path / "r", p)
    assert any(s.note.startswith("rollout") for s in found.segments) is plays


@pytest.mark.parametrize("skip", [0, 5])
def test_measured_steps_of_a_query_are_those_of_the_report(tmp_path: Path, skip: int) -> None:
    """Without the warm-up of all ranks, which one of them may not have, and without what `--skip` names."""
    ranks = [Program(n + 1, n) for n in range(2)]
    for step in range(24):
        for n, p in enumerate(ranks):
            p.turn(io=200 if n == 0 and step < 2 else 1)
    found = only(report(tmp_path / "r", *ranks, limits={"skip": skip}))
    sql = "select rank, count(*) as n, n / sum(seconds) as rate from steps where measured group by rank"
    rows = run_query(sql, views(open_run(str(tmp_path / "r")), str(tmp_path)))
    assert found.warmup.steps == max(2, skip)
    assert rows["n"] == [24 - found.warmup.steps] * 2 and sum(rows["n"]) == found.step.n
    rates = [rank.throughput.steps for rank in found.ranks]
    assert sorted(rows["rate"]) == pytest.approx(sorted(rates))


def test_gradients_that_are_clipped_for_an_update_by_hand_are_of_its_step(tmp_path: Path) -> None:
    """No optimizer is there, and an evaluation follows the last step of each epoch."""
    p = Program()
    for _ in range(3):
        for _ in range(4):
            p.forward()
            p.backward()
            with p.around("clip_grad", line=14):
                p.wait(1)
            p.wait(1)
        for _ in range(2):
            p.predict()
    found = report(tmp_path / "r", p)
    loop = only(found)
    clips = [node.calls for node in loop.tree.children if node.name == "clip_grad"]
    assert (loop.steps, clips) == (12, [1])
    assert [(one.passes, one.batches) for one in found.evaluations] == [(3, 6)]


@pytest.mark.parametrize("acts", [0, 1])
def test_what_an_agent_plays_before_its_first_step_is_not_of_it(tmp_path: Path, acts: int) -> None:
    """Its policy plays in training mode and with gradients; it acts in each step, or never in a burst."""
    p = Program()
    for _ in range(5):
        for _ in range(30):
            p.forward(1, items=1, line=50)
            p.span("env", 3, line=51)
        for turn in range(20):
            for _ in range(acts if turn else 0):
                p.forward(1, items=1, line=50)
                p.span("env", 3, line=51)
            p.train()
    found = report(tmp_path / "r", p)
    loop = only(found)
    slowest = ms(7e-3 + 4e-3 * acts)
    assert (loop.steps, loop.step.max, loop.warmup.slowest) == (100, slowest, slowest)
    assert stretch(found, "gap") == pytest.approx(4 * 120, abs=4)


def test_rollouts_as_long_as_others_are_gaps_where_a_few_were_fast(tmp_path: Path) -> None:
    """One lasts a little less than the pause from which on a lead is no part of a step."""
    p = Program()
    for turn in range(5):
        for _ in range(30):
            p.forward(0.1 if turn == 2 else 1, items=1, line=50)
            p.span("env", 1, line=51)
        for _ in range(20):
            p.train()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.step.max) == (100, ms(7e-3))


@pytest.mark.parametrize("later", [0, 1])
def test_regions_stand_in_the_order_of_a_step_whatever_came_before(
    tmp_path: Path, later: int
) -> None:
    """A loss is computed before the training, at the line of the steps' own; one step has no clipping."""
    p = Program()
    p.predict()
    p.forward(phase=None, of=9, line=13)
    for step in range(6):
        p.io()
        p.forward()
        p.forward(phase=None, of=9, line=13)
        p.backward()
        if step >= later:
            p.span("clip_grad", 1)
        p.update()
    tree = only(report(tmp_path / "r", p)).tree
    names = list(dict.fromkeys(node.name for node in tree.children))
    assert names == ["io", "forward", "backward", "clip_grad", "optimizer", "other"]


def test_loops_at_one_line_have_numbers_in_the_order_of_time(tmp_path: Path) -> None:
    """Two stages train at one line, each with an optimizer of its own; the longest is shown first."""
    p = Program()
    for stage, steps in enumerate((5, 9)):
        for _ in range(steps):
            p.train(of=stage)
        p.wait(30)
    p.train(line=99, of=7)
    p.train(line=99, of=7)
    loops = report(tmp_path / "r", p).loops
    assert [(loop.steps, loop.of_line) for loop in loops] == [(9, (2, 2)), (5, (1, 2)), (2, None)]
    assert training_loops.full_name(loops[0]) == "train, loop 2 of 2 at its line"
