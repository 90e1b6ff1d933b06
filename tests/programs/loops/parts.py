"""What these programs share: rows and models that take a known time, and who notes the truth."""

import json
import os
import time

import torch
from torch import nn
from torch.utils.data import Dataset

torch.set_num_threads(1)
torch.manual_seed(0)


class Rows(Dataset):
    """`count` rows of 8 numbers; each takes `nap` seconds to read."""

    def __init__(self, count, nap=0.0):
        self.x = torch.randn(count, 8)
        self.y = self.x.sum(1, keepdim=True)
        self.nap = nap

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        if self.nap:
            time.sleep(self.nap)
        return self.x[index], self.y[index]


class Lull(torch.autograd.Function):
    """Nothing, in a known time on the way back."""

    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(ctx.seconds)
        return grad, None


class Net(nn.Module):
    """8 numbers to `out`; `forward` and `backward` seconds a call."""

    def __init__(self, forward=0.0, backward=0.0, inputs=8, out=1):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, out))
        self.naps = forward, backward

    def forward(self, x):
        if self.naps[0]:
            time.sleep(self.naps[0])
        x = self.body(x)
        return Lull.apply(x, self.naps[1]) if self.naps[1] else x


class Slow(torch.optim.SGD):
    """SGD that takes `nap` seconds."""

    def __init__(self, params, nap, lr=0.01):
        super().__init__(params, lr=lr)
        self.nap = nap

    def step(self, closure=None):
        time.sleep(self.nap)
        return super().step(closure)


def tell(*loops, **truth):
    """Write what was true, to be compared with what others say of this program."""
    file = os.environ.get("LOOP_TRUTH")
    if file:
        with open(file, "w") as stream:
            json.dump({"loops": loops, **truth}, stream)
