"""Lightning under its older name says the same; what it says is tested in test_lightning.py."""

from __future__ import annotations

import inspect

from injector.voirfiles import lightning, pytorch_lightning


def test_it_follows_the_same_functions():
    asked = {"lightning.pytorch": [], "pytorch_lightning": []}

    class Overseer:
        def __init__(self, into):
            self.into = into

        def region(self, where, name, **_):
            self.into.append((where, name))

        value = region_of = lambda self, where, name=None, **_: self.into.append((where, name))

    lightning.instrument_trainer(Overseer(asked["lightning.pytorch"]))
    pytorch_lightning.instrument_trainer(Overseer(asked["pytorch_lightning"]))
    renamed = [
        (where.replace("/lightning.pytorch.", "/pytorch_lightning."), name)
        for where, name in asked["lightning.pytorch"]
    ]
    assert renamed == asked["pytorch_lightning"]
    assert pytorch_lightning.TESTED == lightning.TESTED


def test_nothing_is_asked_twice():
    names = [name for name, _ in inspect.getmembers(pytorch_lightning, inspect.isfunction)]
    assert [name for name in names if name.startswith("instrument_")] == [
        "instrument_fabric",
        "instrument_trainer",
    ]
