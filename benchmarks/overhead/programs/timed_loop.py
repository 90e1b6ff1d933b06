"""A training loop with a clock between all of its parts.

``timed_loop.py MICROSECONDS COUNT FILE``: COUNT steps that last at least MICROSECONDS each; the clock's
readings go into FILE, six whole numbers of nanoseconds for each step.
"""

import sys
from array import array
from time import perf_counter_ns as clock

import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
SHARES = {"io": 0.22, "forward": 0.28, "backward": 0.36, "optimizer": 0.13}


def spin(nanoseconds):
    end = clock() + nanoseconds
    while clock() < end:
        pass


class Batches(Dataset):
    def __init__(self, count, nap):
        self.count, self.nap, self.batch = count, nap, torch.randn(4, 8)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        spin(self.nap)
        return self.batch


class Lull(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, nap):
        ctx.nap = nap
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        spin(ctx.nap)
        return grad, None


class Net(torch.nn.Module):
    def __init__(self, forward, backward):
        super().__init__()
        self.line = torch.nn.Linear(8, 1)
        self.naps = forward, backward

    def forward(self, x):
        forward, backward = self.naps
        spin(forward)
        x = self.line(x)
        return Lull.apply(x, backward) if backward else x


class Slow(torch.optim.SGD):
    nap = 0

    def step(self, closure=None):
        spin(self.nap)
        return super().step(closure)


def main(microseconds, count, file):
    # A step of 70 µs is torch alone; in longer ones the parts have known sizes.
    naps = {k: int(v * microseconds * 1e3) if microseconds > 100 else 0 for k, v in SHARES.items()}
    model = Net(naps["forward"], naps["backward"])
    optimizer = (Slow if naps["optimizer"] else torch.optim.SGD)(model.parameters(), lr=0.001)
    Slow.nap = naps["optimizer"]
    batches = iter(DataLoader(Batches(count, naps["io"]), batch_size=None))
    stamps = array("q")
    add = stamps.extend
    for _ in range(count):
        begin = clock()
        batch = next(batches)
        fetched = clock()
        out = model(batch)
        forward = clock()
        loss = out.sum()
        optimizer.zero_grad()
        before = clock()
        loss.backward()
        backward = clock()
        optimizer.step()
        add((begin, fetched, forward, before, backward, clock()))
    with open(file, "wb") as stream:
        stamps.tofile(stream)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
