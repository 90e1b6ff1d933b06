"""Two threads train a model each."""
import threading
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def train(seconds, steps):
    model = Net(forward=0.005, backward=0.005)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = perf_counter()
    for x, y in DataLoader(Rows(4 * steps), 4):  #: io pace
        loss = (model(x) - y).pow(2).mean()  #: forward
        optimizer.zero_grad()
        loss.backward()  #: backward
        optimizer.step()  #: optimizer
    seconds.append(perf_counter() - began)


found = []
threads = [threading.Thread(target=train, args=(found, steps)) for steps in (30, 15)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
naps = {"forward": 0.005, "backward": 0.005}
tell(
    dict(steps=30, items=[4] * 30, fetches=1, updates=1, seconds=max(found), naps=naps, paced="loader", tracks=[30, 15]),
    verdict=None,
)
