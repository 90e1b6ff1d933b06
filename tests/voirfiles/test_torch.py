"""What the voirfile for PyTorch sees of programs that know nothing of it."""

from __future__ import annotations

import json

import pytest
from endless_loader import ENDLESS

from injector.analysis.summary import summarise
from injector.store.folder import open_run
from injector.store.series import read

torch = pytest.importorskip("torch")

LOADERS = """
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(6.0))

def main():
    data = TensorDataset(torch.arange(8.0))
    plain = DataLoader(data, batch_size=2)
    for batch in plain: pass                                           # 4
    iterator = iter(plain)
    while True:
        try: batch = next(iterator)                                    # 4
        except StopIteration: break
    for number, batch in enumerate(DataLoader(data)): pass             # 8
    for first, second in zip(plain, DataLoader(data, batch_size=4)): pass   # 3 and 2
    for batch in DataLoader(Stream(), batch_size=3): pass              # 2
    for outer in DataLoader(data, batch_size=4):                       # 2
        for inner in DataLoader(data, batch_size=8): pass              # 1 a turn
    many = DataLoader(data, batch_size=4, num_workers=2, persistent_workers=True)
    for epoch in range(2):
        for batch in many: pass                                        # 2 an epoch
    iterator = iter(plain)
    next(iterator)                                                     # 1, left in the middle
    assert type(iter(plain)).__name__ == "_SingleProcessDataLoaderIter"

if __name__ == "__main__":
    main()
"""


def test_every_way_to_draw_from_a_loader(run):
    process = run(LOADERS).only
    by_line: dict[int, list[int]] = {}
    for span in process.named("io", "io.end"):
        by_line.setdefault(span.line, [0, 0])[span.region == "io.end"] += 1
    first = LOADERS[: LOADERS.index("    for batch in plain")].count("\n") + 1
    found = {line - first: tuple(counts) for line, counts in by_line.items()}
    # zip asks the first once more than the second has
    assert found[0] == (4, 1) and found[3] == (4, 1) and found[5] == (8, 1)
    assert found[6] == (3 + 2, 1) and found[7] == (2, 1)
    assert found[8] == (2, 1) and found[9] == (2, 2)
    assert found[12] == (4, 2) and found[14] == (1, 0)
    assert len(found) == 9
    assert {span.what for span in process.named("io")} == {
        "DataLoader of TensorDataset",
        "DataLoader of TensorDataset, 2 workers",
        "DataLoader of Stream",
    }
    assert process.counts()["io.start"] == 13
    assert all(span.end >= span.start for span in process.spans)


STATEFUL = """
from torch.utils.data import DataLoader

class StatefulDataLoader(DataLoader):
    def __iter__(self):
        return self._get_iterator()
"""


def test_the_loader_of_torchdata_begins_a_pass(run):
    program = """
    import torch
    from torchdata.stateful_dataloader.stateful_dataloader import StatefulDataLoader

    for batch in StatefulDataLoader(torch.utils.data.TensorDataset(torch.arange(8.0)), batch_size=4):
        pass
    """
    package = "torchdata/stateful_dataloader"
    files = {f"{package}/__init__.py": "", f"{package}/stateful_dataloader.py": STATEFUL}
    spans = run(program, files=files).only.spans
    assert [(span.region, span.what) for span in spans] == [
        (region, "DataLoader of TensorDataset") for region in ("io.start", "io", "io", "io.end")
    ]


LOADERS_OF_THE_PROGRAM = (
    ENDLESS.format(kept="super().__iter__()")
    + """
class Anew(DataLoader):
    def __iter__(self):
        for batch in super().__iter__():
            yield batch
"""
)
ENDLESS_LOOP = """
import torch
from torch.utils.data import TensorDataset
from loaders import Anew, Endless

train, test = (TensorDataset(torch.randn(n, 4), torch.randn(n, 1)) for n in (14, 6))
loader, tested = {kind}(train, batch_size=4{workers}), {kind}(test, batch_size=2)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(3):
    model.train()
    for number, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        if number == {last}:
            break
    model.eval()
    with torch.no_grad():
        for x, y in tested:
            model(x)
"""


