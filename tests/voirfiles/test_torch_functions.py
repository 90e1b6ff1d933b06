"""What belongs to training and is no module: losses, clipping, distributions, environments, RPC."""

from __future__ import annotations

import pytest

FUNCTIONS = """
import torch
import torch.nn.functional as F
from torch.distributions import Categorical, Normal

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x, y=None):
        out = self.layer(x)
        return out if y is None else F.cross_entropy(out, y)

model = Net()
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.ones(8, 4), torch.zeros(8, dtype=torch.long)
for _ in range(4):
    out = model(x)
    loss = F.cross_entropy(out, y) + F.mse_loss(out, out.detach()) + model(x, y)
    choice = Categorical(logits=out)
    loss = loss - choice.log_prob(choice.sample()).mean() + Normal(out.mean(), 1.0).entropy()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
    optimizer.step()
with torch.no_grad():
    F.nll_loss(F.log_softmax(model(x), 1), y)
"""


def test_losses_and_probabilities_are_forward_and_clipping_has_its_name(run):
    found = run(FUNCTIONS).only
    forward = [(span.what, span.phase) for span in found.named("forward")]
    assert forward.count(("cross_entropy", None)) == 4  # not those inside of a model
    assert forward.count(("mse_loss", None)) == 4
    assert forward.count(("Net", "train")) == 8
    assert forward.count(("nll_loss", "eval")) == 1
    assert {("Categorical.log_prob", None), ("Normal.entropy", None)} <= set(forward)
    assert found.counts()["clip_grad"] == 8
    assert found.counts()["optimizer"] == 4  # clipping is no update


ENVIRONMENTS = """
import torch

class Game:
    def reset(self):
        return torch.zeros(4)

    def step(self, action):
        return torch.zeros(4), 1.0, False, {}

class Meter:
    def reset(self):
        return None

    def step(self, value):
        return value

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
game, meter = Game(), Meter()
for _ in range(3):
    seen = game.reset()
    for _ in range(5):
        seen, reward, done, more = game.step(model(seen))
    meter.reset()
    meter.step(1)
    model(seen).sum().backward()
    optimizer.step()
    schedule.step()
"""


def test_what_is_reset_and_stepped_to_an_observation_is_an_environment(run):
    found = run(ENVIRONMENTS).only
    assert [span.what for span in found.named("env")] == (["Game"] * 6) * 3
    assert found.counts()["optimizer"] == 3


GYMNASIUM = """
class Env:
    pass

class Wrapper(Env):
    def __init__(self, env):
        self.env = env

    def step(self, action):
        return self.env.step(action)

    def reset(self, *, seed=None):
        return self.env.reset(seed=seed)

class TimeLimit(Wrapper):
    def step(me, action):
        return super(TimeLimit, me).step(action)

class CartPole(Env):
    def step(self, action):
        return 0, 1.0, False, False, {}

    def reset(self, *, seed=None):
        return 0, {}
"""


def test_environments_of_a_library_count_once_a_call(run):
    files = {"gymnasium/__init__.py": "from . import core\n", "gymnasium/core.py": GYMNASIUM}
    # Whoever steps is a library as well: what stands in its files is not looked at.
    files["sb3/site-packages/agent.py"] = (
        "def play(env):\n    env.reset(seed=1)\n    env.step(env.step(0)[0])\n"
    )
    program = """
    import sys
    import gymnasium.core as core

    sys.path.insert(0, "sb3/site-packages")
    import agent

    agent.play(core.TimeLimit(core.Wrapper(core.CartPole())))
    """
    done = run(program, files=files)
    spans = done.only.spans
    assert [(span.region, span.what) for span in spans] == [("env", "TimeLimit")] * 3
    assert not done.info["warnings"]


TRACED = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout()).eval()
torch.jit.trace(model, torch.ones(3, 4))
torch.jit._get_trace_graph(model, torch.ones(3, 4))
with torch.no_grad():
    model(torch.ones(5, 4))
"""


def test_a_model_whose_graph_is_recorded_evaluates_nothing(run):
    spans = run(TRACED).only.spans
    assert [(s.region, s.items) for s in spans if s.region in ("build", "forward")] == [
        ("build", 0), ("build", 0), ("forward", 5),
    ]  # fmt: skip


RPC = """
import os, sys, torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch.distributed.optim import DistributedOptimizer

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x)

    def references(self):
        return [rpc.RRef(each) for each in self.parameters()]

def call(reference, x):
    return reference.local_value()(x)

def references(reference):
    return reference.local_value().references()

def work(rank):
    options = rpc.TensorPipeRpcBackendOptions(init_method="file://" + sys.argv[1])
    rpc.init_rpc("worker%d" % rank, rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        net = rpc.remote("worker1", Net)
        optimizer = DistributedOptimizer(
            torch.optim.SGD, rpc.rpc_sync("worker1", references, args=(net,)), lr=0.1
        )
        for _ in range(12):
            with dist_autograd.context() as context:
                out = rpc.rpc_sync("worker1", call, args=(net, torch.ones(8, 4)))
                dist_autograd.backward(context, [out.sum()])
                optimizer.step(context)
    rpc.shutdown()

child = os.fork()  # the program and its copy are the ranks: PyTorch starts once
work(0 if child else 1)
assert not child or os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.release
def test_training_over_rpc_has_its_steps(run):
    done = run(RPC.replace("sys.argv[1]", "os.path.abspath('rendezvous')"))
    [first] = [process for process in done.processes if process.named("optimizer")]
    counts = first.counts()
    assert (counts["optimizer"], counts["backward"]) == (12, 12)
    assert {"rpc_sync", "remote"} <= {span.what for span in first.named("comm")}
