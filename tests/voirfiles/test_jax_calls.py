"""JAX: calls of what `jax.jit` made: which train, and of which nobody can be sure."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import product
from random import Random

import pytest
from boosted import PROGRAMS, run
from trained import needs

from injector.analysis.summary import summarise
from injector.probe.compiled import NATIVE
from injector.store.folder import open_run

needs("jax")
needs("optax")
pytestmark = pytest.mark.skipif(
    not NATIVE, reason="calls of what is in C are seen by what is compiled"
)

STEPS = 10
WAYS = ("jit", "donated", "method", "factory", "keywords", "anew", "keyed", "mapped", "compiled")
UPDATES = ("hand", "optax", "nested", "apart", "apart_optax", "outside")
LOOPS = ("plain", "arrays", "epochs", "drawn", "held", "threaded", "loader")
PREDICTED = {"trained": [], "evaluated": [5] * 6, "inferred": [8] * STEPS}
"""The items of all calls that only predict."""


def check_loops(tmp_path, ways, updates, loops, mode):
    words = [",".join(each) for each in (ways, updates, loops)]
    found = run(tmp_path, "jax_loops.py", *words, mode)
    for names in product(ways, updates, loops):
        part = found.part("-".join((*names, mode)))
        calls = part.of("compiled")
        trained = [span for span in calls if span.site["phase"] == "train"]  # the first as well
        assert len(trained) == (0 if mode == "inferred" else STEPS), names
        assert [span.items for span in trained[2:]] == [8] * len(trained[2:]), names
        assert {span.items for span in trained[:2]} <= {0, 8}, names
        predicted = part.of("forward")
        assert {span.site["phase"] for span in predicted} <= {"predict"}, names
        assert [span.items for span in predicted] == PREDICTED[mode], names
        assert len(calls) - len(trained) == (len(trained) if "apart" in names[1] else 0), names


def test_loops_that_train(tmp_path):
    check_loops(tmp_path, ("donated", "compiled"), UPDATES, ["plain"], "evaluated")


@pytest.mark.release
@pytest.mark.parametrize("mode", ["trained", "evaluated"])
@pytest.mark.parametrize("update", UPDATES)
def test_all_loops_that_train(tmp_path, update, mode):
    needs("torch")
    check_loops(tmp_path, WAYS, [update], LOOPS, mode)


@pytest.mark.release
def test_all_loops_that_only_predict(tmp_path):
    needs("torch")
    check_loops(tmp_path, WAYS, ["hand"], LOOPS, "inferred")


CHOICES = list(product(WAYS, UPDATES, LOOPS, PREDICTED, [(0, None), (0, 3), (3, None), (2, 4)]))


@pytest.mark.release
@pytest.mark.parametrize("chosen", Random(1).sample(CHOICES, 24))
def test_what_a_report_says_of_a_loop(tmp_path, chosen):
    """With and without ``--skip`` and ``--stop``."""
    needs("torch")
    *words, mode, (skip, stop) = chosen
    options = [] if stop is None else ["--stop", str(stop)]
    options += ["--skip", str(skip)] if skip else []
    options += ["--phase", "inference"] if mode == "inferred" else []
    found = run(tmp_path, "jax_loops.py", *words, mode, options=tuple(options))
    [folder] = (tmp_path / "runs").iterdir()
    profile = summarise(open_run(str(folder))).profile
    [loop] = profile.loops
    steps = STEPS if stop is None else skip + stop
    assert (loop.task, loop.steps) == ("inference" if mode == "inferred" else "train", steps)
    assert (loop.warmup.skipped, loop.items_per_step) == (skip, 8)
    assert loop.warmup.steps in ((skip,) if skip else (0, 1, 2))
    passes = steps // 5 if mode == "evaluated" else 0
    assert [evaluation.passes for evaluation in profile.evaluations] == ([passes] if passes else [])
    assert ("stop" in [name for name, _ in found.processes[0].events]) == (stop is not None)


def check_stop(tmp_path, steps, way, update, loop):
    found = run(
        tmp_path, "jax_loops.py", way, update, loop, "trained", options=("--stop", str(steps))
    )
    [stop] = [data for name, data in found.processes[0].events if name == "stop"]
    trained = [span for span in found.of("compiled") if span.site["phase"] == "train"]
    assert (stop["task"], stop["steps"], len(trained)) == ("train", steps, steps)
    fetches = [span for span in found.of("io") if span.site["place"]["function"] == "loader"]
    assert len(fetches) == (steps + 1 if loop == "loader" else 0)


def test_a_stop_before_it_is_known_that_a_function_trains(tmp_path):
    """That is learnt in its second call: the first step has ended before."""
    needs("torch")
    check_stop(tmp_path, 1, "jit", "hand", "loader")


@pytest.mark.release
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("loop", ["loader", "drawn"])
@pytest.mark.parametrize("update", UPDATES)
def test_stops(tmp_path, steps, loop, update):
    needs("torch")
    check_stop(tmp_path, steps, "compiled" if steps == 2 else "donated", update, loop)


OTHERS = {
    "clipped": ("compiled", [0, *[8] * 9]),
    "accumulated": ("compiled", [0, *[32] * 9]),
    "statistics": ("compiled", [0, *[8] * 9]),
    "evaluated": ("compiled", [8] * 10),
    "rivals": ("compiled", [8] * 20),
    "interpreted": ("gradients", [8] * 10),
}


def test_updates_apart_from_their_gradients(tmp_path):
    found = run(tmp_path, "jax_apart.py", *OTHERS, "by_optax", "forces", "attack")
    for name, (region, items) in OTHERS.items():
        spans = found.part(name).of(region)
        assert [span.items for span in spans if span.site["phase"] == "train"] == items, name
    evaluated = found.part("evaluated").of("forward")
    assert [(span.site["phase"], span.items) for span in evaluated] == [("predict", 5)] * 20
    part = found.part("by_optax")  # outside of compiled code: the update is known by itself
    assert len(part.of("optimizer")) == 10
    derived = [(span.site["phase"], span.items) for span in part.of("gradients")]
    assert derived == [("gradients", 8)] * 10
    for each in (part, found.part("forces"), found.part("attack")):
        spans = each.of("compiled") + each.of("gradients")
        assert "train" not in {span.site["phase"] for span in spans}


def test_an_optimizer_that_accumulates_is_noted(tmp_path):
    found = run(tmp_path, "jax_apart.py", "by_many_steps", "by_optax")
    assert len(found.part("by_many_steps").of("accumulate")) == 1  # it was traced
    assert found.part("by_optax").of("accumulate") == []
    [sentence] = re.findall(r"which steps change the weights: (.*?) may", found.err)
    assert sentence == "optax.MultiSteps"


def test_items_of_batches(tmp_path):
    items = {"named": 8, "timed": 8, "timed_as_long": 8, "one_by_one": 0, "divided": 0}
    found = run(tmp_path, "jax_apart.py", *items)
    for name, number in items.items():
        spans = found.part(name).of("compiled")
        assert {span.site["phase"] for span in spans} == {"train"}, name
        assert [span.items for span in spans[1:]] == [number] * 9, name


def test_what_is_made_of_weights_is_no_batch(tmp_path):
    found = run(tmp_path, "jax_apart.py", "pruned", "two_stages")
    pruned = found.part("pruned")
    assert pruned.of("forward") == []
    assert {span.site["phase"] for span in pruned.of("compiled")} == {None}
    assert len(pruned.of("optimizer")) == 10
    predicted = found.part("two_stages").of("forward")
    assert [span.items for span in predicted] == [5] * 40


def test_weights_that_were_updated_predict_at_each_look(tmp_path):
    found = run(tmp_path, "jax_apart.py", "looked_at", "beside_statistics")
    beside = found.part("beside_statistics").of("forward")
    # In a plain dict, the statistics may be the batch as well.
    assert [(span.site["phase"], span.items) for span in beside] == [
        ("predict", 8),
        ("predict", 0),
    ] * 10
    part = found.part("looked_at")
    predicted = part.of("forward")
    assert {span.site["phase"] for span in predicted} == {"predict"}
    assert [span.items for span in predicted] == [8, 5] * 10
    # What returns weights may train.
    assert [span.site["phase"] for span in part.of("compiled")] == ["train", None] * 10


UNSURE = (
    *("simulation", "sampling", "attack", "decoding", "saliency", "looped", "scaled", "failing"),
    *("moving", "repeated_attack"),
)


def test_what_is_not_sure(tmp_path):
    found = run(tmp_path, "jax_unsure.py", *UNSURE, "predicting", "measuring", "recurrent")
    for name in UNSURE:
        part = found.part(name)
        phase = "gradients" if name == "looped" else None  # each call is several updates, perhaps
        assert [span.site["phase"] for span in part.of("compiled")] == [phase] * 8, name
        assert part.of("forward") == part.of("optimizer") == part.of("backward") == [], name
    for name in ("predicting", "measuring"):
        predicted = found.part(name).of("forward")
        assert [(span.site["phase"], span.items) for span in predicted] == [("predict", 3)] * 8, (
            name
        )
    assert {span.site["phase"] for span in found.part("recurrent").of("compiled")} == {"train"}


def test_loops_outside_of_what_is_compiled(tmp_path):
    spans = run(tmp_path, "jax_unsure.py", "loops").part("loops").of("compiled")
    names = [
        "train, which derives gradients in a loop",
        "loop of halve",
        "loop of <lambda>",
        "loop of fail",
    ]
    assert [span.site["what"] for span in spans] == names * 2
    assert [span.site["phase"] for span in spans] == ["gradients", None, None, None] * 2


@pytest.mark.release
def test_a_program_can_ask_what_it_likes(tmp_path):
    """Of a function that is compiled: parts of it, how often it is traced, tracebacks, what is donated."""
    program = str(PROGRAMS / "jax_objects.py")
    plain, ours = (
        subprocess.run(
            [sys.executable, *words, program], capture_output=True, text=True, cwd=tmp_path
        )
        for words in ([], ["-m", "injector", "run", "--quiet"])
    )
    address = re.compile(r"0x[0-9a-f]+")
    for text in ("stdout", "stderr"):
        assert address.sub("", getattr(ours, text)) == address.sub("", getattr(plain, text))
    assert plain.returncode == ours.returncode == 0
