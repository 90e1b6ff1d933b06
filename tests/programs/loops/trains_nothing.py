"""Uses torch and trains nothing: `numbers` only computes, `inference` runs a model over a loader."""
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
        for x, _ in DataLoader(Rows(30), 3):  #: eval
            print(model(x).sum().item())  #: eval
    seconds = perf_counter() - began
    tell(evaluation=dict(passes=1, batches=10, items=30, seconds=seconds, least=0.1), verdict="none")


globals()[sys.argv[1]]()
