"""With the voirfile for PyTorch a program fails in the same words, lines and columns as without."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from search_path import search_path

pytest.importorskip("torch")


PROGRAM = """
import sys, traceback
import torch
from torch import nn
from torch.utils.data import DataLoader

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        if index == 2:
            raise KeyError(index)
        return torch.ones(3)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(3, 2))
    def forward(self, x):
        return self.layer(x)

class Bad(torch.optim.SGD):
    def step(self, closure=None):
        raise ArithmeticError("step")

net = Net()
optimizer = Bad(net.parameters(), lr=0.1)

def draw():
    for batch in DataLoader(Data()):
        pass

def hooked():
    loss = net(torch.ones(1, 3)).sum()
    loss.register_hook(lambda gradient: 1 / 0)
    loss.backward()

ways = [
    draw,
    lambda: next(iter(DataLoader([]))),
    lambda: net(torch.ones(1, 4)),
    lambda: net(),
    lambda: torch.ones(1).backward(),
    lambda: torch.autograd.grad(torch.ones(1), net.layer[0].weight),
    lambda: torch.autograd.backward("no"),
    hooked,
    lambda: optimizer.step(),
    lambda: torch.distributed.init_process_group("nothing"),
    lambda: torch.distributed.all_reduce(torch.ones(1)),
]
for way in ways:
    try:
        way()
    except BaseException:
        traceback.print_exc()
print(type(nn.Module.__call__), nn.Module.__call__.__code__.co_varnames, nn.Module.__call__.__doc__)
print(type(optimizer).step.__wrapped__, sorted(vars(optimizer)), sorted(vars(net)))
sys.stderr.flush()
net(torch.ones(1, 5))
"""


def test_every_traceback_is_the_same(tmp_path):
    (tmp_path / "main.py").write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": search_path(), "OMP_NUM_THREADS": "1"}

    def ran(*before):
        done = subprocess.run(
            [sys.executable, *before, "main.py"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.returncode, _plain(done.stdout), _plain(done.stderr)

    plain = ran()
    assert plain[0] == 1 and plain[2].count("Traceback") >= 12
    assert ran("-m", "injector", "run", "--quiet", "--runs", str(tmp_path / "runs")) == plain


def _plain(text: str) -> str:
    import re

    return re.sub(r"0x[0-9a-f]+", "0x", text)
