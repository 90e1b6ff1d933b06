"""Mixed precision: autocast and a scaler of gradients."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell

model = Net(forward=0.008, backward=0.008)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
began = perf_counter()
for x, y in DataLoader(Rows(80), 4):  #: io pace
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (model(x) - y).pow(2).mean()  #: forward
    scaler.scale(loss).backward()  #: backward
    scaler.step(optimizer)  #: optimizer
    scaler.update()
seconds = perf_counter() - began
naps = {"forward": 0.008, "backward": 0.008}
tell(
    dict(steps=20, items=[4] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
    verdict="compute-bound",
)