@pytest.mark.parametrize("kind", ["Endless", "Anew"])
@pytest.mark.parametrize(("workers", "last"), [("", 3), ("", 2), (", num_workers=1", 9)])
def test_a_loader_that_keeps_its_iterator_has_epochs(run, kind, workers, last):
    program = ENDLESS_LOOP.format(kind=kind, workers=workers, last=last)
    done = run(program, files={"loaders.py": LOADERS_OF_THE_PROGRAM})
    profile = summarise(open_run(done.folder)).profile
    (loop,), (evaluation,) = profile.loops, profile.evaluations
    steps = min(last + 1, 4)
    sizes = [4, 4, 4, 2] * 3
    # What is made anew begins with the first batch, also after a break.
    begins = [epoch * (steps if kind == "Endless" else 4) for epoch in range(3)]
    assert [epoch.steps for epoch in loop.epochs] == [steps] * 3
    assert [epoch.items for epoch in loop.epochs] == [sum(sizes[at : at + steps]) for at in begins]
    assert (loop.steps, loop.fetches_per_step) == (3 * steps, 1)
    assert (evaluation.passes, evaluation.batches, evaluation.items) == (3, 9, 18)


LOOPS = """
import torch
from torch import nn
torch.manual_seed(0)

class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(5)])
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

model, loss_of = Blocks(), nn.MSELoss()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):                                    # accumulation: three make an update
    loss = loss_of(model(torch.ones(3, 4)), torch.zeros(3, 4))
    loss.backward()
    if step % 3 == 2:
        optimizer.step()
        optimizer.zero_grad()
model.eval()
with torch.no_grad():
    model(torch.ones(7, 4))
with torch.inference_mode():
    model(torch.ones(7, 4))

generator, critic = nn.Linear(2, 4), nn.Linear(4, 1)     # a GAN
first = torch.optim.SGD(generator.parameters(), lr=0.1)
second = torch.optim.SGD(critic.parameters(), lr=0.1)
for _ in range(2):
    second.zero_grad()
    critic(generator(torch.ones(5, 2)).detach()).sum().backward()
    second.step()
    first.zero_grad()
    critic(generator(torch.ones(5, 2))).sum().backward()
    first.step()

embedding = nn.Embedding(10, 3)                          # tokens
embedding(torch.ones(2, 9, dtype=torch.long))
embedding(input=torch.ones(2, 9, dtype=torch.long))
x = torch.ones(3, requires_grad=True)
torch.autograd.grad((x * 2).sum(), x)
torch.autograd.backward([(x * 2).sum()])
(x * 2).backward(torch.ones(3))                          # no loss of one number

def closure():
    lbfgs.zero_grad()
    loss = (generator(torch.ones(1, 2)) ** 2).sum()
    loss.backward()
    return loss
lbfgs = torch.optim.LBFGS(generator.parameters(), max_iter=2)
lbfgs.step(closure)

class Own(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
        self.inner = torch.optim.SGD(self.param_groups[0]["params"], lr=0.1)
    def step(self, closure=None):
        self.inner.step()
Own(generator.parameters()).step()
"""


def test_models_gradients_and_optimizers(run):
    done = run(LOOPS)
    process = done.only
    forwards = process.named("forward")

    def of(what, phase):
        return [s.items for s in forwards if (s.what, s.phase) == (what, phase)]

    assert of("Blocks", "train") == [3] * 6 and of("Blocks", "eval") == [7] * 2
    assert of("MSELoss", None) == [3] * 6
    linear = [span for span in forwards if span.what == "Linear"]
    assert [span.items for span in linear][:8] == [5] * 8 and len({s.of for s in linear}) == 2
    assert [(s.items, s.tokens) for s in forwards if s.what == "Embedding"] == [(2, 18)] * 2
    closures = len([span for span in linear if span.items == 1])
    assert len(process.named("backward")) == 6 + 4 + 3 + closures and closures >= 2
    optimizers = [span.what for span in process.named("optimizer")]
    assert optimizers == ["AdamW"] * 2 + ["SGD"] * 4 + ["LBFGS", "Own"]
    assert len({span.of for span in process.named("optimizer")}) == 5
    assert len(process.named("zero_grad")) == 2 + 4 + closures
    found = summarise(open_run(str(done.folder))).profile
    sizes = [(one.name, one.parameters, one.trainable) for one in found.models]
    # No step calls the embedding.
    assert sizes == [("Blocks", 100, 100), ("Linear", 12, 12), ("Linear", 5, 5)]
    [loss] = list(done.folder.glob("raw/*.values"))
    assert loss.stat().st_size > 0
    assert not done.info["warnings"] and done.info["automatic"][0]["missed"] == []
    [lbfgs] = [span for span in process.named("optimizer") if span.what == "LBFGS"]
    inside = [s for s in process.spans if lbfgs.start <= s.start and s.end <= lbfgs.end]
    assert {span.region for span in inside} == {"optimizer", "zero_grad", "forward", "backward"}


