"""``--layers``: each module down to a depth, however it is called, and nothing else of the run changes."""

from __future__ import annotations

import pytest

from injector.analysis.summary import summarise
from injector.store.folder import open_run

pytest.importorskip("torch")

PROGRAM = """
import io, time, warnings
import torch
from torch import nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
graphs = []
def backend(module, inputs):
    graphs.append(len(module.graph.nodes))
    return module.forward

class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1
    @staticmethod
    def backward(ctx, gradient):
        time.sleep(0.02)
        return gradient * 1

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 8)
    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.shared, self.checked, self.compiled = nn.Linear(8, 8), Block(), Block()
        self.compiled.compile(backend=backend, fullgraph=True)
        self.head = nn.Sequential(nn.Linear(8, 4), nn.Tanh())
        self.cell, self.same = nn.GRUCell(8, 8), nn.Identity()
    def forward(self, x):
        for block in self.blocks:
            x = self.shared(block(x))
        x = self.compiled(checkpoint(self.checked, x, use_reentrant=False))
        x = self.same(x)
        hidden = torch.zeros_like(x)
        for _ in range(3):
            hidden = self.cell(x, hidden)
        return self.head(Slow.apply(hidden))

net, other = Net(), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)
whole = torch.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), backend=backend, fullgraph=True)
for _ in range(20):
    optimizer.zero_grad()
    loss = other(nn.DataParallel(net)(whole(torch.ones(2, 8)))).sum()
    loss = loss + functional_call(other, dict(other.named_parameters()), (torch.ones(2, 4),)).sum()
    loss.backward()
    optimizer.step()
with warnings.catch_warnings():  # PyTorch warns of a tensor with hooks
    warnings.simplefilter("error")
    torch.save(out := net(torch.ones(2, 8)), io.BytesIO())
    print(out._backward_hooks)
print(len(graphs), graphs, round(loss.item(), 6), [type(p.grad) for p in net.parameters()][:1])
print(net.head._forward_hooks, net.head._backward_hooks, sorted(vars(net))[:3])
"""


_TOP = ("blocks", "shared", "checked", "compiled", "head", "cell", "same")
"""Of Net."""


def test_every_way_to_call_a_layer(run):
    without = run(PROGRAM)
    done = run(PROGRAM, "--layers", "2")
    assert done.out == without.out
    assert not done.info["failures"] and not done.info["warnings"]
    assert not [one for each in done.info["automatic"] for one in each["missed"]]
    bare = summarise(open_run(str(without.folder))).profile
    found = summarise(open_run(str(done.folder))).profile
    assert bare.layers == ()
    # The regions of a step are what they were.
    names = [child.name for child in bare.loops[0].tree.children]
    assert [child.name for child in found.loops[0].tree.children] == names
    assert sum(each.seconds for each in found.segments) == pytest.approx(found.wall)

    layers = {(each.path, each.kind): each for each in found.layers}
    calls = {path: round(each.calls, 6) for (path, _), each in layers.items()}
    assert calls["blocks.0"] == calls["blocks.1"] == calls["compiled"] == calls["head"] == 1
    assert calls["shared"] == calls["checked"] == 2  # it is computed once more for its backward
    assert calls["cell"] == 3 and calls["head.0"] == 1 and calls["Linear"] == 2
    assert calls["Sequential"] == 1  # and nothing in it
    assert layers["same", "Identity"].backward is None  # what it returned is another layer's
    assert layers["Net", "DataParallel of Net"].calls == 1
    assert calls["blocks.0.a"] == 1 and "compiled.a" not in calls  # a list is no level
    for path in ("blocks.0", "shared", "cell", "head.0", "Linear", "compiled"):
        [one] = [each for each in found.layers if each.path == path]
        assert one.forward > 0 and one.backward, path
        assert one.device is None and one.place.file.endswith("main.py")
    [head], [inner] = ([e for e in found.layers if e.path == p] for p in ("head", "head.0"))
    assert head.forward >= inner.forward and head.backward >= inner.backward
    # What a model does between its layers is its own.
    net = layers["Net", "DataParallel of Net"]
    top = [each for each in found.layers if each.path.split(".")[0] in _TOP]
    within = sum(
        each.backward or 0 for each in top if each.depth == (each.path[:6] == "blocks") + 1
    )
    assert net.backward - within >= 0.02 > head.backward
    assert sum(each.share for each in found.layers if each.depth == 0) <= 1.05
