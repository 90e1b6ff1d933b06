"""Activations are computed again on the way back."""
from time import perf_counter

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Net(forward=0.004, out=8), Net(backward=0.002)

    def forward(self, x):
        return self.second(checkpoint(self.first, x, use_reentrant=False))


model = Deep()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
began = perf_counter()
for x, y in DataLoader(Rows(80), 4):  #: io pace
    loss = (model(x) - y).pow(2).mean()  #: forward
    optimizer.zero_grad()
    loss.backward()  #: backward forward?
    optimizer.step()  #: optimizer
seconds = perf_counter() - began
naps = {"forward": 0.004, "backward": 0.006}
tell(
    dict(steps=20, items=[4] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
    verdict="compute-bound",
)
