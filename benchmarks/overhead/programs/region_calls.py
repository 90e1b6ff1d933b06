"""Functions that are nothing but the place of a hook, each beside a twin that no probe names.

``region_calls.py FILE TURNS REPEATS`` writes JSON into FILE: for each case, pairs of nanoseconds of
thread CPU a turn, the plain twin's and the recorded function's.
"""

# ruff: noqa: B007 (an empty loop is what is measured)

import gc
import json
import sys
import time

import torch


class Batches:
    def __init__(self, count, batch):
        self.count, self.batch = count, batch

    def __iter__(self):
        for _ in range(self.count):
            yield self.batch


def fetch(loader):
    return loader.batch


def plain_fetch(loader):
    return loader.batch


def forward(model, batch):
    return batch


def plain_forward(model, batch):
    return batch


def backward(loss):
    pass


def plain_backward(loss):
    pass


def update(optimizer):
    pass


def plain_update(optimizer):
    pass


LOADER, MODEL, OPTIMIZER = Batches(0, torch.randn(4, 8)), object.__new__(Batches), Batches(0, None)
LOSS = torch.tensor(0.5)


def io(n, fetch):
    for _ in range(n):
        fetch(LOADER)


def model(n, forward):
    batch = LOADER.batch
    for _ in range(n):
        forward(MODEL, batch)


def gradients(n, backward):
    for _ in range(n):
        backward(LOSS)


def optimizer(n, update):
    for _ in range(n):
        update(OPTIMIZER)


def every(n, fetch, forward, backward, update):
    for _ in range(n):
        batch = fetch(LOADER)
        forward(MODEL, batch)
        backward(LOSS)
        update(OPTIMIZER)


def walk(n):
    batches = Batches(n, LOADER.batch)
    for batch in batches:
        pass


def plain_walk(n):
    batches = Batches(n, LOADER.batch)
    for batch in batches:
        pass


PLAIN = plain_fetch, plain_forward, plain_backward, plain_update
RECORDED = fetch, forward, backward, update


def thread_ns(function, turns, *called):
    begin = time.thread_time_ns()
    function(turns, *called)
    return (time.thread_time_ns() - begin) / turns


def cases(recorded):
    one_by_one = zip((io, model, gradients, optimizer), PLAIN, recorded, strict=True)
    yield "step", (plain_walk,), (walk,)
    yield from (
        (loop.__name__, (loop, plain), (loop, hooked)) for loop, plain, hooked in one_by_one
    )
    yield "every", (every, *PLAIN), (every, *recorded)


def main(recorded=RECORDED):
    file, turns, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    found = {}
    gc.disable()
    for name, plain, hooked in cases(recorded):
        pairs = found[name] = []
        for _ in range(repeats + 1):
            without = thread_ns(plain[0], turns, *plain[1:])
            pairs.append((without, thread_ns(hooked[0], turns, *hooked[1:])))
        del pairs[0]  # the interpreter specialises its bytecode, files are mapped
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(found, stream)


if __name__ == "__main__":
    main()
