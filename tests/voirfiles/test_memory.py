"""``--memory``: what forward holds and backward frees is seen, and the program prints what it would."""

from __future__ import annotations

import sys

import pytest

from injector.analysis.summary import summarise
from injector.report import terminal
from injector.store.folder import open_run

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="resident memory is Linux's")

PROGRAM = """
import torch
from torch import nn

class Holding(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
    def forward(self, x):
        return (self.weight * torch.ones(2**24)).sum() + x.sum()  # the ones wait for backward

model = Holding()
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
for x in torch.utils.data.DataLoader(torch.arange(24.0) * 2, batch_size=2):
    optimizer.zero_grad()
    loss = model(x)
    loss.backward()
    optimizer.step()
print(loss.item(), torch.cuda.max_memory_allocated())
"""
HELD = 4 * 2**24


def test_64_mib_that_forward_holds(run):
    done = run(PROGRAM, "--memory", "--no-monitor")
    assert done.out == f"{float(2**24 + 44 + 46)} 0\n"
    assert not done.info["failures"] and not done.info["warnings"]
    found = summarise(open_run(str(done.folder))).profile
    use = {each.region: each for each in found.memory}
    assert set(use) == {"step", "io", "zero_grad", "forward", "backward", "optimizer"}
    assert {each.where for each in found.memory} == {"host"} and use["forward"].calls == 1
    assert use["forward"].change == pytest.approx(HELD, rel=0.2)
    assert use["backward"].change == pytest.approx(-HELD, rel=0.2)
    for region in ("io", "zero_grad", "optimizer", "step"):
        assert abs(use[region].change) < HELD / 8, region
    assert use["step"].largest == use["forward"].largest > use["backward"].largest + HELD / 2
    # Rows of memory are no spans: the step is made of its regions once.
    assert {child.name: child.calls for child in found.loops[0].tree.children}["forward"] == 1
    assert "memory " in "\n".join(terminal.profile(found))
