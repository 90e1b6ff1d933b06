"""The training set, through the same loader, also tells how good the model is."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        for x, y in loader:  #: eval
            error = (model(x) - y).abs().mean()  #: eval
    return error.item()


def main():
    model = Net(forward=0.004, backward=0.002)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Rows(40, nap=0.004), 4, shuffle=True)
    seconds = evaluating = 0.0
    for epoch in range(2):
        model.train()
        began = perf_counter()
        for x, y in loader:  #: io pace
            loss = (model(x) - y).pow(2).mean()  #: forward
            optimizer.zero_grad()
            loss.backward()  #: backward
            optimizer.step()  #: optimizer
        seconds += perf_counter() - began
        began = perf_counter()
        print(epoch, accuracy(model, loader))
        evaluating += perf_counter() - began
    naps = {"io": 0.016, "forward": 0.004, "backward": 0.002}
    tell(
        dict(steps=20, items=[4] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
        evaluation=dict(passes=2, batches=20, items=80, seconds=evaluating, least=0.4),
        verdict="input-bound",
    )


main()
