"""Evaluation is told apart from training, wherever it happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from layouts import Program, only, regions, report, stretch

from injector.analysis.verdict import UNCOUNTED
from injector.report import terminal

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
    assert "also input-bound: 12 % of a step waits at train.py:10" in found.verdict.besides


@pytest.mark.parametrize(("prepares", "judges"), [(50, 0), (0, 50), (30, 30), (2, 2)])
def test_what_an_evaluation_prepares_and_judges_is_in_no_step(
    tmp_path: Path, prepares: int, judges: int
) -> None:
    """A function that evaluates in the midst of an epoch makes its data and its metrics, too."""
    p = Program()
    for batch in range(40):
        p.turn()
        p.wait(0.5)
        if batch % 10 == 9:
            p.wait(prepares)
            p.validate(5)
            p.wait(judges)
    p.dry()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert loop.steps == 40
    if prepares + judges > 8.5:
        assert loop.step.max == ms(8.5e-3)
        # The last metrics come before nothing but the end.
        assert stretch(found, "gap") == ms(4 * prepares + 3 * judges)
        assert found.verdict.kind == "compute-bound"
    else:  # no more than what a step may take longer
        assert loop.step.max == ms(8.5e-3 + (prepares + judges) * 1e-3)


def test_each_first_loader_of_an_evaluation_begins_a_pass(tmp_path: Path) -> None:
    """After calls of single batches, in the first evaluation as in those after it."""
    p = Program()
    for _ in range(3):
        for _ in range(5):
            p.train()
        for _ in range(2):
            p.predict(line=20)
        p.validate(4)
    found = {each.place.line: each for each in report(tmp_path / "r", p).evaluations if each.place}
    assert {line: (each.passes, each.batches) for line, each in found.items()} == {
        20: (3, 6),
        21: (3, 12),
    }


@pytest.mark.parametrize("evaluating", [1, 2])
def test_the_rank_that_is_shown_is_named_if_several_evaluate(
    tmp_path: Path, evaluating: int
) -> None:
    ranks = [Program(pid=10 + rank, rank=rank, world=2) for rank in range(2)]
    for rank, p in enumerate(ranks):
        for _ in range(10):
            p.turn()
        p.dry()
        if rank < evaluating:
            p.validate(3)
    found = report(tmp_path / "r", *ranks)
    [evaluation] = found.evaluations
    assert (evaluation.passes, evaluation.batches) == (1, 3)
    assert evaluation.rank == (0 if evaluating > 1 else None)
    assert ("train.py:21 rank 0 " in "\n".join(terminal.profile(found))) == (evaluating > 1)


def test_a_model_that_is_fitted_between_two_calls_ends_the_pass(tmp_path: Path) -> None:
    """A head is fitted to what the trained model makes of the data; then both predict."""
    p = Program()
    for _ in range(10):
        p.turn()
    p.dry()
    p.predict(items=16)
    p.span("fit", 30, line=23)
    for _ in range(3):
        p.predict(line=24)
    found = report(tmp_path / "r", p)
    fitted, judged = found.evaluations
    assert (fitted.passes, fitted.batches, fitted.items) == (1, 1, 16)
    assert (judged.passes, judged.batches, judged.items) == (1, 3, 24)
    assert (fitted.seconds, judged.seconds) == (ms(2e-3), ms(6e-3))


def test_compiled_updates_in_a_loop_end_the_pass(tmp_path: Path) -> None:
    """Each call of the function is an epoch: how many updates it makes is not known."""
    p = Program()
    for _ in range(4):
        p.predict(items=16)
        p.span("compiled", 60, line=23, phase="gradients", what="train_epoch")
    p.predict(items=16)
    found = report(tmp_path / "r", p)
    [evaluation] = found.evaluations
    assert (evaluation.passes, evaluation.batches, evaluation.items) == (5, 5, 80)
    assert evaluation.seconds == ms(10e-3)
    assert not found.loops and UNCOUNTED in found.verdict.evidence


@pytest.mark.parametrize("once", [True, False])
def test_a_loader_that_is_made_anew_for_each_epoch_is_one_data_set(
    tmp_path: Path, once: bool
) -> None:
    p = Program()
    for epoch in range(3):
        for _ in range(5):
            p.turn()
        p.dry()
        p.validate(2, of=2 + epoch)
    if not once:
        p.validate(4, of=9)  # nothing is trained before it: data of its own
    found = report(tmp_path / "r", p).evaluations
    seen = [(each.passes, each.batches) for each in found]
    assert seen == ([(3, 6)] if once else [(1, 2)] * 3 + [(1, 4)])


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


def test_a_pass_lasts_until_what_it_computes_is_there(tmp_path: Path) -> None:
    """Calls of what JAX compiled return at once; their time is what the program waits for the values."""
    p = Program()
    for step in range(40):
        p.train()
        if step % 10 == 9:
            for _ in range(2):
                p.predict(0.1, of=1)
            p.wait(0.1)
            p.span("sync", 30)
            p.wait(50)
            p.span("sync", 1)
    [evaluation] = report(tmp_path / "r", p).evaluations
    assert (evaluation.passes, evaluation.batches) == (4, 8)
    assert evaluation.seconds == ms(4 * 30.3e-3)
    assert evaluation.regions["sync"] == ms(4 * 30e-3)


def test_what_predicts_after_a_validation_is_a_pass_of_its_own(tmp_path: Path) -> None:
    """At another line, without a loss; the last training is no reason for another verdict on it."""
    p = Program()
    for _ in range(3):
        for _ in range(10):
            p.forward()
            p.forward(0.1, of=None, line=13)
            p.backward()
            p.update()
        for _ in range(3):
            p.predict()
            p.predict(0.1, items=0, of=None, line=23)
        p.predict(line=40)
    found = report(tmp_path / "r", p)
    seen = [
        (each.place and each.place.line, each.passes, each.batches) for each in found.evaluations
    ]
    assert seen == [(22, 3, 9), (40, 3, 3)]


def test_the_last_batch_of_a_loop_that_is_left_is_of_its_pass(tmp_path: Path) -> None:
    """One line fetches for training and for evaluation, as many batches as were counted before."""
    p = Program()
    for _ in range(3):
        for _ in range(10):
            p.turn()
        for _ in range(4):
            p.io()
            p.predict()
            p.wait(0.2)
    [evaluation] = report(tmp_path / "r", p).evaluations
    assert (evaluation.passes, evaluation.batches, evaluation.items) == (3, 12, 96)


def test_what_the_next_step_waits_for_is_in_no_pass(tmp_path: Path) -> None:
    """Its last call compiles what it calls."""
    p = Program()
    for _ in range(3):
        for _ in range(10):
            p.io()
            p.span("sync", 5)
            p.train()
        p.dry()
        with p.around("evaluation", phase="eval"):
            p.predict(2)
            p.predict(100)
    found = report(tmp_path / "r", p)
    assert only(found).step.max == ms(13e-3) and only(found).items_per_step == 8
    [evaluation] = found.evaluations
    assert (evaluation.batches, evaluation.seconds) == (6, ms(306e-3))


def test_functions_called_in_an_evaluation_are_no_batches(tmp_path: Path) -> None:
    """Losses that are functions, and distributions, have neither an object nor items."""
    p = Program()
    for step in range(20):
        p.train()
        if step % 10 == 9:
            for _ in range(3):
                p.predict(3, of=1)
                for _ in range(4):
                    p.predict(0.1, items=0, of=None, line=23)
    [evaluation] = report(tmp_path / "r", p).evaluations
    assert (evaluation.passes, evaluation.batches, evaluation.items) == (2, 6, 48)
    assert evaluation.warmup == 0  # calls of a model take far longer than those of a loss


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


@pytest.mark.parametrize("validated", [False, True])
def test_a_batch_that_failed_to_be_trained_with_is_no_evaluation(
    tmp_path: Path, validated: bool
) -> None:
    """The program ended in its first loss; what it validated before that is an evaluation."""
    p = Program()
    if validated:
        p.validate(2)
    p.io()
    p.forward()
    found = report(tmp_path / "r", p, exit={"code": 1})
    assert not any(loop.task == "train" for loop in found.loops)
    if not validated:
        assert found.verdict.sentence == "no training steps were recorded before the program failed"
    assert sum(each.batches for each in found.evaluations) + sum(
        loop.steps for loop in found.loops
    ) == (2 if validated else 0)


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


def test_what_comes_after_a_marked_evaluation_is_another_pass(tmp_path: Path) -> None:
    """Its loader is one batch ahead: the call with its last batch comes after it ran dry."""
    p = Program()
    for _ in range(3):
        for _ in range(10):
            p.turn()
        p.dry()
        with p.around("evaluation", phase="eval"):
            p.io(of=2, line=21)
            for _ in range(2):
                p.io(of=2, line=21)
                p.predict()
            p.dry(of=2, line=21)
            p.predict()
        p.span("checkpoint", 50)
        p.predict(line=40)
    with p.around("evaluation", phase="eval", line=50):
        p.predict()
    found = report(tmp_path / "r", p)
    seen = [(each.place and each.place.line, each.passes) for each in found.evaluations]
    assert seen == [(20, 3), (40, 3), (50, 1)]
    assert [each.seconds for each in found.evaluations] == [ms(27.3e-3), ms(6e-3), ms(2e-3)]
    assert stretch(found, "checkpoint") == ms(150)


@pytest.mark.parametrize("again", [False, True])
def test_an_evaluation_within_a_step_begins_with_the_start_of_its_loader(
    tmp_path: Path, again: bool
) -> None:
    """Its workers are started; ``again`` by tqdm.auto, which takes an iterator twice."""
    p = Program()
    for number in range(20):
        p.turn()
        if number % 5 == 4:
            p.span("io.start", 50, of=2, line=21)
            if again:
                p.span("io.start", 50, of=2, line=21)
            p.validate(2)
    p.dry()
    found = report(tmp_path / "r", p)
    loop, [evaluation] = only(found), found.evaluations
    assert loop.step.max == ms(8e-3)
    assert evaluation.seconds == ms(4 * ((2 if again else 1) * 50e-3 + 6.5e-3))


def test_nothing_but_evaluation_is_an_inference(tmp_path: Path) -> None:
    p = Program()
    p.validate(10)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.task, loop.paced_by, loop.steps) == ("inference", "loader", 10)
    assert not found.evaluations and found.verdict.kind == "input-bound"
    assert stretch(found, "inference") + stretch(found, "warm-up") == ms(32.0)
    assert sum(each.seconds for each in found.segments) == pytest.approx(found.wall)


@pytest.mark.parametrize("phase", ["predict", "train"])
def test_gradients_of_data_are_no_training(tmp_path: Path, phase: str) -> None:
    """Forces on atoms: of a model in evaluation mode. One in training mode may be trained by hand."""
    p = Program()
    for _ in range(20):
        p.predict(phase=phase)
        p.backward()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.task, loop.steps) == ("inference" if phase == "predict" else "train", 20)
    assert "is forward and backward" in found.verdict.sentence  # there is no optimizer


def test_gradients_without_a_model_are_those_of_weights(tmp_path: Path) -> None:
    """A model in plain tensors is trained by hand beside one that only predicts without gradients."""
    p = Program()
    for _ in range(20):
        p.predict()
        p.backward()
    assert [loop.task for loop in report(tmp_path / "r", p).loops] == ["train"]


def test_a_training_anywhere_in_the_run_makes_it_an_evaluation(tmp_path: Path) -> None:
    actor, learner = Program(1), Program(2)
    actor.validate(10)
    for _ in range(20):
        learner.turn()
    found = report(tmp_path / "r", actor, learner)
    assert [loop.task for loop in found.loops] == ["train"]
    assert [(e.passes, e.batches) for e in found.evaluations] == [(1, 10)]


def test_a_model_in_its_mode_for_training_may_be_trained(tmp_path: Path) -> None:
    p = Program()
    for _ in range(10):
        p.io()
        p.predict(phase="train")
    assert not report(tmp_path / "r", p).loops


def read(
    p: Program, batches: int, of: int, line: int, *, ahead: bool, dry: bool, more: int
) -> None:
    """A pass over a loader, which is left with ``more`` batches unused, or ran ``dry``."""
    p.span("io.start", 0.5, of=of, line=line)
    for batch in range(batches):
        if not ahead or batch == 0:
            p.io(1, of=of, line=line)
        if ahead and (batch < batches - 1 or not dry):
            p.io(1, of=of, line=line)
        if ahead and batch == batches - 1 and dry:
            p.dry(of=of, line=line)
        p.predict()
    for _ in range(more):
        p.io(1, of=of, line=line)
    if dry and not ahead:
        p.dry(of=of, line=line)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(("dry", "more"), [(True, 0), (False, 0), (False, 1)])
@pytest.mark.parametrize("batches", [1, 4])
@pytest.mark.parametrize("trains", [True, False])
def test_each_loader_begins_a_pass(
    tmp_path: Path, trains: bool, batches: int, dry: bool, more: int, ahead: bool
) -> None:
    p = Program()
    if trains:
        for _ in range(20):
            p.turn()
        p.dry()
    for _ in range(2):
        for of, line in ((2, 21), (3, 25), (4, 29)):
            read(p, batches, of, line, ahead=ahead, dry=dry, more=more)
    found = report(tmp_path / "r", p)
    if trains:
        seen = {e.place.line: (e.passes, e.items) for e in found.evaluations if e.place}
        assert seen == dict.fromkeys((21, 25, 29), (2, 2 * batches * 8))
        return
    steps = {loop.place.line: (loop.steps, loop.items_per_step) for loop in found.loops}
    assert steps == dict.fromkeys((21, 25, 29), (2 * batches, 8))
    assert {each.what for each in found.latencies} <= {"inference"}


def test_loaders_side_by_side_and_within_each_other_are_one_pass(tmp_path: Path) -> None:
    p = Program()
    for _ in range(20):
        p.turn()
    p.dry()
    for of, line in ((2, 21), (3, 21)):
        p.span("io.start", 0.5, of=of, line=line)
    for _ in range(4):
        p.io(of=2, line=21)
        p.io(of=3, line=21)
        p.predict()
    p.dry(of=2, line=21)
    for _ in range(3):
        p.io(of=5, line=31)
        read(p, 2, 6, 32, ahead=False, dry=True, more=0)
    p.dry(of=5, line=31)
    found = report(tmp_path / "r", p)
    assert sum(each.passes for each in found.evaluations) == 2


@pytest.mark.parametrize("when", ["first", "before", "after"])
@pytest.mark.parametrize("loader", [True, False])
@pytest.mark.parametrize("phase", ["eval", "predict"])
@pytest.mark.parametrize("of", [1, 9])
def test_the_model_that_is_trained_evaluates_however_often(
    tmp_path: Path, of: int, phase: str, loader: bool, when: str
) -> None:
    p = Program()
    if when == "first":  # as the targets of a first step would be
        p.predict(3, of=of, phase=phase)
        p.wait(0.5)
    for _ in range(20):
        if loader:
            p.io()
        if when == "before":
            p.predict(3, of=of, phase=phase)
        p.train()
        if when != "before":
            p.predict(3, of=of, phase=phase)
        p.wait(0.5)
    if loader:
        p.dry()
    found = report(tmp_path / "r", p)
    loop = only(found)
    # In one mode only, it may make targets for the update that follows.
    looks_on = when == "after" or (when == "first" and loader)
    # Any other model is a teacher.
    apart = of == 1 and (phase == "eval" or looks_on)
    passes = 20 + (when == "first") if apart else 0
    assert sum(each.passes for each in found.evaluations) == passes
    assert loop.steps == 20 and ("forward" in regions(loop))
    assert loop.step.median < 9e-3 if apart else loop.step.median > 10e-3


@pytest.mark.parametrize("phase", ["eval", "predict"])
@pytest.mark.parametrize("loss", ["both", "last", "none"])
@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize(("line", "of"), [(22, 1), (32, 1), (32, 9)])
def test_evaluations_at_two_lines_are_two_passes(
    tmp_path: Path, line: int, of: int, batches: int, turns: int, loss: str, phase: str
) -> None:
    """Without a loader: validation, then a test; or two views of the same batch, by turns or not."""
    p = Program()
    for _ in range(4):
        for _ in range(5):
            p.train()
        for _ in range(turns):
            for at, model in ((22, 1), (line, of)):
                for _ in range(batches):
                    p.predict(line=at, of=model, phase=phase)
                    if loss == "both" or (loss == "last" and at == line):
                        p.forward(1, line=50, of=None, phase=None)
    found = report(tmp_path / "r", p)
    assert only(found).steps == 20
    apart = line == 32 and of == 1 and turns == 1 and loss == "both"
    assert [each.passes for each in found.evaluations] == ([4, 4] if apart else [4])
    calls = 4 * turns * batches  # of each model
    assert sum(each.batches for each in found.evaluations) == (calls * 2 if of == 1 else calls)


@pytest.mark.parametrize("items", [1, 8])
@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("function", ["evaluate", "generate"])
@pytest.mark.parametrize("made", ["by hand", "loader", "before"])
def test_what_generates_after_a_validation_is_a_pass_of_its_own(
    tmp_path: Path, made: str, function: str, batches: int, items: int
) -> None:
    """Neither a part of the validation, nor an agent that plays; also where it comes before any training."""
    p = Program()
    for _ in range(4):
        for _ in range(batches):
            if made == "by hand":
                p.io(of=None, line=21)
            elif made == "loader":
                p.io(of=2, line=21)
            p.predict(function="evaluate", phase="eval")
        if made == "loader":
            p.dry(of=2, line=21)
        for _ in range(10):
            p.predict(0.5, items=items, line=32, function=function)
        for _ in range(5):
            if made == "by hand":
                p.io(of=None)
            p.train()
    found = report(tmp_path / "r", p)
    assert only(found).steps == 20
    passes = {each.place.line: (each.passes, each.batches) for each in found.evaluations}
    first = 21 if made == "loader" else 22
    if made == "loader" or (function == "generate" and batches > 1):
        assert passes == {first: (4, 4 * batches), 32: (4, 40)}
    elif items == 8:  # two lines of one evaluation
        assert passes == {first: (4, 4 * (batches + 10))}


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize(("validate", "generate"), [(4, 10), (4, 2), (2, 10)])
def test_what_generates_after_a_validation_of_few_batches_is_a_pass_of_its_own(
    tmp_path: Path, validate: int, generate: int, batches: int
) -> None:
    """The loader does not run dry: its last batch is followed by all until the training goes on."""
    p = Program()
    for step in range(24):
        p.turn()
        for _ in range(batches if step % validate == 0 else 0):
            p.io(of=2, line=21)
            p.predict()
        for _ in range(16 if step % generate == 0 else 0):
            p.predict(0.5, items=1, line=32, function="generate")
    found = report(tmp_path / "r", p)
    assert only(found).steps == 24
    passes = {each.place.line: (each.passes, each.batches) for each in found.evaluations}
    validations, generations = len(range(0, 24, validate)), len(range(0, 24, generate))
    assert passes == {21: (validations, validations * batches), 32: (generations, 16 * generations)}
    assert found.evaluations[0].items == validations * batches * 8


@pytest.mark.parametrize("function", ["evaluate", "generate"])
def test_what_parts_of_a_model_generate_after_some_validations_is_a_pass_of_its_own(
    tmp_path: Path, function: str
) -> None:
    """Without a loader; one item at a time, which is no agent's play either."""
    p = Program()
    for step in range(13):
        if step in (0, 5, 10, 12):
            for _ in range(4):
                p.predict(function="evaluate")
            for line in [32, 33] * 10 if step else ():
                p.predict(0.5, items=1, of=line, line=line, function=function)
        if step < 12:
            p.train()
    found = report(tmp_path / "r", p)
    assert only(found).steps == 12
    passes = {each.place.line: (each.passes, each.batches) for each in found.evaluations}
    if function == "generate":
        assert passes == {22: (4, 16), 32: (3, 30)}
        assert found.evaluations[0].items == 16 * 8
    else:
        assert [each[0] for each in passes.values()] == [4]


