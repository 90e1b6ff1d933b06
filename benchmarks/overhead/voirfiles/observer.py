"""Observes a loop under voir in the manner of milabench: its loader is wrapped, its loss is probed.

Each turn reports how far the loop is; rates and losses are reported when the loop ends. Runs under voir.
"""

import time
from collections.abc import Sized

from giving import give
from voir.instruments import log


class Observed:
    """A loader whose turns are timed."""

    def __init__(self, loader, losses):
        self.loader, self.losses, self.turns = loader, losses, []

    def __iter__(self):
        total = len(self.loader) if isinstance(self.loader, Sized) else 0
        begin = time.perf_counter()
        for number, batch in enumerate(self.loader):
            yield batch
            end = time.perf_counter()
            self.turns.append((begin, end, len(batch)))
            give(task="train", progress=(number + 1, total))
            begin = time.perf_counter()
        self.push()

    def push(self):
        for begin, end, size in self.turns:
            give(task="train", rate=size / (end - begin), units="items/s", time=end)
        for loss in self.losses:
            give(task="train", loss=float(loss))
        self.turns.clear()
        self.losses.clear()


def instrument_observer(ov):
    yield ov.phases.init
    ov.require(log("rate", "loss", "progress", "units", "time", "+task"))
    yield ov.phases.load_script
    losses = []
    loaders = ov.probe("//train > batches", overridable=True)
    loaders["batches"].override(lambda loader: Observed(loader, losses))
    ov.probe("//train > loss")["loss"].subscribe(lambda loss: losses.append(loss.detach()))
