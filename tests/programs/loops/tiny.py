"""Very many very short steps."""
import sys
from time import perf_counter

import torch

from parts import tell


def main(steps):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(2, 4)
    began = perf_counter()
    for step in range(steps):
        loss = model(x).sum()  #: forward
        optimizer.zero_grad()
        loss.backward()  #: backward
        optimizer.step()  #: optimizer pace
    seconds = perf_counter() - began
    tell(
        dict(steps=steps, items=[2] * steps, fetches=0, updates=1, seconds=seconds, naps={}, paced="optimizer"),
        verdict=None,
    )


main(int(sys.argv[1]))