@pytest.mark.parametrize("alone", [False, True])
def test_a_second_look_at_each_batch_of_a_validation_is_a_part_of_it(
    tmp_path: Path, alone: bool
) -> None:
    """Also where the same line looks at something else now and then, and where the loop is left."""
    p = Program()
    for step in range(24):
        p.turn()
        if step % 4 == 3:
            for _ in range(3):
                p.io(of=2, line=21)
                p.predict()
                p.predict(0.5, line=32, function="look")
        elif alone and step % 4 == 1:
            p.predict(0.5, line=32, function="look")
    found = report(tmp_path / "r", p)
    passes = {each.place.line: (each.passes, each.batches) for each in found.evaluations}
    assert passes == {21: (6, 18), **({32: (6, 6)} if alone else {})}


@pytest.mark.parametrize("resets", [1, 2])
@pytest.mark.parametrize("evaluates", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_gradients_that_are_reset_are_a_part_of_the_step(
    tmp_path: Path, first: bool, evaluates: bool, resets: int
) -> None:
    """Before its forward, or after its update, where an evaluation follows, outside of the step."""
    p = Program()
    for _ in range(10):
        for _ in range(resets if first else 0):
            p.span("zero_grad", 0.5)
        p.train()
        for _ in range(resets if not first else 0):
            p.span("zero_grad", 0.5)
        if evaluates:
            p.predict()
    found = report(tmp_path / "r", p)
    loop = only(found)
    inside = 0.0 if evaluates and not first else resets * 0.5
    assert regions(loop).get("zero_grad", 0.0) == inside
    assert loop.step.median == ms(7e-3 + inside * 1e-3)


def test_a_batch_that_is_only_looked_at_is_no_pass(tmp_path: Path) -> None:
    for when in ("before", "after"):
        p = Program()
        look = [p.span, "io.start", 0.5]
        if when == "before":
            look[0](*look[1:], of=2, line=21)
            p.io(of=2, line=21)
        for _ in range(20):
            p.turn()
        p.dry()
        if when == "after":
            look[0](*look[1:], of=2, line=21)
            p.io(of=2, line=21)
        read(p, 3, 3, 25, ahead=False, dry=True, more=0)
        found = report(tmp_path / when, p)
        assert [(e.place and e.place.line, e.passes) for e in found.evaluations] == [(25, 1)]


def test_a_first_batch_that_compiles_is_a_warm_up(tmp_path: Path) -> None:
    p = Program()
    for epoch in range(3):
        for _ in range(20):
            p.turn()
        p.dry()
        for batch in range(5):
            p.io(1, of=2, line=21)
            p.predict(900 if epoch == batch == 0 else 2)
        p.dry(of=2, line=21)
    [evaluation] = report(tmp_path / "r", p).evaluations
    assert evaluation.warmup == ms(0.9) and evaluation.items == 120
    assert evaluation.throughput == pytest.approx(8 / 3e-3, rel=0.05)


def test_several_data_sets_at_one_line(tmp_path: Path) -> None:
    for loaders, rows in ((3, [(1, 2), (2, 2), (3, 2)]), (8, [(None, 16)])):
        p = Program()
        for _ in range(2):
            for _ in range(10):
                p.turn()
            p.dry()
            for number in range(loaders):
                p.validate(2, of=2 + number)
        found = report(tmp_path / str(loaders), p)
        assert [(each.data, each.passes) for each in found.evaluations] == rows


@pytest.mark.parametrize(
    ("model", "loss", "drawn", "expected"),
    [
        (10, 350, 0, 10),  # a loss that counts tokens
        (10, 350, 10, 10),
        (35, 10, 0, None),  # the model has time first
        (35, 350, 10, 10),
        (64, 64, 1, None),
        (0, 350, 0, None),
        (0, 350, 10, 10),
    ],
)
@pytest.mark.parametrize(("phase", "beside"), [("eval", "predict"), ("predict", "predict")])
def test_items_of_an_evaluation_are_decided_as_those_of_steps(
    tmp_path: Path, model: int, loss: int, drawn: int, expected: int | None, phase: str, beside: str
) -> None:
    p = Program()
    for _ in range(12):
        p.turn()
    p.dry()
    for _ in range(6):
        if drawn:
            p.io(1, of=2, line=21, items=drawn)
        p.predict(items=model, phase=phase)
        p.forward(items=loss, of=7, line=23, phase=beside, ms=1)
    [evaluation] = report(tmp_path / "r", p).evaluations
    assert evaluation.items == (None if expected is None else 6 * expected)


@pytest.mark.parametrize(("loss", "expected"), [(8, 48), (5, None)])
def test_the_loss_of_a_single_batch_may_contradict_its_items(
    tmp_path: Path, loss: int, expected: int | None
) -> None:
    """A graph, of whose nodes only some are validated: the loss follows the only call of a pass."""
    p = Program()
    for _ in range(6):
        p.train()
        p.predict(phase="eval")
        p.forward(items=loss, of=7, line=23, phase="predict", ms=1)
    [evaluation] = report(tmp_path / "r", p).evaluations
    assert (evaluation.passes, evaluation.batches, evaluation.items) == (6, 6, expected)


@pytest.mark.parametrize("anew", [False, True])
def test_items_that_loaders_of_each_pass_draw_are_those_of_all_passes(
    tmp_path: Path, anew: bool
) -> None:
    """The model sees two sequences an item, as preferences have them; a trainer makes each loader anew."""
    p = Program()
    for number in range(3):
        for _ in range(12):
            p.turn()
        p.dry()
        for _ in range(2):
            p.io(1, of=20 + number if anew else 2, line=21, items=4)
            p.predict(items=8)
        p.dry(of=20 + number if anew else 2, line=21)
    [evaluation] = report(tmp_path / "r", p).evaluations
    assert (evaluation.passes, evaluation.batches, evaluation.items) == (3, 6, 24)


def test_a_model_that_replaces_another_adds_its_items(tmp_path: Path) -> None:
    p = Program()
    for _ in range(12):
        p.turn()
    p.dry()
    for model in (1, 8):
        for _ in range(6):
            p.predict(items=10, of=model)
            p.forward(items=350, of=7, line=23, phase="predict", ms=1)
    [evaluation] = report(tmp_path / "r", p).evaluations
    assert (evaluation.batches, evaluation.items) == (12, 120)


def test_a_checkpoint_of_the_model_is_evaluated_where_gradients_are_recorded(
    tmp_path: Path,
) -> None:
    p = Program()
    for _ in range(12):
        p.io(1)
        p.forward(what="Net")
        p.backward()
        p.update()
    p.dry()
    for model in (1, 8):
        for _ in range(6):
            p.predict(items=10, of=model, phase="predict", what="Net")
            p.forward(items=350, of=7, line=23, phase="predict", ms=1, what="Loss")
    [evaluation] = report(tmp_path / "r", p).evaluations
    assert (evaluation.batches, evaluation.items) == (12, 120)


def test_what_backward_calls_without_gradients_is_a_part_of_it(tmp_path: Path) -> None:
    """An adjoint solves for its gradients with the model, in its backward."""
    p = Program()
    for _ in range(12):
        p.io()
        p.forward()
        with p.around("backward"):
            p.wait(1)
            for _ in range(5):
                p.predict(3, line=13)
        p.update()
    for _ in range(3):
        p.io(of=2, line=20)
        p.predict()
    found = report(tmp_path / "r", p)
    assert only(found).step.median == ms(20e-3)
    assert [(one.passes, one.batches) for one in found.evaluations] == [(1, 3)]


@pytest.mark.parametrize("loader", [True, False])
def test_a_solver_that_wraps_its_function_for_each_step_is_a_part_of_steps(
    tmp_path: Path, loader: bool
) -> None:
    """An adjoint solves forward without gradients, with a new module around the program's function."""
    p = Program()
    for step in range(12):
        if loader:
            p.io()
        for _ in range(5):
            p.predict(3, phase="predict", of=50 + step, line=23, items=24)  # its state is flat
        p.span("forward", 1, of=7, line=12)  # the loss
        p.backward()
        p.update()
    for _ in range(3):
        p.io(of=2, line=20)
        p.predict(phase="predict", of=90)
    found = report(tmp_path / "r", p)
    assert (only(found).steps, only(found).step.median) == (12, ms(22e-3 if loader else 21e-3))
    assert only(found).items_per_step is None
    assert [(one.passes, one.batches) for one in found.evaluations] == [(1, 3)]


@pytest.mark.parametrize("batches", [1, 4])
def test_batches_made_by_hand_whose_losses_are_summed_are_no_evaluation(
    tmp_path: Path, batches: int
) -> None:
    """Each example is made by a function; one backward learns from several. The test is in training mode."""
    p = Program()
    for _ in range(12):
        for _ in range(batches):
            p.io(of=None)
            p.forward()
        p.backward()
        p.update()
    for _ in range(3):
        p.io(of=None)
        p.forward(line=18)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.items_per_step) == (12, 8 * batches)
    assert loop.step.median == ms((5 + 3 * batches) / 1e3)
    assert [(one.passes, one.batches) for one in found.evaluations] == [(1, 3)]


