"""LBFGS evaluates a closure several times for each update."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def main():
    model = Net(forward=0.002, backward=0.002)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    began = perf_counter()
    for x, y in DataLoader(Rows(80), 8):  #: io pace

        def closure():
            optimizer.zero_grad()
            loss = (model(x) - y).pow(2).mean()  #: forward
            loss.backward()  #: backward
            return loss

        optimizer.step(closure)  #: optimizer
    seconds = perf_counter() - began
    tell(
        dict(steps=10, items=[8] * 10, fetches=1, updates=1, seconds=seconds, naps={"optimizer": 0.004}, paced="loader"),
        verdict="compute-bound",
    )


main()
