"""Loops that train by hand: found in the text, with what a voirfile would have to name."""

from __future__ import annotations

import pytest

from injector.rewrite.training_loop import handmade_loop, how_to_measure, may_train

INLINE = "for i in range(9):  # HERE\n    x = get(i)\n    {}\n"
METHOD = """
class Model:
    def update(self, x):
        self.w -= 0.1 * x

def main():
    model = Model()
    for epoch in range(2):
        for x in range(3):  # HERE
            model.update(x)
"""
VARIABLE = """
def train(batches):
    for epoch in range(2):
        for i, x in enumerate(batches):  # HERE
            w = w - 0.1 * x.T @ w
"""


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (METHOD, 'ov.step("//Model/update")'),
        (VARIABLE, 'ov.loader("//train > batches")'),
        ("for x in data:  # HERE\n    w -= 0.1 * x\n", 'ov.loader("// > data")'),
        (INLINE.format("w -= 0.1 * x"), None),
        (INLINE.format("w[:] += 0.1 * x.T @ x"), None),
        (INLINE.format("np.subtract(w, 0.1 * x, out=w)"), None),
        ("while going:  # HERE\n    w -= x / 2\n", None),
    ],
)
def test_a_loop_that_trains_by_hand(text: str, call: str | None) -> None:
    text = "import numpy as np\n" + text
    [line] = [n for n, each in enumerate(text.splitlines(), 1) if "HERE" in each]
    assert handmade_loop(text) == (line, call)


@pytest.mark.parametrize(
    "text",
    [
        "import numpy\nfor x in y:\n    count += 1\n",
        "import numpy\nfor x in y:\n    total += price * x\n",
        "import math\nfor x in y:\n    w -= 0.1 * x\n",  # no arrays
        "import numpy\nw -= 0.1 * x\n",
        "import numpy\nfor x in y:\n    def f():\n        w -= 0.1 * x\n",
        "import numpy\nfor (\n",
    ],
)
def test_what_trains_nothing(text: str) -> None:
    assert handmade_loop(text) is None


def test_a_file_that_is_not_there(tmp_path) -> None:
    assert how_to_measure(str(tmp_path / "nope.py")) == []


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("model(x)\nload('trained.pt')\nF.dropout(x, training=self.training)", False),
        ("trained = load()\nfor x in loader: trained(x)", False),
        ("loss.backward()", True),
        ("from torch import optim", True),
        ("import torch.optim as o", True),
        ("model.fit(x)", True),
        ("from engine import train_one_epoch", True),
        ("trainer = Trainer()", True),
        ("def f(:", True),
    ],
)
def test_what_the_text_of_a_program_says_of_training(tmp_path, text, may):
    (tmp_path / "x.py").write_text(text)
    assert may_train([str(tmp_path / "x.py")]) is may


def test_a_file_that_is_not_there_may_train(tmp_path):
    assert may_train([str(tmp_path / "x.py")]) and not may_train([])
