"""Most of a step goes into metrics and printing, which no region of training is."""
import time
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def metrics(out, y):
    time.sleep(0.02)
    return (out - y).abs().mean().item()


model = Net(forward=0.002, backward=0.002)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
began = perf_counter()
for x, y in DataLoader(Rows(80), 4):  #: io pace
    out = model(x)  #: forward
    loss = (out - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()  #: backward
    optimizer.step()  #: optimizer
    print(metrics(out.detach(), y))
seconds = perf_counter() - began
naps = {"forward": 0.002, "backward": 0.002, "wait": 0.02}
tell(
    dict(steps=20, items=[4] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
    verdict="overhead-bound",
)
