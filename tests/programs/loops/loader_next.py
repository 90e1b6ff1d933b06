"""`while True` over an iterator that is begun anew when it ends."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def main(steps=25):
    loader = DataLoader(Rows(30, nap=0.004), batch_size=5)
    model = Net(forward=0.002)
    optimizer = torch.optim.AdamW(model.parameters())
    batches = iter(loader)
    step = 0
    began = perf_counter()
    while True:
        try:
            x, y = next(batches)  #: io pace
        except StopIteration:
            batches = iter(loader)
            continue
        loss = (model(x) - y).abs().mean()  #: forward
        loss.backward()  #: backward
        optimizer.step()  #: optimizer
        optimizer.zero_grad()
        step += 1
        if step == steps:
            break
    seconds = perf_counter() - began
    naps = {"io": 0.02, "forward": 0.002}
    tell(
        dict(steps=steps, items=[5] * steps, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
        verdict="input-bound",
    )


main()
