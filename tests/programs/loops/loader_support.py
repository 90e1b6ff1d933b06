"""A loader inside a loader: the inner one only feeds the loss of the outer one's step."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def main():
    queries = DataLoader(Rows(60, nap=0.001), batch_size=4)
    support = DataLoader(Rows(6, nap=0.004), batch_size=2)
    model = Net(backward=0.002)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = perf_counter()
    for x, y in queries:  #: io pace
        loss = (model(x) - y).pow(2).mean()  #: forward
        for a, b in support:  #: io
            loss = loss + (model.body(a) - b).pow(2).mean()  #: forward
        optimizer.zero_grad()
        loss.backward()  #: backward
        optimizer.step()  #: optimizer
    seconds = perf_counter() - began
    naps = {"io": 0.004 + 0.024, "backward": 0.002}
    tell(
        dict(steps=15, items=None, fetches=None, updates=1, seconds=seconds, naps=naps, paced="loader"),
        verdict="input-bound",
    )


main()
