"""A model of many small layers: ``layered.py FILE LAYERS STEPS`` writes CPU seconds of a step."""

import json
import sys
import time

import torch
from torch import nn


def main():
    file, layers, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(8, 8) for _ in range(layers)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    batch = torch.ones(4, 8)
    seconds = []
    for _ in range(steps):
        begin = time.process_time()  # backward may work in a thread of its own
        net(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.process_time() - begin)
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(seconds, stream)


if __name__ == "__main__":
    main()
