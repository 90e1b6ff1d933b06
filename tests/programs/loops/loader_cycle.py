"""An endless generator around the loader; a number of steps instead of epochs."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def cycle(loader):
    while True:
        for batch in loader:  #: io pace
            yield batch


batches = cycle(DataLoader(Rows(20), batch_size=4, shuffle=True))
model = Net(forward=0.012, backward=0.012)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 22)
began = perf_counter()
for step in range(22):
    x, y = next(batches)
    optimizer.zero_grad()
    loss = (model(x) - y).pow(2).mean()  #: forward
    loss.backward()  #: backward
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()  #: optimizer
    scheduler.step()
seconds = perf_counter() - began
naps = {"forward": 0.012, "backward": 0.012}
tell(
    dict(steps=22, items=[4] * 22, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
    verdict="compute-bound",
)
