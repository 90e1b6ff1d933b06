"""A loader inside a generator of the program's own."""
import sys
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def progress(iterable, every=5):
    total = len(iterable)
    for n, item in enumerate(iterable, 1):  #: io pace
        yield item
        if n % every == 0:
            print(f"\r{n}/{total}", end="", file=sys.stderr)


class Experiment:
    def __init__(self):
        self.model = Net(forward=0.003, backward=0.003)
        self.optimizer = torch.optim.RMSprop(self.model.parameters())
        self.loader = DataLoader(Rows(60, nap=0.005), batch_size=3, drop_last=True)

    def run(self):
        for x, y in progress(self.loader):
            self.optimizer.zero_grad()
            loss = torch.nn.functional.l1_loss(self.model(x), y)  #: forward
            loss.backward()  #: backward
            self.optimizer.step()  #: optimizer


experiment = Experiment()
began = perf_counter()
experiment.run()
seconds = perf_counter() - began
naps = {"io": 0.015, "forward": 0.003, "backward": 0.003}
tell(
    dict(steps=20, items=[3] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
    verdict="input-bound",
)
