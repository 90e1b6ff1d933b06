"""``submodules.py FILE CALLS REPEATS``: what a submodule's call costs, in a model of 300 that do nothing.

Writes nanoseconds of thread CPU a submodule into FILE, as a JSON list: a model of 300 less a model of one.
"""

import json
import sys
import time

import torch

COUNT = 300


class Part(torch.nn.Module):
    def forward(self, x):
        return x


def calls(model, x, count):
    begin = time.thread_time_ns()
    for _ in range(count):
        model(x)
    return (time.thread_time_ns() - begin) / count


def main():
    torch.set_num_threads(1)
    file, count, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    x = torch.randn(4, 8)
    one, many = (torch.nn.Sequential(*(Part() for _ in range(n))) for n in (1, COUNT))
    found = []
    for _ in range(repeats + 1):
        alone = calls(one, x, count)
        found.append((calls(many, x, count) - alone) / (COUNT - 1))
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(found[1:], stream)


if __name__ == "__main__":
    main()
