"""TensorFlow: loops by hand, compiled steps, and what of them can be seen from outside."""

from __future__ import annotations

import pytest
from boosted import run
from trained import needs

needs("tensorflow")
pytestmark = pytest.mark.release

PROGRAM = "../trainers/tensorflow_loops.py"
BATCHES = [8, 8, 8, 8, 8, 2]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return run(tmp_path_factory.mktemp("run"), PROGRAM)


def phases(part, region):
    return [(span.site["phase"], span.items) for span in part.of(region)]


def test_a_loop_by_hand(ran):
    part = ran.part("eager")
    assert part.items("io") == BATCHES * 4
    assert {span.site["payload"] for span in part.of("io")} == {"counted"}
    assert len(part.of("io.end")) == 4
    models = [span for span in part.of("forward") if span.site["what"] == "Sequential"]
    trained = [("train", n) for n in BATCHES]
    evaluated = [("eval", n) for n in BATCHES]
    assert [(s.site["phase"], s.items) for s in models] == (trained + evaluated) * 2
    assert len(part.of("backward")) == len(part.of("optimizer")) == 12
    assert {span.site["what"] for span in part.of("optimizer")} == {"SGD"}
    assert part.of("compiled") == []
    losses = part.values("train/loss")
    assert len(losses) == 12 and losses[0] > losses[-1] > 0


def test_a_compiled_step(ran):
    part = ran.part("compiled")
    assert phases(part, "compiled") == [("train", n) for n in BATCHES * 2]
    assert phases(part, "forward") == [("eval", n) for n in BATCHES * 2]
    assert {span.site["what"] for span in part.of("compiled")} == {"step"}
    assert {span.site["what"] for span in part.of("trace")} == {"step", "check"}
    assert part.of("optimizer") == part.of("backward") == []  # they were only traced
    assert len({span.site["of"] for span in part.of("io")}) == 1


def test_weights_that_are_moved_by_hand(ran):
    part = ran.part("by_hand")
    assert phases(part, "compiled") == [("train", n) for n in BATCHES]
    assert phases(part, "forward") == [("train", 0)] * 6
    assert len(part.of("backward")) == 6


def test_an_update_apart_from_its_gradients(ran):
    part = ran.part("apart")
    calls = [(s.site["what"], s.site["phase"], s.items) for s in part.of("compiled")]
    turns = [[("derive", None, n), ("update", "train", 0), ("measure", None, 0)] for n in BATCHES]
    assert calls == [call for turn in turns for call in turn]


def test_a_loop_that_is_compiled_as_a_whole_is_no_step(ran):
    part = ran.part("whole")
    assert [phase for phase, _ in phases(part, "compiled")] == [None] * 3
    assert part.of("io") == []


def test_a_session_of_tensorflow_1(ran):
    part = ran.part("session")
    assert phases(part, "compiled") == [(None, 0), *[("train", 8)] * 5, (None, 42)]
    assert part.of("optimizer") == []
