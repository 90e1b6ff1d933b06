"""The floor: ``region_calls.py`` with two readings of the clock and one append written around each call."""

from collections import deque
from time import perf_counter_ns as clock

import region_calls

keep = deque(maxlen=1000).append
losses = deque(maxlen=1000).append


def fetch(loader):
    start = clock()
    found = loader.batch
    keep((start, clock()))
    return found


def forward(model, batch):
    start = clock()
    found = batch
    keep((start, clock(), batch.shape[0]))
    return found


def backward(loss):
    start = clock()
    losses(loss.item())
    keep((start, clock()))


def update(optimizer):
    start = clock()
    keep((start, clock()))


def timed(iterable):
    draw = iter(iterable).__next__
    try:
        while True:
            start = clock()
            batch = draw()
            fetched = clock()
            yield batch
            keep((start, fetched, clock(), batch.shape[0]))
    except StopIteration:
        return


def walk(n):
    batches = region_calls.Batches(n, region_calls.LOADER.batch)
    for _ in timed(batches):
        pass


if __name__ == "__main__":
    region_calls.walk = walk
    region_calls.main((fetch, forward, backward, update))