SCALED = """
import json, weakref
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
other = torch.amp.GradScaler("cpu", init_scale=16.0)
off = torch.amp.GradScaler("cpu", enabled=False)
losses = []

def loss_of(scale=1.0):
    loss = model(torch.ones(3, 4)).square().mean() * scale
    losses.append(loss.item())
    return loss

for _ in range(3):
    scaler.scale(loss_of()).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
first, second = scaler.scale(loss_of()), other.scale(loss_of(2.0))   # two, and then both backwards
first.backward()
second.backward()
scaler.scale(loss_of() / 4).backward()
losses[-1] /= 4
off.scale(loss_of()).backward()
loss_of().backward()

loss = model(torch.ones(3, 4)).square().mean()                       # one that leads nowhere
kept, scaled = weakref.ref(loss), scaler.scale(loss)
del loss, scaled
assert kept() is None, "its graph is not kept"
print(json.dumps(losses))
"""


SUBCLASS = """
class Labelled(torch.Tensor):
    pass

weight = torch.nn.Parameter(torch.ones(2))
losses = []
for _ in range(3):
    loss = (weight.as_subclass(Labelled) * 2).sum()
    loss.backward()
    losses.append(loss.item())
print(json.dumps(losses))
"""


IN_A_MODE = """
torch.set_default_device("cpu")
losses = []
for _ in range(3):
    loss = weight.sum()
    loss.backward()
    losses.append(loss.item())
print(json.dumps(losses))
"""


@pytest.mark.parametrize("native", ["0", "1"])
def test_losses_are_those_before_scaling_and_reported_once_where_torch_calls_backward_anew(
    run, native
):
    done = run(SCALED + SUBCLASS + IN_A_MODE, env={"INJECT_NATIVE": native})
    [path] = done.folder.glob("raw/*.values")
    series, values = read(str(path))
    assert series == "train/loss"
    scaled, subclass, in_a_mode = map(json.loads, done.out.splitlines())
    assert [value for _, value in values] == pytest.approx(scaled + subclass + in_a_mode, rel=1e-6)
    assert len(subclass) == len(in_a_mode) == 3
    assert not done.info["warnings"] and not done.info["failures"]


TRANSFORMED = """
import json, torch
from torch.func import functional_call, grad, grad_and_value, vmap
net = torch.nn.Linear(3, 1)
weights = {name: each.detach() for name, each in net.named_parameters()}
def error(weights, x):
    return functional_call(net, weights, (x,)).pow(2).mean()
def with_more(weights, x):
    return error(weights, x), x.sum()
def penalized(weights, x):
    slope, value = grad_and_value(error, argnums=1)(weights, x)
    return value + slope.pow(2).sum()
x, losses = torch.ones(4, 3), []
for step, options in ((error, {}), (with_more, {"has_aux": True}), (penalized, {})):
    for _ in range(2):
        gradients, value = grad_and_value(step, **options)(weights, x)
        losses.append((value[0] if options else value).item())
        weights = {name: each - 0.1 * gradients[name] for name, each in weights.items()}
vmap(grad_and_value(error), (None, 0))(weights, x)
grad(error)(weights, x)
print(json.dumps(losses))
"""


def test_losses_of_a_transform_and_none_of_those_within_another(run):
    done = run(TRANSFORMED)
    [path] = done.folder.glob("raw/*.values")
    series, values = read(str(path))
    assert series == "train/loss"
    assert [value for _, value in values] == pytest.approx(json.loads(done.out), rel=1e-6)


