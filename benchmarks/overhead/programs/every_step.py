"""``every_step.py COUNT MICROSECONDS``: a training loop of so many steps, each at least that long."""

import sys
from time import perf_counter_ns as clock

import torch
from torch.utils.data import DataLoader, Dataset


class Batches(Dataset):
    def __init__(self, count, batch):
        self.count, self.batch = count, batch

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.batch


def until(end):
    while clock() < end:
        pass


def train(model, optimizer, dataset, length):
    batches = DataLoader(dataset, batch_size=None)
    end = clock()
    for batch in batches:
        end = max(end, clock() - length) + length
        optimizer.zero_grad()
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        until(end)


def main(train):
    torch.set_num_threads(1)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    count, microseconds = int(sys.argv[1]), float(sys.argv[2])
    train(model, optimizer, Batches(count, torch.randn(4, 8)), int(1e3 * microseconds))


if __name__ == "__main__":
    main(train)