@pytest.mark.parametrize("validates", [1, 3])
def test_an_evaluation_in_training_mode_of_batches_made_by_hand(
    tmp_path: Path, validates: int
) -> None:
    p = Program()
    for _ in range(3):
        for _ in range(4):
            p.io(of=None)
            p.train()
        for _ in range(validates):
            p.io(of=None)
            p.forward()
    found = report(tmp_path / "r", p)
    assert (only(found).steps, only(found).items_per_step) == (12, 8)
    assert [(one.passes, one.batches) for one in found.evaluations] == [(3, 3 * validates)]


def test_a_function_is_known_to_make_batches_from_its_second_call_on(tmp_path: Path) -> None:
    """The test is in training mode, with batches of another function: its first call is in the pass, too."""
    p = Program()
    for _ in range(12):
        p.train()
    p.forward(line=18)
    for _ in range(4):
        p.io(of=None, line=17)
        p.forward(line=18)
    found = report(tmp_path / "r", p)
    assert only(found).steps == 12
    assert [(one.passes, one.batches, one.items) for one in found.evaluations] == [(1, 5, 40)]


def test_batches_that_are_called_without_gradients_until_several_are_learnt_from(
    tmp_path: Path,
) -> None:
    """As by CLIP's accumulation: of each batch the features, then all once more with gradients."""
    p = Program()
    for _ in range(3):
        for batch in range(8):
            p.io()
            p.predict(2, phase="predict", line=15)
            for _ in range(2 * (batch % 2)):
                p.forward()
                p.backward()
            if batch % 2:
                p.update()
        p.dry()
        for _ in range(3):
            p.io(of=2, line=20)
            p.predict()
        p.dry(of=2, line=20)
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.items_per_step, loop.step.median) == (12, 16, ms(19e-3))
    assert [(one.passes, one.batches) for one in found.evaluations] == [(3, 9)]


