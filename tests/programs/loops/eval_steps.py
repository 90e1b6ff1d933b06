"""Validation every five steps, in the middle of the training loop."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def main():
    model = Net(forward=0.006, backward=0.006)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train, valid = DataLoader(Rows(80), 4), DataLoader(Rows(20), 5)
    evaluating = 0.0
    began = perf_counter()
    for step, (x, y) in enumerate(train, 1):  #: io pace
        model.train()
        loss = (model(x) - y).pow(2).mean()  #: forward
        optimizer.zero_grad()
        loss.backward()  #: backward
        optimizer.step()  #: optimizer
        if step % 5 == 0:
            now = perf_counter()
            model.eval()
            with torch.no_grad():
                errors = [(model(a) - b).abs().mean().item() for a, b in valid]  #: eval
            print(step, sum(errors) / len(errors))
            evaluating += perf_counter() - now
    seconds = perf_counter() - began - evaluating
    naps = {"forward": 0.006, "backward": 0.006}
    tell(
        dict(steps=20, items=[4] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
        evaluation=dict(passes=4, batches=16, items=80, seconds=evaluating, least=0.096, inside=True),
        verdict="compute-bound",
    )


main()
