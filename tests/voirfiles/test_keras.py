"""Keras 3: on PyTorch its own optimizers are seen as torch's are; other backends compile a step."""

from __future__ import annotations

import pytest
from trained import needs, run

from injector.analysis.summary import summarise
from injector.analysis.traces import traces_of
from injector.store.folder import open_run

PROGRAM = "trainers/keras_fit.py"

needs("keras")


def test_a_fit(tmp_path):
    ran = run(tmp_path, PROGRAM)
    reported, [process] = ran.reported[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err

    updates, forward = process.of("optimizer"), process.of("forward", "train")
    assert len(updates) == reported["global_step"] == reported["batches"] == 20
    assert len(forward) == len(process.of("backward")) == 20
    assert all(span.items == 4 for span in forward)
    assert {span.site["what"] for span in updates} == {"Adam"}
    # Each epoch has a loader of its own.
    assert ran.steps() == [[20]]
    assert ran.epochs() == [[10, 40], [10, 40]]
    assert {span.site["what"] for span in forward} == {"Sequential"}

    evaluations = process.of("evaluation")
    assert len(evaluations) == reported["passes"] == 3
    evaluated = process.of("forward", "eval")
    assert sum(any(one.holds(span) for one in evaluations) for span in evaluated) == 2 * 2 + 1
    # The others ask what shapes the model would give, before it is trained.
    assert all(span.start < updates[0].start for span in evaluated[:-5])

    history = reported["history"]
    assert process.values["train/epoch"] == [0, 1]
    assert process.values["train/logged_loss"][9::10] == pytest.approx(history["loss"])
    assert process.values["train/mae"][9::10] == pytest.approx(history["mae"])
    assert process.values["eval/loss"] == pytest.approx(history["val_loss"])


def test_epochs_of_data_without_an_end(tmp_path):
    ran = run(tmp_path, PROGRAM, "--endless", "9", "--accumulate", "2")
    reported = ran.reported[0]
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    assert ran.steps() == [[reported["global_step"]]] == [[9]]
    # The fifth step has the last batch of the first epoch, and the first of the next.
    assert ran.epochs() == [[5, 40], [4, 32]]


def test_a_step_of_its_own_gives_metrics_in_metrics(tmp_path):
    ran = run(tmp_path, PROGRAM, "--own-step")
    reported, [process] = ran.reported[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    mae = reported["history"]["mae"][-1]
    assert process.values["train/mae"][-1] == pytest.approx(mae)
    assert len(process.values["train/mae"]) == 20


@pytest.mark.release
def test_a_loop_of_its_own_that_accumulates(tmp_path):
    ran = run(tmp_path, PROGRAM, "--own-loop", "--accumulate", "2")
    reported, [process] = ran.reported[0], ran.processes.values()
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    assert len(process.of("optimizer")) == reported["global_step"] == 10
    assert len(process.of("backward")) == 20
    assert ran.steps() == [[10]]
    assert process.values["train/loss"] == pytest.approx(reported["losses"])


BACKENDS = "trainers/keras_backends.py"


def backend(folder, name, how):
    needs(name)
    ran = run(folder, BACKENDS, name, how)
    assert ran.exit == 0, ran.err
    record = ran.record
    assert record["misses"] == record["failures"] == []
    [process] = [each for each in ran.all if each.of("compiled") or each.of("optimizer")]
    return ran, process, ran.reported[0]


@pytest.mark.release
def test_the_last_step_of_an_epoch_ends_where_keras_finds_no_other_batch(tmp_path):
    ran, process, _ = backend(tmp_path, "jax", "compiled")
    steps = process.of("compiled", "train")
    ends = process.of("io.end")
    assert len(ends) == 4  # of two epochs, each with a validation
    [trace] = traces_of(open_run(str(ran.folder)))
    offset = int(trace.start[0]) - process.of("io")[0].start
    for last in (10, 21):
        end = next(span for span in ends if span.start >= steps[last].end)
        assert trace.end[last] - offset == end.start


@pytest.mark.release
@pytest.mark.parametrize("name", ["tensorflow", "jax"])
def test_a_fit_that_is_compiled(tmp_path, name):
    ran, process, reported = backend(tmp_path, name, "compiled")
    steps = process.of("compiled", "train")
    assert [span.items for span in steps] == [*[4] * 10, 2] * 2
    assert {span.site["what"] for span in steps} == {"Own.train_step"}
    assert process.of("optimizer") == process.of("backward") == []  # they were only traced
    assert ran.steps() == [[22]]
    assert ran.epochs() == [[11, 42], [11, 42]]
    assert len(process.of("evaluation")) == 2

    history = reported["history"]
    assert process.values["train/logged_loss"][10::11] == pytest.approx(history["loss"])
    assert process.values["train/mae"][10::11] == pytest.approx(history["mae"])
    assert process.values["eval/loss"] == pytest.approx(history["val_loss"])
    # TensorFlow fetches a batch inside of what it compiled.
    assert sum(span.items for span in process.of("io")) >= (84 if name == "jax" else 0)


@pytest.mark.release
@pytest.mark.parametrize("name", ["tensorflow", "jax"])
def test_several_updates_in_one_call(tmp_path, name):
    ran, process, _ = backend(tmp_path, name, "several")
    # JAX draws each batch between two calls of compiled code.
    items = [*[4] * 10, 2] if name == "jax" else [*[12] * 3, 6]
    assert [span.items for span in process.of("compiled", "train")] == items * 2
    assert ran.steps() == [[2 * len(items)]]
    assert ran.epochs() == [[len(items), 42]] * 2
    [evaluation] = summarise(open_run(str(ran.folder))).profile.evaluations
    assert evaluation.items == 16


@pytest.mark.release
def test_a_fit_that_is_not_compiled(tmp_path):
    ran, process, reported = backend(tmp_path, "tensorflow", "eager")
    assert process.of("compiled") == []
    assert len(process.of("optimizer")) == len(process.of("backward")) == 22
    models = [span for span in process.of("forward", "train") if span.site["what"] == "Own"]
    assert [span.items for span in models] == [*[4] * 10, 2] * 2
    assert ran.epochs() == [[11, 42], [11, 42]]
    means = reported["history"]["loss"]
    losses = process.values["train/loss"]
    assert sum(
        a * b for a, b in zip(losses[:11], [*[4] * 10, 2], strict=True)
    ) / 42 == pytest.approx(means[0])


def test_layers_that_are_called_with_named_inputs_for_their_shapes_are_not_recorded(tmp_path):
    _, process, _ = backend(tmp_path, "jax", "named")
    assert [span.items for span in process.of("compiled", "train")] == [*[4] * 10, 2]
    assert process.of("forward") == []


@pytest.mark.release
@pytest.mark.parametrize("name", ["tensorflow", "jax"])
def test_batches_by_hand(tmp_path, name):
    ran, process, _ = backend(tmp_path, name, "by_hand")
    assert [span.items for span in process.of("compiled", "train")] == [4] * 10
    assert ran.steps() == [[10]]
    evaluated = process.of("forward", "eval")
    assert [span.items for span in evaluated] == [3, 2] * 2
    if name == "jax":
        kinds = ["Own.test_on_batch", "Own.predict_on_batch"]
        assert [span.site["what"] for span in evaluated] == kinds * 2


@pytest.mark.release
@pytest.mark.parametrize("name", ["tensorflow", "jax"])
def test_predictions_are_steps_of_inference(tmp_path, name):
    needs(name)
    ran = run(tmp_path, BACKENDS, name, "predict")
    (folder,) = (tmp_path / "runs").iterdir()
    assert (ran.exit, ran.reported) == (0, {0: {"rows": [42, 42]}}), ran.err
    found = summarise(open_run(str(folder))).profile
    [loop] = found.loops
    assert (loop.task, loop.steps) == ("inference", 22)
    assert loop.throughput.items and not found.evaluations
