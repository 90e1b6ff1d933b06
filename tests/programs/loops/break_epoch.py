"""Each epoch is left early; what comes between epochs takes long."""
import time
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def report(epoch):
    time.sleep(0.3)  # a table, a plot, a file
    print("epoch", epoch)


def main():
    loader = DataLoader(Rows(400), batch_size=4)
    model = Net(forward=0.008, backward=0.008)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seconds = 0.0
    for epoch in range(3):
        began = perf_counter()
        for i, (x, y) in enumerate(loader):  #: io pace
            loss = (model(x) - y).pow(2).mean()  #: forward
            optimizer.zero_grad()
            loss.backward()  #: backward
            optimizer.step()  #: optimizer
            if i == 6:
                break
        seconds += perf_counter() - began
        report(epoch)
    naps = {"forward": 0.008, "backward": 0.008}
    tell(
        dict(steps=21, items=[4] * 21, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
        verdict="compute-bound",
        gaps=0.6,
    )


main()
