"""JAX: calls of what `jax.jit` made: which train, and of which nobody can be sure."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import product

import pytest
from boosted import PROGRAMS, run
from trained import needs

from injector.probe.compiled import NATIVE

needs("jax")
needs("optax")
pytestmark = pytest.mark.skipif(
    not NATIVE, reason="calls of what is in C are seen by what is compiled"
)

STEPS = 10
WAYS = ("jit", "donated", "method", "factory", "keywords", "anew", "keyed", "mapped", "compiled")
UPDATES = ("hand", "optax", "nested", "apart", "apart_optax", "outside")
LOOPS = ("plain", "epochs", "drawn", "held", "loader")


def check_loops(tmp_path, ways, updates, loops):
    found = run(tmp_path, "jax_loops.py", ",".join(ways), ",".join(updates), ",".join(loops))
    for names in product(ways, updates, loops):
        calls = found.part("-".join(names)).of("compiled")
        trained = [span for span in calls if span.site["phase"] == "train"]  # the first as well
        assert len(trained) == STEPS, names
        assert [span.items for span in trained[2:]] == [8] * 8, names
        assert {span.items for span in trained[:2]} <= {0, 8}, names
        others = [span for span in calls if span.site["phase"] != "train"]
        assert len(others) == (STEPS if "apart" in names[1] else 0), names


def test_loops_that_train(tmp_path):
    check_loops(tmp_path, ("donated", "compiled"), UPDATES, LOOPS[:1])


@pytest.mark.release
@pytest.mark.parametrize("update", UPDATES)
def test_all_loops_that_train(tmp_path, update):
    needs("torch")
    check_loops(tmp_path, WAYS, [update], LOOPS)


def check_stop(tmp_path, steps, way, update, loop):
    found = run(tmp_path, "jax_loops.py", way, update, loop, options=("--stop", str(steps)))
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
    for each in (part, found.part("forces"), found.part("attack")):
        spans = each.of("compiled") + each.of("gradients")
        assert "train" not in {span.site["phase"] for span in spans}


UNSURE = ("simulation", "sampling", "attack", "decoding", "saliency", "looped", "scaled", "failing")


def test_what_is_not_sure(tmp_path):
    found = run(tmp_path, "jax_unsure.py", *UNSURE, "predicting", "recurrent")
    for name in UNSURE:
        part = found.part(name)
        assert [span.site["phase"] for span in part.of("compiled")] == [None] * 8, name
        assert part.of("forward") == part.of("optimizer") == part.of("backward") == [], name
    predicted = found.part("predicting").of("forward")
    assert [(span.site["phase"], span.items) for span in predicted] == [("predict", 3)] * 8
    assert {span.site["phase"] for span in found.part("recurrent").of("compiled")} == {"train"}


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
