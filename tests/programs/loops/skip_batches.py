"""Every fourth batch is bad and left out."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell

loader = DataLoader(Rows(96, nap=0.002), batch_size=4)
model = Net(forward=0.002)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
began = perf_counter()
for i, (x, y) in enumerate(loader):  #: io pace
    if i % 4 == 1:
        continue
    loss = (model(x) - y).pow(2).mean()  #: forward
    optimizer.zero_grad()
    loss.backward()  #: backward
    optimizer.step()  #: optimizer
seconds = perf_counter() - began
naps = {"io": 0.008, "forward": 0.002}
tell(
    dict(steps=18, items=[4] * 18, fetches=24 / 18, updates=1, seconds=seconds, naps=naps, paced="loader"),
    verdict="input-bound",
)
