"""Validation by people who forget one half of it: `model.eval()` or `torch.no_grad()`."""
import contextlib
import sys
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def validate(model, loader, mode):
    if mode == "eval":
        model.eval()
    with torch.no_grad() if mode == "no_grad" else contextlib.nullcontext():
        for x, y in loader:  #: eval
            error = (model(x) - y).pow(2).mean().item()  #: eval
    model.train()
    return error


def main(mode):
    model = Net(forward=0.006, backward=0.006)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train, valid = DataLoader(Rows(40), 4), DataLoader(Rows(12), 3)
    seconds = evaluating = 0.0
    for epoch in range(2):
        began = perf_counter()
        for x, y in train:  #: io pace
            loss = (model(x) - y).pow(2).mean()  #: forward
            optimizer.zero_grad()
            loss.backward()  #: backward
            optimizer.step()  #: optimizer
        seconds += perf_counter() - began
        began = perf_counter()
        print(epoch, validate(model, valid, mode))
        evaluating += perf_counter() - began
    naps = {"forward": 0.006, "backward": 0.006}
    tell(
        dict(steps=20, items=[4] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
        evaluation=dict(passes=2, batches=8, items=24, seconds=evaluating, least=0.048),
        verdict="compute-bound",
    )


main(sys.argv[1])