@pytest.mark.parametrize("loader", [True, False])
def test_an_encoder_that_an_earlier_loop_has_trained_is_a_part_of_steps(
    tmp_path: Path, loader: bool
) -> None:
    """A head is trained on what a frozen encoder says, without gradients, of every batch."""
    p = Program()
    for of, line in ((1, 12), (2, 32)):
        for _ in range(12):
            if loader:
                p.io(of=of, line=line)
            if of == 2:
                p.predict(3, of=1)
            p.forward(of=of, line=line + 1)
            p.backward(line=line + 2)
            p.update(of=of, line=line + 3)
        if loader:
            p.dry(of=of, line=line)
    p.predict(5, of=1, line=40)
    found = report(tmp_path / "r", p)
    assert [loop.steps for loop in found.loops] == [12, 12]
    probing = max(found.loops, key=lambda loop: loop.step.median)
    assert probing.step.median == pytest.approx(11e-3 if loader else 10e-3)
    assert [(each.place.line, each.passes) for each in found.evaluations] == [(40, 1)]


@pytest.mark.parametrize("loader", [True, False])
def test_an_evaluation_under_attack_is_one_pass(tmp_path: Path, loader: bool) -> None:
    """An attack has gradients of the input in each batch; nothing is trained with them."""
    p = Program()
    for _ in range(3):
        for _ in range(5):
            p.turn()
        p.dry()
        for _ in range(4):
            if loader:
                p.io(of=2, line=21)
            for _ in range(2):
                p.predict(1, of=1, phase="predict", line=25)
                p.backward(1, line=26)
            p.predict(of=1)
        if loader:
            p.dry(of=2, line=21)
    found = report(tmp_path / "r", p)
    assert only(found).steps == 15
    assert sum(each.passes for each in found.evaluations) == 3
    assert sum(each.seconds for each in found.evaluations) == pytest.approx(
        3 * (4 * 7 + 0.1) * 1e-3 if loader else 3 * 4 * 6e-3
    )


