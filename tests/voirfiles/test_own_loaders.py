"""``ov.loader`` on all that a loop can draw from: each kind of iterable in each kind of loop."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import pytest

from injector.analysis.summary import summarise
from injector.store.folder import open_run

pytest.importorskip("torch")

HEAD = '''
import collections
import torch
from torch import nn

ROWS = [torch.randn(4, 8) for _ in range(6)]


class Own:
    def __iter__(self):
        self.at = 0
        return self

    def __next__(self):
        if self.at == len(ROWS):
            raise StopIteration
        self.at += 1
        return ROWS[self.at - 1]


class Yields:
    def __iter__(self):
        yield from ROWS


class Indexed:
    def __getitem__(self, i):
        return ROWS[i]


class Iterator:
    __slots__ = ("rest",)

    def __init__(self):
        self.rest = iter(ROWS)

    def __iter__(self):
        return self

    def __next__(self):
        return {"x": next(self.rest), "n": 1}


class Meta(type):
    def __call__(cls, *args):
        return super().__call__(*args)


class Dataset(metaclass=Meta):
    """Slots alone, attributes by name, methods that give others of its kind, as tf.data has."""

    __slots__ = ("rows",)

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return Iterator()

    def __getattr__(self, name):
        raise AttributeError(name)

    def take(self, n):
        return type(self)(self.rows[:n])


def generate():
    yield from ROWS


MAKE = {
    "list": lambda: list(ROWS),
    "tuple": lambda: tuple(ROWS),
    "generator": generate,
    "own": Own,
    "yields": Yields,
    "indexed": Indexed,
    "dataset": lambda: Dataset(ROWS),
    "map": lambda: map(lambda x: x, ROWS),
    "deque": lambda: collections.deque(ROWS),
    "array": lambda: torch.stack(ROWS),
}

'''
KINDS = [
    "list",
    "tuple",
    "generator",
    "own",
    "yields",
    "indexed",
    "dataset",
    "map",
    "deque",
    "array",
]
LOOP = """

def {kind}_{together}():
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = MAKE["{kind}"]()
    for number, batch in enumerate(loader):
        x = batch["x"] if isinstance(batch, dict) else batch
        model(x).sum().backward()
        if number % {together} == {together} - 1:
            optimizer.step()
            optimizer.zero_grad()
    print("{kind}", {together}, number + 1)


{kind}_{together}()
"""


def test_each_turn_is_a_step_of_its_items(run, tmp_path):
    """Also where gradients are accumulated: the voirfile marks the turns of the loop."""
    program, voirfile = HEAD, "def instrument_loaders(ov):\n"
    for kind, together in product(KINDS, (1, 3)):
        program += LOOP.format(kind=kind, together=together)
        voirfile += f"    ov.loader('//{kind}_{together} > loader')\n"
    (tmp_path / "x.py").write_text(voirfile)
    done = run(program, "--voirfile", str(tmp_path / "x.py"))
    plain = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.out == plain.stdout
    summary = summarise(open_run(done.folder))
    assert summary.warnings == ()
    found = {
        loop.place.function: (loop.steps, loop.items_per_step, loop.fetches_per_step)
        for loop in summary.profile.loops
    }
    wanted = (6, 4, 1)
    assert found == {f"{kind}_{each}": wanted for kind, each in product(KINDS, (1, 3))}
    for loop in summary.profile.loops:
        assert [node.calls for node in loop.tree.children if node.name == "io"] == [1]
