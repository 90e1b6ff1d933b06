"""How far a loop has come, and how far it has to go."""

from __future__ import annotations

from pathlib import Path

import pytest

from injector.live.position import LoopPositions, epochs
from injector.store.call_sites import SourceLine

OPTION = """
from argparse import ArgumentParser
p = ArgumentParser()
p.add_argument("-e", "--max-epochs", type=int, default=7)
p.add_argument("--n", dest="rounds", default=9)
args = p.parse_args()
"""
INSIDE = "for epoch in {}:\n    for x in loader:  # HERE\n        pass\n"
CALLED = """
def train(epoch):
    for x in loader:  # HERE
        pass
def main():
    for epoch in {}:
        train(epoch)
        test()
main()
"""
METHOD = """
class Trainer:
    def epoch(self, at):
        for i, x in enumerate(self.loader):  # HERE
            pass
    def fit(self):
        for at in {}:
            self.epoch(at)
"""


@pytest.mark.parametrize("shape", [INSIDE, CALLED, METHOD])
@pytest.mark.parametrize(
    ("turns", "argv", "count"),
    [
        ("range(3)", "", 3),
        ("range(1, 4)", "", 3),
        ("tqdm(range(3), desc='epochs')", "", 3),
        ("trange(3)", "", 3),
        ("range(EPOCHS)", "", 5),
        ("range(1, EPOCHS + 1)", "", 5),
        ("range(args.max_epochs)", "", 7),
        ("range(args.max_epochs)", "--max-epochs 2", 2),
        ("range(args.max_epochs)", "--max-epochs=2", 2),
        ("range(1, args.max_epochs + 1)", "-e 2", 2),
        ("range(args.rounds)", "--n 4", 4),
        ("range(args.rounds)", "", 9),
        ("range(hparams.epochs)", "--epochs 6", 6),
        # What is not plain is not known.
        ("range(hparams.epochs)", "", None),
        ("range(args.max_epochs)", "--max-epochs many", None),
        ("range(0, 10, 2)", "", None),
        ("range(len(things))", "", None),
        ("range(CHANGED)", "", None),
        ("range(parameter)", "", None),
        ("schedule", "", None),
        ("range(2 * EPOCHS)", "", None),
    ],
)
def test_passes_as_the_text_has_them(
    tmp_path: Path, shape: str, turns: str, argv: str, count: int | None
) -> None:
    text = OPTION + "EPOCHS = 5\nCHANGED = 1\nCHANGED = 2\ndef f(parameter): pass\n"
    text += shape.format(turns)
    (tmp_path / "train.py").write_text(text)
    [line] = [n for n, each in enumerate(text.splitlines(), 1) if "HERE" in each]
    assert epochs(str(tmp_path / "train.py"), line, ("train.py", *argv.split())) == count


@pytest.mark.parametrize(
    "text",
    [
        "for x in loader:  # HERE\n    pass\n",
        "while True:\n    for x in loader:  # HERE\n        pass\n",
        "for e in range(3):\n    while again:\n        for x in loader:  # HERE\n            pass\n",
        "def f():\n    for x in loader:  # HERE\n        pass\nfor e in range(3):\n    f()\nf()\n",
        "def f():\n    for x in loader:  # HERE\n        f()\n",
        "x = next(batches)  # HERE\n",
        "def broken(:  # HERE\n",
    ],
)
def test_passes_that_are_not_plain(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(text)
    [line] = [n for n, each in enumerate(text.splitlines(), 1) if "HERE" in each]
    assert epochs(str(tmp_path / "train.py"), line, ()) is None
    assert epochs(str(tmp_path / "nowhere.py"), line, ()) is None


def test_the_course_of_a_loop(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("for e in range(3):\n    for x in loader:\n        pass\n")
    place = SourceLine(str(tmp_path / "train.py"), 2, "", "")
    train, test = (1, "train"), (2, "test")
    ahead = LoopPositions()
    assert ahead.current(()) is None

    def fetch(whose: tuple[int, str], count: int) -> None:
        for _ in range(count):
            ahead.fetch(whose, place)

    def current() -> tuple[str, int | None, int] | None:
        found = ahead.current(())
        return None if found is None else (found.text, found.left, found.batches)

    fetch(train, 4)
    assert current() is None  # nothing says how long it will be
    ahead.announced(1, 10)
    assert current() == ("epoch 1 of 3, batch 4 of 10", 26, 4)
    fetch(train, 6)
    ahead.end(train)
    fetch(test, 2)
    assert current() == ("epoch 2 of 3, batch 0 of 10", 20, 10)
    fetch(train, 5)
    assert current() == ("epoch 2 of 3, batch 5 of 10", 15, 15)
    fetch(train, 5)
    for _ in range(2):
        ahead.end(train)
    assert current() == ("epoch 3 of 3, batch 0 of 10", 0, 20)
    fetch(train, 1)  # more than the text promised
    assert current() == ("batch 1 of 10", None, 21)
    fetch(train, 10)  # a pass that is as long as was announced ends without a look for more
    assert current() == ("batch 1 of 10", None, 31)


def test_a_pass_is_as_long_as_the_last_one_where_its_loader_says_nothing() -> None:
    ahead = LoopPositions()
    for _ in range(7):
        ahead.fetch((1, "x"), None)
    ahead.end((1, "x"))
    ahead.fetch((1, "x"), None)
    found = ahead.current(())
    assert found is not None
    assert (found.text, found.left, found.batches) == ("batch 1 of 7", None, 8)


def test_passes_that_are_left_early_or_only_looked_at() -> None:
    ahead, loader = LoopPositions(), (1, "x")
    ahead.announced(1, 100)
    ahead.fetch(loader, None)  # as Keras builds a model
    for turn in range(3):
        ahead.begin(loader)
        for _ in range(10):
            ahead.fetch(loader, None)
        found = ahead.current(())
        assert found is not None
        assert found.text == f"batch 10 of {100 if not turn else 10}"
    assert found.batches == 30


def test_the_loop_is_that_which_trains() -> None:
    ahead = LoopPositions()
    for loader, batches in ((1, 3), (2, 50)):
        ahead.announced(loader, 60)
        for _ in range(batches):
            ahead.fetch((loader, "x"), None)
    ahead.trains((1, "x"))
    found = ahead.current(())
    assert found is not None and found.text == "batch 3 of 60"