ONE_NUMBER = """
import torch
torch.nn.Softplus()(torch.zeros(1, 1))
torch.nn.Softplus()(torch.zeros(3, 1))
torch.nn.Linear(2, 1)(torch.zeros(1, 2))
"""
NO_ITEMS = [("Softplus", 0), ("Softplus", 3), ("Linear", 1)]
"""One number beside a model tells no items."""

ODD = """
import copy, pickle, threading, torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
    def forward(self, batch, scale: float = 1.0):
        return self.layer(batch) * scale

class Batch:
    def __init__(self, x):
        self.name, self.x = "b", x

class Nested(Net):
    def forward(self, batch):
        return super().forward(batch["deep"][0].x)

net = Net()
scripted = torch.jit.script(Net())
scripted(torch.ones(4, 3))
traced = torch.jit.trace(net, torch.ones(4, 3))
assert "size" not in str(traced.graph), traced.graph
traced(torch.ones(6, 3))
Nested()({"id": "no", "deep": (Batch(torch.ones(5, 3)),)})
copy.deepcopy(net)(torch.ones(2, 3))
pickle.loads(pickle.dumps(net))(torch.ones(2, 3))
threads = [threading.Thread(target=net, args=(torch.ones(8, 3),)) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
nn.DataParallel(net)(torch.ones(9, 3))
from torch.func import functional_call, vmap
functional_call(net, dict(net.named_parameters()), (torch.ones(7, 3),))
assert torch.fx.symbolic_trace(net)(torch.ones(1, 3)).shape == (1, 2)
try:
    net(torch.ones(1, 1))
except RuntimeError:
    pass
net(torch.ones(10, 3))
net(torch.tensor(1.0) * torch.ones(11, 3))
print(type(net).__call__ is nn.Module.__call__, "forward" in vars(net), sorted(vars(net))[:3])
"""


def test_odd_ways_to_call_a_model(run):
    done = run(ONE_NUMBER + ODD)
    process = done.only
    assert done.out.split()[:2] == ["True", "False"]
    seen = [(span.what, span.items) for span in process.named("forward")]
    assert seen[:3] == NO_ITEMS
    threads = [s.thread for s in process.named("forward") if s.items == 8]
    assert len(threads) == 3 and 0 not in threads
    assert ("RecursiveScriptModule", 4) in seen and ("Nested", 5) in seen
    assert seen.count(("Net", 2)) == 2 and ("DataParallel of Net", 9) in seen
    for items in (1, 7, 10, 11):
        assert ("Net", items) in seen
    assert not done.info["failures"] and not done.info["warnings"]


COMPILED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    def forward(self, x):
        return self.layers(x)

graphs = []
def backend(module, inputs):
    graphs.append([node.op + node.name for node in module.graph.nodes])
    return module.forward

