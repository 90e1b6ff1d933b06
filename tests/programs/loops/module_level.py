"""Everything at module level, rows cut out of one tensor."""
from time import perf_counter

import torch
from torch import nn

from parts import Slow, tell

model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = Slow(model.parameters(), nap=0.01)
x = torch.randn(64, 8)
y = x.sum(1, keepdim=True)
began = perf_counter()
for epoch in range(3):
    order = torch.randperm(64)
    for start in range(0, 64, 8):
        rows = order[start : start + 8]
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])  #: forward
        optimizer.zero_grad()
        loss.backward()  #: backward
        optimizer.step()  #: optimizer pace
    print(epoch, float(loss))
seconds = perf_counter() - began
tell(
    dict(steps=24, items=[8] * 24, fetches=0, updates=1, seconds=seconds, naps={"optimizer": 0.01}, paced="optimizer"),
    verdict="compute-bound",
)
