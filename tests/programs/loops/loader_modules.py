"""A loader whose transforms are modules: they are part of reading, not of the model's work."""
from time import perf_counter, sleep

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


class Center(nn.Module):
    """A transform of one row, as libraries write them; it takes its time."""

    def forward(self, x):
        sleep(0.004)
        return x - x.mean(-1, keepdim=True)


class Augmented(Rows):
    def __init__(self, count):
        super().__init__(count)
        # One of them has parts, as a model has.
        self.transforms = [nn.Sequential(Center()), nn.Identity()]

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        for transform in self.transforms:
            x = transform(x.view(1, -1)).view(-1)
        return x, y


loader = DataLoader(Augmented(60), batch_size=3)
model = Net(forward=0.002, backward=0.002)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
began = perf_counter()
for x, y in loader:  #: io pace
    loss = (model(x) - y).pow(2).mean()  #: forward
    optimizer.zero_grad()
    loss.backward()  #: backward
    optimizer.step()  #: optimizer
seconds = perf_counter() - began
naps = {"io": 0.012, "forward": 0.002, "backward": 0.002}
tell(
    dict(steps=20, items=[3] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
    verdict="input-bound",
)
