"""Validation before training, to see that it works, and after each epoch."""
import time
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell

model = Net(forward=0.006, backward=0.006)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
train, valid = DataLoader(Rows(40), 4), DataLoader(Rows(16), 4)


def check(batches=None):
    began = perf_counter()
    model.eval()
    with torch.no_grad():
        for i, (x, y) in enumerate(valid):  #: eval
            if i == batches:
                break
            error = (model(x) - y).abs().mean().item()  #: eval
        time.sleep(0.02)  # metrics
    model.train()
    print(error)
    return perf_counter() - began


evaluating = check(batches=2)
seconds = 0.0
for epoch in range(2):
    began = perf_counter()
    for x, y in train:  #: io pace
        loss = (model(x) - y).pow(2).mean()  #: forward
        optimizer.zero_grad()
        loss.backward()  #: backward
        optimizer.step()  #: optimizer
    seconds += perf_counter() - began
    evaluating += check()
naps = {"forward": 0.006, "backward": 0.006}
tell(
    dict(steps=20, items=[4] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
    evaluation=dict(passes=3, batches=None, items=40, seconds=evaluating, least=0.06),
    verdict="compute-bound",
)