@pytest.mark.parametrize("data", [1, 2])
@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("last", [True, False])
def test_what_weights_matter_for_a_task_is_a_pass_over_its_loader(
    tmp_path: Path, last: bool, batches: int, data: int
) -> None:
    """Gradients in its mode for evaluation that nothing learns from, often of the data it was trained on."""
    p = Program()
    for task in range(4):
        for _ in range(5):
            p.turn()
        p.dry()
        if task == 3 and not last:
            break
        for _ in range(batches):
            p.io(of=data, line=21)
            p.predict(phase="predict", items=4)
            p.span("zero_grad", 0.1, line=23)
            p.backward(line=24)
        p.dry(of=data, line=21)
        p.wait(2)
    found = report(tmp_path / "r", p)
    assert only(found).steps == 20 and ms(8e-3) == only(found).step.median
    [evaluation] = found.evaluations
    passes = 4 if last else 3
    assert evaluation.place.line == 21 and evaluation.items == 4 * batches * passes
    assert (evaluation.passes, evaluation.batches) == (passes, batches * passes)
    assert evaluation.seconds == ms(passes * (7.1e-3 * batches + 0.1e-3))


def test_a_teacher_that_was_trained_on_the_same_loader_is_a_part_of_steps(tmp_path: Path) -> None:
    """A generator goes over one loader for both stages, so that they are one loop."""
    p = Program()
    for of in (1, 2):
        for step in range(16):
            p.io()
            if of == 2:
                p.predict(3, of=1)
            p.forward(of=of)
            p.backward()
            p.update(of=of)
            if step % 8 == 7:
                p.validate(3) if of == 1 else p.predict(4, of=2, line=50)
    p.dry()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert (loop.steps, loop.step.max) == (32, ms(11e-3))
    assert [(each.place.line, each.passes) for each in found.evaluations] == [(21, 2), (50, 2)]


