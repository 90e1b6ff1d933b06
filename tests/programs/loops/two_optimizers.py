"""Two optimizers of one model, both in every turn."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell

model = Net(forward=0.01, backward=0.01)
first = torch.optim.SGD(model.body[0].parameters(), lr=0.01)
second = torch.optim.Adam(model.body[2].parameters())
began = perf_counter()
for x, y in DataLoader(Rows(100), batch_size=5):  #: io pace
    first.zero_grad()
    second.zero_grad()
    loss = (model(x) - y).pow(2).mean()  #: forward
    loss.backward()  #: backward
    for optimizer in (first, second):
        optimizer.step()  #: optimizer
seconds = perf_counter() - began
naps = {"forward": 0.01, "backward": 0.01}
tell(
    dict(steps=20, items=[5] * 20, fetches=1, updates=2, seconds=seconds, naps=naps, paced="loader"),
    verdict="compute-bound",
)
