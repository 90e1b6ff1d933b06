"""Uses torch and trains nothing: `numbers` only computes, `inference` runs a model over a loader, batch by batch."""
import sys
import time
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def numbers():
    x = torch.randn(64, 64)
    for _ in range(20):
        x = (x @ x).tanh()
        time.sleep(0.005)
    print(x.sum().item())
    tell(verdict="none")


def inference():
    model = Net(forward=0.01).eval()
    began = perf_counter()
    with torch.inference_mode():
        for x, _ in DataLoader(Rows(30), 3):  #: pace io
            print(model(x).sum().item())  #: forward
    seconds = perf_counter() - began
    tell(
        dict(steps=10, items=[3] * 10, fetches=1, updates=0, seconds=seconds, naps={"forward": 0.01}, paced="loader"),
        verdict="compute-bound",
    )


globals()[sys.argv[1]]()