def test_an_earlier_model_is_a_part_of_steps_also_where_its_gradients_are_recorded(
    tmp_path: Path,
) -> None:
    """Gradient boosting of networks: what the last two predict is what the next one learns from."""
    p = Program()
    for of in (1, 2, 3):
        for _ in range(8):
            p.io()
            for earlier in range(1, of):
                p.predict(3, of=earlier, phase="predict")
            p.forward(of=of)
            p.backward()
            p.update(of=of)
        p.validate(3)
    found = report(tmp_path / "r", p)
    assert only(found).steps == 24
    assert [(each.place.line, each.passes) for each in found.evaluations] == [(21, 3)]


def test_a_long_pause_before_another_model_is_called_ends_a_pass(tmp_path: Path) -> None:
    """Parts of a model are called while it is made; then its data are loaded."""
    p = Program()
    for of, pause in ((2, 4), (3, 3000), (4, 500), (4, 3000)):
        p.wait(pause)
        p.predict(of=of, line=20 + of)
        p.predict(of=of, line=20 + of)
    for _ in range(10):
        p.turn()
    # Before the third call the pause is short, before the fourth it is of the same model.
    first, second = report(tmp_path / "r", p).evaluations
    assert (first.passes, first.batches, first.seconds) == (1, 2, ms(4e-3))
    assert (second.passes, second.batches, second.seconds) == (1, 6, ms(3.512))


def test_models_that_are_made_and_evaluated_at_one_line_have_a_pass_each(tmp_path: Path) -> None:
    p = Program()
    for _ in range(10):
        p.turn()
    p.dry()
    for of in range(2, 5):
        p.wait(30)
        p.predict(of=of)
        p.wait(1)
        p.predict(of=of)
    [evaluation] = report(tmp_path / "r", p).evaluations
    assert (evaluation.passes, evaluation.batches, evaluation.seconds) == (3, 6, ms(15e-3))


