"""A training loop in no framework, with the timing of Deep500: nested keys, one of its own, one after all."""

import random

import injector

timer = injector.Timer()
numbers = random.Random(1)
weight = 0.0
for _ in range(3):
    timer.start("Epoch")
    for _ in range(8):
        timer.start("Batch")
        timer.start("IO")
        batch = [numbers.random() for _ in range(2000)]
        timer.end("IO")
        timer.start("Forward")
        loss = sum((each - weight) ** 2 for each in batch) / len(batch)
        timer.end("Forward")
        timer.start("Backward")
        gradient = sum(2 * (weight - each) for each in batch) / len(batch)
        timer.end("Backward")
        timer.start("Other")
        weight -= 0.1 * gradient
        timer.end("Other")
        timer.end("Batch")
        injector.metric("loss", loss)
    timer.end("Epoch")
for part in range(2):
    timer.start("Save")
    text = "".join(str(weight + part + at) for at in range(1000))
    timer.end("Save")

for key in timer.keys():
    found = timer.statistics(key)
    print(key, found.n, found.min, found.max, found.total)
