"""A stream of unknown length."""
import time
from time import perf_counter

import torch
from torch.utils.data import DataLoader, IterableDataset

from parts import Net, tell


class Stream(IterableDataset):
    def __iter__(self):
        for n in range(70):
            time.sleep(0.003)
            x = torch.full((8,), float(n))
            yield x, x.sum(0, keepdim=True)


model = Net(forward=0.002)
optimizer = torch.optim.Adagrad(model.parameters())
items = []
began = perf_counter()
for x, y in DataLoader(Stream(), batch_size=4):  #: io pace
    loss = (model(x) - y).pow(2).mean()  #: forward
    optimizer.zero_grad()
    loss.backward()  #: backward
    optimizer.step()  #: optimizer
    items.append(len(x))
seconds = perf_counter() - began
naps = {"io": 0.006, "forward": 0.002}
tell(
    dict(steps=18, items=items, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
    verdict="input-bound",
)
