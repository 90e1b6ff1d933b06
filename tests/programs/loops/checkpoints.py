"""A checkpoint between two epochs."""
import os
import tempfile
import time
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def save(model, optimizer, folder):
    file = os.path.join(folder, "last.pt")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    time.sleep(0.25)  # a slow disk


def main():
    model = Net(forward=0.006, backward=0.006)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = DataLoader(Rows(40), 4)
    seconds = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(3):
            began = perf_counter()
            for x, y in loader:  #: io pace
                loss = (model(x) - y).pow(2).mean()  #: forward
                optimizer.zero_grad()
                loss.backward()  #: backward
                optimizer.step()  #: optimizer
            seconds += perf_counter() - began
            save(model, optimizer, folder)
    naps = {"forward": 0.006, "backward": 0.006}
    tell(
        dict(steps=30, items=[4] * 30, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
        verdict="compute-bound",
        gaps=0.5,
    )


main()