torch.manual_seed(0)
net = Net()
compiled = torch.compile(net, backend=backend, fullgraph=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    compiled(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

@torch.compile(backend=backend, fullgraph=True)
def step(x):
    return net(x).sum()
step(torch.ones(4, 3))
inplace = Net()
inplace.compile(backend=backend, fullgraph=True)
inplace(torch.ones(2, 3))
print(len(graphs), graphs)
"""


WHOLE_STEPS = """
import torch, torch._dynamo.utils
from torch import nn

graphs = []
def backend(module, inputs):
    graphs.append([node.op + node.name for node in module.graph.nodes])
    return module.forward

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
x, y = torch.ones(4, 3), torch.tensor([0, 1, 0, 1])

def whole(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    return loss

def gradients(x, y):
    loss = nn.CrossEntropyLoss()(net(x), y)
    return torch.autograd.grad(loss, list(net.parameters()))

def update():
    optimizer.step()

for function, given in ((whole, (x, y)), (gradients, (x, y)), (update, ())):
    compiled = torch.compile(function, backend=backend)
    for _ in range(3):
        compiled(*given)
breaks = torch._dynamo.utils.counters["graph_break"]
print(len(graphs), graphs, sorted(breaks.values()))
"""


USERS = """
import sys
import torch

seen = []

def helper(x):
    return (x * 7).sum()

def instrument_calls(ov):
    yield ov.phases.init
    backward = "/torch._tensor/Tensor/backward"
    ov.probe(f"{backward} > self").subscribe(lambda event: seen.append(helper(event["self"])))
    ov.probe(f"{backward} > self")["self"].map(lambda loss: torch.tanh(loss) * 3).subscribe(seen.append)
    ov.value(backward, "five", get=lambda self: (self * 5).sum())
    ov.region(backward, "counted", items=lambda self: int((self * 11).sum()))
    ov.override(f"{backward} > gradient", lambda gradient: gradient)
    yield ov.phases.finalize
    print("seen", len(seen), file=sys.stderr)
"""


OVERRIDDEN = """
import torch
def last(x):
    w = x - 9
    return w
print(torch.compile(last, backend="eager", fullgraph=True)(torch.ones(2)))
"""

OVERRIDES = """
import sys
import torch
def instrument_value(ov):
    yield ov.phases.init
    ov.override("//last > w", lambda w: w)
    own = torch.compile(lambda x: x * 2, backend="eager", fullgraph=True)
    print("own", float(own(torch.ones(1))), file=sys.stderr)
"""


AGAIN = """
import torch._dynamo.utils
torch._dynamo.reset()
torch._dynamo.utils.counters.clear()
"""


@pytest.mark.parametrize("asked", [pytest.param(False, marks=pytest.mark.release), True])
def test_what_is_compiled_has_the_same_graphs_and_breaks(run, asked):
    """Models, whole steps and what is overridden, with our hooks and, if ``asked``, those of voirfiles.

    What a broken graph calls uncompiled is left alone; an override breaks no graph; a voirfile may
    compile functions of its own.
    """
    program = AGAIN.join((COMPILED, WHOLE_STEPS, OVERRIDDEN))
    without = run(program, "--no-auto")
    words = ("--voirfile", "x.py", "--voirfile", "y.py") if asked else ()
    found = run(program, *words, files={"x.py": USERS, "y.py": OVERRIDES})
    assert found.out == without.out
    assert "Tensor.item()" not in found.err
    assert not found.info["failures"]
    process = found.only
    last = COMPILED.count("\n")
    assert [(s.what, s.items) for s in process.named("forward")][:3] == [
        ("OptimizedModule of Net", 4)
    ] * 3
    for region in ("backward", "optimizer"):
        assert [span.line <= last for span in process.named(region)].count(True) == 3
    assert [span.line > last for span in process.named("backward")].count(True) >= 3
    if asked:
        # Two at each of three backwards of a model, and of whole steps.
        assert "seen 12\n" in found.err
        assert len(process.named("counted")) == 6
        assert "own 2.0\n" in found.err


def test_the_size_of_a_model_whose_wrapper_is_not_set_to_training():
    """As Lightning's strategy ``ddp`` leaves it after the first validation: the mode is that of the model."""
    from injector.voirfiles._models import name_recording_size

    model = torch.nn.Linear(3, 2)
    recorded = []
    ov = type("Ov", (), {"model": lambda self, *record: recorded.append(record)})()
    wrapper = torch.nn.DataParallel(model).eval()
    assert name_recording_size(ov, wrapper) == "DataParallel of Linear" and not recorded
    model.train()
    name_recording_size(ov, wrapper)
    assert recorded == [("DataParallel of Linear", 8, 8)]


FITTED = """
import torch
from torch.nn.functional import linear

TASKS, FITS = {tasks}, 5
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(8):
    optimizer.zero_grad()
    for task in range(TASKS):
        weight, bias = net.weight, net.bias
        for fit in range(FITS):
            loss = linear(torch.randn(8, 4), weight, bias).pow(2).mean()
            change = torch.autograd.grad(loss, (weight, bias), create_graph=True)
            weight, bias = weight - 0.1 * change[0], bias - 0.1 * change[1]
        linear(torch.randn(8, 4), weight, bias).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_loss_may_be_divided_by_the_backwards_that_accumulate(run, tasks):
    """Those of torch.autograd.grad, which fit a copy of the weights, accumulate nothing."""
    done = run(FITTED.format(tasks=tasks))
    found = summarise(open_run(str(done.folder))).profile
    notes = [text for text in found.unmeasured if "divided loss" in text]
    assert [f"calls backward {tasks} times" in text for text in notes] == [True] * (tasks > 1)
