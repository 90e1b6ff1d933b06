"""A loop that computes, with a smaller last batch."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell

model = Net(forward=0.015, backward=0.015)
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(Rows(38), batch_size=4)
criterion = torch.nn.MSELoss()
items = []
began = perf_counter()
for epoch in range(2):
    for i, (x, y) in enumerate(loader):  #: io pace
        optimizer.zero_grad(set_to_none=True)
        out = model(x)  #: forward
        loss = criterion(out, y)
        loss.backward()  #: backward
        optimizer.step()  #: optimizer
        items.append(len(x))
seconds = perf_counter() - began
naps = {"forward": 0.015, "backward": 0.015}
tell(
    dict(steps=20, items=items, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
    verdict="compute-bound",
)
