"""Two worker processes that are too slow together; `keep` keeps them between epochs."""
import sys
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def main(keep):
    loader = DataLoader(Rows(40, nap=0.015), 4, num_workers=2, persistent_workers=keep)
    model = Net(forward=0.001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = perf_counter()
    for epoch in range(2):
        for x, y in loader:  #: io pace
            loss = (model(x) - y).pow(2).mean()  #: forward
            optimizer.zero_grad()
            loss.backward()  #: backward
            optimizer.step()  #: optimizer
    seconds = perf_counter() - began
    naps = {"forward": 0.001}
    tell(
        dict(steps=20, items=[4] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
        verdict="input-bound",
    )


if __name__ == "__main__":
    main("keep" in sys.argv)
