"""Validation after every epoch, and a test at the end."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def train_one_epoch(model, loader, optimizer):
    model.train()
    for x, y in loader:  #: io pace
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)  #: forward
        loss.backward()  #: backward
        optimizer.step()  #: optimizer


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total = 0.0
    for x, y in loader:  #: eval
        total += torch.nn.functional.mse_loss(model(x), y, reduction="sum").item()  #: eval
    return total / len(loader.dataset)


def main():
    model = Net(forward=0.005, backward=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train, valid, test = DataLoader(Rows(32), 4, shuffle=True), DataLoader(Rows(12), 4), DataLoader(Rows(6), 2)
    seconds = evaluating = 0.0
    for epoch in range(3):
        began = perf_counter()
        train_one_epoch(model, train, optimizer)
        seconds += perf_counter() - began
        began = perf_counter()
        print(epoch, evaluate(model, valid))
        evaluating += perf_counter() - began
    began = perf_counter()
    print("test", evaluate(model, test))
    evaluating += perf_counter() - began
    naps = {"forward": 0.005, "backward": 0.01}
    tell(
        dict(steps=24, items=[4] * 24, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
        evaluation=dict(passes=4, batches=12, items=42, seconds=evaluating, least=0.06),
        verdict="compute-bound",
    )


main()
