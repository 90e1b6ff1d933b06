"""``train_counted.py LIBRARY STEPS``: a small loop of PyTorch, of which callgrind counts STEPS steps.

Layers of 16, 16 and 10, batches of 8, SGD, one thread. The loop runs twice, and is counted the second time:
what happens at the first of its calls is over by then.
"""

import ctypes
import gc
import sys

import torch


def train(batches, model, optimizer, loss_of):
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    library, steps = ctypes.CDLL(sys.argv[1]), int(sys.argv[2])
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(8, 16), torch.randint(0, 10, (8,))
    arguments = [batch] * steps, model, optimizer, torch.nn.functional.cross_entropy
    train(*arguments)
    gc.collect()
    gc.freeze()
    library.begin()
    train(*arguments)
    library.end()


if __name__ == "__main__":
    main()
