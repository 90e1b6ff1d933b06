"""``guarded.py EVENTS STEPS``: values and steps that do nothing but be recorded, without a library.

The voirfile beside names their functions: its hooks are what these loops pay for. Prints the processor time
that its process took, in seconds.
"""

import sys
import time


class Model:
    def __init__(self):
        self.training = True
        self.layers = {"first": 1}


def observe(n):
    value = 0.5
    for _ in range(n):
        x = value  # noqa: F841


def forward(self, args):
    return args


def backward(loss):
    return loss


def update(args):
    return args


def train(loader, model):
    for batch in loader:
        output = forward(model, (batch,))
        backward(0.5 + len(output))
        update((model,))


if __name__ == "__main__":
    events, steps = int(sys.argv[1]), int(sys.argv[2])
    observe(events + 10)
    train(iter([[1, 2, 3, 4]] * (steps + 10)), Model())
    print(time.process_time())
