"""Gradients of four batches make an update; `flush` also uses what an epoch leaves over."""
import sys
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def main(flush):
    loader = DataLoader(Rows(88, nap=0.001), batch_size=4)
    model = Net(forward=0.002, backward=0.002)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    items, held = [], 0
    began = perf_counter()
    for epoch in range(2):
        optimizer.zero_grad()
        held = 0
        for i, (x, y) in enumerate(loader):  #: io pace
            loss = (model(x) - y).pow(2).mean() / 4  #: forward
            loss.backward()  #: backward
            held += len(x)
            if (i + 1) % 4 == 0 or flush and i + 1 == len(loader):
                optimizer.step()  #: optimizer
                optimizer.zero_grad()
                items.append(held)
                held = 0
    seconds = perf_counter() - began
    steps = 12 if flush else 10
    fetches = 44 / 12 if flush else 4
    naps = {} if flush else {"io": 0.016, "forward": 0.008, "backward": 0.008}
    tell(
        dict(steps=steps, items=items, fetches=fetches, updates=1, seconds=seconds, naps=naps, paced="loader"),
        verdict="input-bound",
    )


main("flush" in sys.argv)
