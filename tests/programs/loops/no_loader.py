"""No loader: batches are made on the spot."""
from time import perf_counter

import torch

from parts import Net, tell


def main():
    model = Net(forward=0.012, backward=0.012)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = perf_counter()
    for step in range(24):
        x = torch.randn(32, 8)
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()  #: forward
        loss.backward()  #: backward
        optimizer.step()  #: optimizer pace
    seconds = perf_counter() - began
    naps = {"forward": 0.012, "backward": 0.012}
    tell(
        dict(steps=24, items=[32] * 24, fetches=0, updates=1, seconds=seconds, naps=naps, paced="optimizer"),
        verdict="compute-bound",
    )


if __name__ == "__main__":
    main()
