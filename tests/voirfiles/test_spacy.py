"""spaCy and Thinc: updates are steps, whoever applies the gradients, and evaluation stands apart."""

from __future__ import annotations

import pytest
from trained import needs

from injector.analysis.profiling import profile
from injector.store.folder import open_run

needs("spacy")

THINC = """
import numpy
from thinc.api import Adam, Relu, Softmax, chain

model = chain(Relu(nO=8), Softmax())
x = numpy.random.rand(64, 4).astype("f")
y = numpy.eye(3, dtype="f")[numpy.random.randint(0, 3, 64)]
model.initialize(X=x[:4], Y=y[:4])
optimizer = Adam(0.01)
for epoch in range(3):
    for part, truth in model.ops.multibatch(16, x, y):
        guess, back = model.begin_update(part)
        back(guess - truth)
        model.finish_update(optimizer)
    model.predict(x)
"""

SPACY = """
import spacy
from spacy.training import Example
from spacy.training.loop import train_while_improving
from spacy.util import minibatch

language = spacy.blank("en")
for name in ("textcat", "tagger"):
    language.add_pipe(name).add_label("A")
language.get_pipe("textcat").add_label("B")
truth = {"cats": {"A": 1.0, "B": 0.0}, "tags": ["A", "A"]}
examples = [Example.from_dict(language.make_doc("a text"), truth) for _ in range(32)]
optimizer = language.initialize(lambda: examples)
"""

UPDATES = """
for _ in range(3):
    for batch in minibatch(examples, size=8):
        language.update(batch, sgd=optimizer)
    language.evaluate(examples)
"""

ACCUMULATED = """
batches = ((0, batch) for _ in range(3) for batch in minibatch(examples, size=8))
for _ in train_while_improving(
    language, optimizer, batches, evaluate=lambda: (1.0, {}), dropout=0.1, eval_frequency=100,
    accumulate_gradient=2, patience=0, max_steps=0, exclude=[], annotating_components=[],
    before_update=None,
):
    pass
"""


def _profile(done):
    return profile(open_run(str(done.folder)))


def test_a_loop_of_thinc(run):
    done = run(THINC)
    counts = done.only.counts()
    assert counts["optimizer"] == 12
    assert len([span for span in done.only.named("forward") if span.phase == "train"]) == 12
    assert counts["backward"] >= 11  # that of the first is met as it is returned
    found = _profile(done)
    assert [loop.steps for loop in found.loops] == [12]
    assert found.loops[0].throughput.items is not None
    assert (3, 192) in [(each.passes, each.items) for each in found.evaluations]


def test_a_function_of_gradients_is_recorded_once(run):
    """Its code is another one from then on, and each step returns a new object of it."""
    count = "sum(each.startswith('injector:') for each in vars(builtins))"
    done = run(f"import builtins\n{THINC}    print({count})\n")
    first, *others = done.out.split()
    assert others == [first] * 2


def test_each_update_of_a_pipeline_is_a_step(run):
    done = run(SPACY + UPDATES)
    found = _profile(done)
    assert [loop.steps for loop in found.loops] == [12]
    assert sum(span.items for span in done.only.named("step")) == 3 * 32
    assert len(done.only.named("evaluation")) == 3
    # When they were initialized, models were called for the shapes of their weights: that evaluates nothing.
    assert [each.passes for each in found.evaluations] == [3]


@pytest.mark.release
def test_gradients_that_are_accumulated_make_one_step(run):
    found = _profile(run(SPACY + ACCUMULATED))
    assert [loop.steps for loop in found.loops] == [12]