@pytest.mark.parametrize("phase", ["eval", "predict", "train"])
def test_a_part_that_the_constructor_of_a_model_calls_evaluates_nothing(
    tmp_path: Path, phase: str
) -> None:
    """It asks for the size of the result, which the next layer needs to know."""
    p = Program()
    p.predict(1, items=1, of=7, line=3, function="__init__", phase=phase)
    p.wait(100)
    for _ in range(10):
        p.turn()
    found = report(tmp_path / "r", p)
    assert (only(found).steps, found.evaluations) == (10, ())
    assert only(found).step.max == ms(8e-3)


def test_parts_that_are_called_once_before_the_training_evaluate_nothing(tmp_path: Path) -> None:
    """A library calls them where it makes a model of them, to know the shapes of their results."""
    p = Program()
    for part in range(2, 6):
        p.predict(of=part)
    p.wait(100)
    p.predict(of=7, line=23)
    p.predict(of=1, line=24)  # the model itself, which is trained then
    for step in range(20):
        p.turn()
        if step == 10:
            p.predict(of=8, line=25)
            p.predict(of=7, line=26)
    found = report(tmp_path / "r", p)
    assert only(found).steps == 20
    assert [(each.place.line, each.passes, each.batches) for each in found.evaluations] == [
        (23, 1, 2),
        (25, 1, 2),
    ]


def test_an_agent_plays_whose_batches_are_of_a_class_that_has_no_known_size(tmp_path: Path) -> None:
    """What it has played, all at once, is judged before it learns from it."""
    p = Program()
    for _ in range(4):
        for _ in range(6):
            p.predict(1, items=0, phase="predict", line=30)
            p.span("env", 0.5, of=20, line=31)
        p.predict(1, items=64, phase="predict", line=40)
        for _ in range(4):
            p.forward(items=16)
            p.backward()
            p.update()
    found = report(tmp_path / "r", p)
    assert (only(found).steps, found.evaluations) == (16, ())


def test_a_target_belongs_to_marked_turns_of_which_few_train(tmp_path: Path) -> None:
    """An agent fills its memory in the first turns; then each turn learns towards what a target predicts."""
    p = Program()
    for turn in range(30):
        with p.around("step", line=9, task="train"):
            p.span("env", 0.5, of=20, line=31)
            if turn >= 20:
                p.predict(3, phase="predict", of=5, line=40)
                p.train()
    found = report(tmp_path / "r", p)
    assert (only(found).steps, found.evaluations) == (30, ())
    assert only(found).step.max == ms(10.5e-3)


def test_a_second_agent_plays_rollouts_as_well(tmp_path: Path) -> None:
    """Two agents are trained one after the other, each on what it has played; then the first is evaluated."""
    p = Program()

    def play(of: int, line: int) -> None:
        for _ in range(6):
            p.predict(1, items=1, of=10 + of, line=line)
            p.span("env", 0.5, of=20, line=line)

    for of, line in ((1, 30), (2, 40)):
        for _ in range(3):
            play(of, line)
            for _ in range(4):
                p.forward(items=16, of=of, line=line)
                p.backward(line=line)
                p.update(of=of, line=line)
    play(1, 50)
    found = report(tmp_path / "r", p)
    assert [loop.steps for loop in found.loops] == [12, 12]
    assert [(each.place.line, each.passes, each.batches) for each in found.evaluations] == [
        (50, 1, 6)
    ]


@pytest.mark.parametrize(
    ("turns", "of", "evaluates"), [(3, 20, False), (6, 20, False), (7, 20, True), (3, 21, True)]
)
def test_what_an_agent_still_plays_after_its_last_update_is_no_evaluation(
    tmp_path: Path, turns: int, of: int, evaluates: bool
) -> None:
    """In the environment that it has learnt in, for no longer than between two updates."""
    p = Program()

    def play(turns: int, of: int) -> None:
        for _ in range(turns):
            p.predict(1, items=1, of=10, phase="predict", line=30)
            p.span("env", 0.5, of=of, line=31)

    for _ in range(3):
        play(7, 20)  # of these six lie between the first and the last call of the model
        for _ in range(4):
            p.forward(items=16)
            p.backward()
            p.update()
    play(turns + 1, of)
    found = report(tmp_path / "r", p)
    assert only(found).steps == 12
    assert [each.passes for each in found.evaluations] == ([1] if evaluates else [])


@pytest.mark.parametrize("batches", [4, 3])
def test_what_a_model_does_before_and_after_its_training(tmp_path: Path, batches: int) -> None:
    """Smaller batches than those of the training, by no loader: as many items both times, or an agent's."""
    p = Program()
    for _ in range(4):
        p.predict(items=4)
    for _ in range(10):
        p.train()
    for _ in range(batches):
        p.predict(items=4)
    [evaluation] = report(tmp_path / "r", p).evaluations
    assert (evaluation.passes, evaluation.batches) == ((2, 8) if batches == 4 else (1, batches))


def test_an_evaluation_ends_before_the_call_with_a_batch_that_was_fetched_before_it(
    tmp_path: Path,
) -> None:
    """The next batch is fetched between forward and backward, and the validation's loader is left early."""
    p = Program()
    p.io()
    for step in range(20):
        if step % 5 == 0:
            p.span("io.start", 0.5, of=100 + step, line=21)
            for _ in range(3):
                p.io(of=100 + step, line=21)
                p.predict()
            p.wait(5)
        p.forward()
        p.io()
        p.backward()
        p.update()
    found = report(tmp_path / "r", p)
    assert sum(each.batches for each in found.evaluations) == 12
    assert stretch(found, "evaluation") == ms(4 * (0.5 + 3 * (1 + 2)))
    calls = {node.name: node.calls for node in only(found).tree.children}
    assert calls["forward"] == ms(1, abs=0.1)


def test_what_ranks_by_a_function_at_its_end_is_no_agent(tmp_path: Path) -> None:
    """It evaluates before the first epoch, and now and then, on smaller batches, in no environment."""
    p = Program()
    for epoch in range(6):
        for _ in range(4 if epoch % 3 == 0 else 0):
            p.predict(1, of=9, what="Sigmoid", items=4)
        for _ in range(10):
            p.forward(what="Embedding")
            p.backward()
            p.update()
    found = report(tmp_path / "r", p)
    assert [(each.passes, each.batches) for each in found.evaluations] == [(2, 8)]
    assert not any(s.note.startswith("rollout") for s in found.segments)


