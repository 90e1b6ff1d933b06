"""A thread of the program's own fetches batches ahead."""
import queue
import threading
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def fetch(loader, batches):
    for batch in loader:
        batches.put(batch)
    batches.put(None)


def main():
    batches = queue.Queue(2)
    loader = DataLoader(Rows(80, nap=0.001), 4)
    threading.Thread(target=fetch, args=(loader, batches), daemon=True).start()
    model = Net(forward=0.008, backward=0.008)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = perf_counter()
    while (batch := batches.get()) is not None:
        x, y = batch
        loss = (model(x) - y).pow(2).mean()  #: forward
        optimizer.zero_grad()
        loss.backward()  #: backward
        optimizer.step()  #: optimizer pace
    seconds = perf_counter() - began
    naps = {"forward": 0.008, "backward": 0.008}
    tell(
        dict(steps=20, items=[4] * 20, fetches=0, updates=1, seconds=seconds, naps=naps, paced="optimizer"),
        verdict=None,
    )


main()
