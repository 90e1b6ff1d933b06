"""A compiled model: the first step takes as long as many others."""
from time import perf_counter

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Rows, tell

model = torch.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)), backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
began = perf_counter()
for x, y in DataLoader(Rows(100, nap=0.002), 4):  #: io pace
    loss = nn.functional.mse_loss(model(x), y)  #: forward
    optimizer.zero_grad()
    loss.backward()  #: backward
    optimizer.step()  #: optimizer
seconds = perf_counter() - began
tell(
    dict(steps=25, items=[4] * 25, fetches=1, updates=1, seconds=seconds, naps={"io": 0.008}, paced="loader"),
    verdict="input-bound",
    warmup=1,
)
