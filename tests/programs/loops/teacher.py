"""Distillation: a frozen teacher answers for every batch of training."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def main():
    teacher, student = Net(forward=0.008).eval(), Net(forward=0.004, backward=0.004)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
    began = perf_counter()
    for epoch in range(2):
        for x, _ in DataLoader(Rows(40), 4):  #: io pace
            with torch.no_grad():
                target = teacher(x)  #: forward
            loss = (student(x) - target).pow(2).mean()  #: forward
            optimizer.zero_grad()
            loss.backward()  #: backward
            optimizer.step()  #: optimizer
    seconds = perf_counter() - began
    naps = {"forward": 0.012, "backward": 0.004}
    tell(
        dict(steps=20, items=[4] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
        verdict="compute-bound",
    )


main()
