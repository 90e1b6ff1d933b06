"""Two loaders side by side, labelled and unlabelled."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell

labelled = DataLoader(Rows(32, nap=0.002), batch_size=2)
unlabelled = DataLoader(Rows(128, nap=0.002), batch_size=6)
model = Net(forward=0.002, backward=0.002)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
began = perf_counter()
for (x, y), (u, _) in zip(labelled, unlabelled):  #: io pace
    out = model(torch.cat([x, u]))  #: forward
    loss = (out[: len(x)] - y).pow(2).mean() + out[len(x) :].var()
    optimizer.zero_grad()
    loss.backward()  #: backward
    optimizer.step()  #: optimizer
seconds = perf_counter() - began
naps = {"io": 0.016, "forward": 0.002, "backward": 0.002}
tell(
    dict(steps=16, items=[8] * 16, fetches=None, updates=1, seconds=seconds, naps=naps, paced="loader"),
    verdict="input-bound",
)
