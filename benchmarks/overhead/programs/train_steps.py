"""Training loops of four lengths of step, each beside a twin of the same text that no tool knows of.

``train_steps.py FILE PART [MICROSECONDS ...]`` writes JSON into FILE: for each length, blocks of four
numbers, nanoseconds a step: the twin's thread CPU and wall clock, the loop's thread CPU and wall clock.
PART (1: everything) shortens the blocks. Variants of this program replace ``train`` and ``around``.
"""

import gc
import json
import sys
import time
from contextlib import nullcontext

import torch
from torch.utils.data import DataLoader, Dataset

# Microseconds: width and batch of the model that takes about so long, steps of a block, blocks.
LENGTHS = {
    70: (8, 4, 1000, 7),
    500: (256, 64, 300, 5),
    5_000: (896, 128, 40, 5),
    30_000: (2048, 160, 8, 5),
}


class Batches(Dataset):
    def __init__(self, count, batch):
        self.count, self.batch = count, batch

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.batch


def train(model, optimizer, dataset):
    batches = DataLoader(dataset, batch_size=None)
    for batch in batches:
        optimizer.zero_grad()
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()


def plain_train(model, optimizer, dataset):
    batches = DataLoader(dataset, batch_size=None)
    for batch in batches:
        optimizer.zero_grad()
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()


around = nullcontext
"""What a tool wants to have around a loop; entering and leaving it is not timed."""


def timed(function, model, optimizer, dataset):
    gc.collect()
    wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
    function(model, optimizer, dataset)
    cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
    return cpu / len(dataset), wall / len(dataset)


def measure(length, part):
    width, size, count, blocks = LENGTHS[length]
    dataset = Batches(max(int(count * part), 2), torch.randn(size, width))
    layers = torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)
    model = torch.nn.Sequential(*layers) if length > 100 else layers[2]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    train(model, optimizer, Batches(3, dataset.batch))
    plain_train(model, optimizer, Batches(3, dataset.batch))
    found = []
    for _ in range(max(int(blocks * part), 1)):
        without = timed(plain_train, model, optimizer, dataset)
        with around():
            found.append(without + timed(train, model, optimizer, dataset))
    return found


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    file, part, *lengths = sys.argv[1:]
    wanted = [int(length) for length in lengths] or list(LENGTHS)
    found = {length: measure(length, float(part)) for length in wanted}
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(found, stream)


if __name__ == "__main__":
    main()