def test_a_first_batch_is_no_warm_up_where_its_pass_is_long_beside_it(tmp_path: Path) -> None:
    """What the model calls takes microseconds, and the rest of the pass has no region."""
    p = Program()
    for epoch in range(3):
        for batch in range(6):
            p.predict(0.1 if epoch + batch == 0 else 0.02)
            p.wait(5)
        for _ in range(10):
            p.train()
    [evaluation] = report(tmp_path / "r", p).evaluations
    assert (evaluation.passes, evaluation.warmup) == (3, 0)


@pytest.mark.parametrize("saves", [False, True])
def test_what_samples_after_a_checkpoint_is_no_part_of_the_validation_before_it(
    tmp_path: Path, saves: bool
) -> None:
    """One batch of a loader that is kept is validated, then the model generates, each time."""
    p = Program()
    for step in range(20):
        p.turn()
        if step % 5 == 4:
            p.io(of=2, line=21)
            p.predict()
            if saves:
                p.span("checkpoint", 5, line=40)
            for _ in range(6):
                p.predict(3, items=36, line=50)
    found = report(tmp_path / "r", p)
    rows = [
        (each.place and each.place.line, each.passes, each.batches) for each in found.evaluations
    ]
    assert rows == ([(21, 4, 4), (50, 4, 24)] if saves else [(21, 4, 4)])


def test_the_batch_with_which_an_evaluation_is_left_is_of_its_time_and_no_batch(
    tmp_path: Path,
) -> None:
    """``for i, batch in enumerate(loader): if i == 2: break``: what the third one waits for is of no step."""
    p = Program()
    for step in range(20):
        p.turn()
        if step % 4 == 0:
            p.span("io.start", 0.5, of=2, line=21)
            for _ in range(2):
                p.io(30, of=2, line=21)
                p.predict()
            p.io(30, of=2, line=21)
    found = report(tmp_path / "r", p)
    [evaluation] = found.evaluations
    assert (evaluation.passes, evaluation.batches) == (5, 10)
    assert stretch(found, "evaluation") == ms(5 * (0.5 + 2 * 32 + 30))
    assert only(found).step.max == ms(8e-3)


@pytest.mark.parametrize(
    ("sets", "passes"),
    [((4, 3), 2), ((4, 1), 2), ((3, 3, 3), 3), ((1, 1, 1), 1), ((2, 2), 1), ((4,) * 8, 1)],
)
def test_each_switch_to_evaluation_mode_begins_a_pass(
    tmp_path: Path, sets: tuple[int, ...], passes: int
) -> None:
    """Without loaders, at one line. One function evaluates a set, another predicts for one batch."""
    p = Program()
    for _ in range(3):
        for _ in range(5):
            p.train()
        for calls in sets:
            p.span("eval_mode", 0.1, line=20)
            for _ in range(calls):
                p.predict()
    found = report(tmp_path / "r", p)
    [evaluation] = found.evaluations
    assert (evaluation.passes, evaluation.batches) == (3 * passes, 3 * sum(sets))


@pytest.mark.parametrize("batches", [2, 5])
def test_a_loader_that_is_read_into_a_list_is_not_ahead(tmp_path: Path, batches: int) -> None:
    p = Program()
    for _ in range(batches):
        p.io(of=2, line=20)
    p.dry(of=2, line=20)
    for _ in range(3):
        for _ in range(batches):
            p.predict()
        for _ in range(6):
            p.io()
            p.train()
        p.dry()
    found = report(tmp_path / "r", p)
    assert [(one.passes, one.batches) for one in found.evaluations] == [(3, 3 * batches)]


@pytest.mark.parametrize(("code", "batches"), [(1, 1), (1, 2), (0, 1)])
@pytest.mark.parametrize("plays", [False, True])
def test_a_program_that_failed_with_its_first_batch_is_no_inference(
    tmp_path: Path, code: int, batches: int, plays: bool
) -> None:
    """A frozen encoder, or an agent, was called before what was to be trained."""
    p = Program()
    for _ in range(batches):
        if plays:
            p.span("env", 1, line=30)
        else:
            p.io()
        p.predict(phase="predict")
    found = report(tmp_path / "r", p, start=1000, exit={"code": code})
    is_known = not code or batches > 1
    assert [loop.steps for loop in found.loops] == ([batches] if is_known else [])
    assert (not found.evaluations and not found.latencies) or is_known
    assert ("before the program failed" in found.verdict.sentence) is not is_known


@pytest.mark.parametrize("batches", [2, 3, 4])
def test_an_evaluation_after_epochs_of_a_loader_that_is_ahead(tmp_path: Path, batches: int) -> None:
    """Each of its three epochs has a step without a fetch: as many as the evaluation may have batches."""
    p = Program()
    for _ in range(3):
        p.io(line=9)
        for batch in range(5):
            p.dry() if batch == 4 else p.io()
            p.train()
    for _ in range(batches):
        p.io(of=2, line=20)
        p.predict()
    found = report(tmp_path / "r", p)
    assert only(found).steps == 15
    assert [(one.passes, one.batches) for one in found.evaluations] == [(1, batches)]
    assert found.evaluations[0].place.line == 20


@pytest.mark.parametrize("teacher", [True, False])
def test_a_loader_that_is_read_beside_another_evaluates_nothing(
    tmp_path: Path, teacher: bool
) -> None:
    """As by ``zip``; what a teacher says of the first batch is a part of the step."""
    p = Program()
    for _ in range(3):
        for _ in range(6):
            p.io()
            p.io(of=2)
            if teacher:
                p.predict(of=3, line=11)
            p.train()
        p.dry()
        for _ in range(4):
            p.io(of=4, line=20)
            p.predict()
        p.dry(of=4, line=20)
    found = report(tmp_path / "r", p)
    assert only(found).steps == 18
    assert [(one.passes, one.batches) for one in found.evaluations] == [(3, 12)]
