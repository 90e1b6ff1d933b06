"""The first step takes very long (caches, compilers), all others compute."""
import time
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def prepare():
    time.sleep(0.5)


model = Net(forward=0.008, backward=0.008)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
began = perf_counter()
for i, (x, y) in enumerate(DataLoader(Rows(80), 4)):  #: io pace
    if i == 0:
        prepare()
    loss = (model(x) - y).pow(2).mean()  #: forward
    optimizer.zero_grad()
    loss.backward()  #: backward
    optimizer.step()  #: optimizer
seconds = perf_counter() - began
naps = {"forward": 0.008, "backward": 0.008}
tell(
    dict(steps=20, items=[4] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
    verdict="compute-bound or balanced",
    warmup=1,
    slowest=0.5,
)
