"""Loops that train by hand: found in the text, with what a voirfile would have to name."""

from __future__ import annotations

import pytest

from injector.rewrite.training_loop import handmade_loop, how_to_measure, may_train

INLINE = "for i in range(9):  # HERE\n    x = get(i)\n    {}\n"
UPDATES = [
    "w -= 0.1 * x",
    "w += -0.1 * x / y",
    "w[:] += 0.1 * x.T @ x",
    "np.subtract(w, 0.1 * x, out=w)",
    "ws = [w - 0.1 * g for w, g in zip(ws, x)]",
    "m.ws = [(w - 0.1 * g, b - g / 2) for (w, b), g in zip(m.ws, x)]",
    "ws = {k: w - 0.1 * x[k] for k, w in ws.items()}",
]
OVER_WEIGHTS = [
    "for w, g in zip(ws, x): w -= 0.1 * g",
    "for p in model.parameters(): p.data -= 0.1 * p.grad",
    "for w, g, m in zip(ws, x, ms):\n        m += g * g\n        w += -0.1 * g / m",
    "for k in ws: ws[k] = ws[k] - 0.1 * x[k]",
    "for w, g in zip(ws, x): np.subtract(w, 0.1 * g, out=w)",
]
"""Loops over the weights of a model, in each step of the loop around."""
UPDATING = """
def update(ws, gs):
    for w, g in zip(ws, gs):
        w -= 0.1 * g

for x in data():  # HERE
    update(ws, x)
"""
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
        *((INLINE.format(update), 'ov.step("// > #loop_i")') for update in UPDATES),
        *((INLINE.format(over), 'ov.step("// > #loop_i")') for over in OVER_WEIGHTS),
        (f"for i in a:\n    pass\n{INLINE.format(UPDATES[0])}", None),
        ("for [x, *y] in data():  # HERE\n    w -= 0.1 * x\n", 'ov.step("// > #loop_x")'),
        ("while going:  # HERE\n    w -= x / 2\n", 'ov.step("// > #loop_going")'),
        ("while True:  # HERE\n    w -= x / 2\n", 'ov.step("// > #loop_True")'),
        ("while n() < 3:  # HERE\n    w -= x / 2\n", 'ov.step("// > #loop_n")'),
        ("while self.on < 3:  # HERE\n    w -= x / 2\n", 'ov.step("// > #loop_self")'),
        (UPDATING, 'ov.step("//update")'),
        ("for w in ws:  # HERE\n    w -= 0.1 * g\n", 'ov.loader("// > ws")'),
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
        "import numpy\nfor x in y:\n    total += x * -price\n",
        "import numpy\ndef f(x):\n    p = g(x)\n    p -= log(2 * (1 - x))\nfor x in y:\n    f(x)\n",
        "import numpy\nfor x in y:\n    rest = [a - 2 * b for a, b in zip(x, y)]\n",
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
