"""The functions that make batches for loops without a loader: ``io`` without a voirfile."""

from __future__ import annotations

import pytest

from injector.analysis.summary import summarise
from injector.store.folder import open_run

torch = pytest.importorskip("torch")

OTHER = """
import torch

def sample(n):
    return torch.randn(n, 4)  # in a module of the program

class Source:
    def draw(self, n):
        return torch.randn(n, 4)  # a method in a module of the program
"""

LOOPS = """
import functools
import torch
from torch import nn
from torch.utils.data import DataLoader

import other
from other import sample

STEPS = 5
data = torch.randn(64, 4)
source = other.Source()


def trains(model):
    return torch.optim.SGD(model.parameters(), lr=0.01)


def get_batch(n):
    return data[torch.randint(0, 64, (n,))]


def plain():
    model = nn.Linear(4, 1)
    optimizer = trains(model)
    for _ in range(STEPS):
        x = get_batch(3)  # io
        model(x).sum().backward()
        optimizer.step()


def one_ahead():
    model = nn.Linear(4, 1)
    optimizer = trains(model)
    x = get_batch(5)
    for _ in range(STEPS):
        loss = model(x).sum()
        x = get_batch(5)  # io
        loss.backward()
        optimizer.step()


class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 1)
        self.optimizer = trains(self.model)

    @torch.no_grad()
    def make_examples(self, n):
        return torch.randn(n, 4)

    def step(self, x):
        self.model(x).sum().backward()
        self.optimizer.step()

    def train(self):
        for _ in range(STEPS):
            x = self.make_examples(3)  # io
            self.step(x)


def of_another_module():
    model = nn.Linear(4, 1)
    optimizer = trains(model)
    for _ in range(STEPS):
        x = sample(3)  # io
        y = other.sample(3)  # io
        z = source.draw(3)  # io
        model(x + y + z).sum().backward()
        optimizer.step()


def cached(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper


@cached
def wrapped_batch(n):
    return torch.randn(n, 4)


def of_a_wrapped_function():
    model = nn.Linear(4, 1)
    optimizer = trains(model)
    for _ in range(STEPS):
        x = wrapped_batch(3)  # io in the wrapper
        model(x).sum().backward()
        optimizer.step()


def to_device(x):
    return x.to("cpu")


def of_a_loader():
    model = nn.Linear(4, 1)
    optimizer = trains(model)
    for batch in DataLoader(data, batch_size=16):
        x = to_device(batch)
        model(x).sum().backward()
        optimizer.step()


def rollout(policy, n):
    x = torch.randn(n, 4)
    with torch.no_grad():
        return x * policy(x)


def play(policy):
    return rollout(policy, 3) + 1


def after_rollouts():
    model = nn.Linear(4, 1)
    optimizer = trains(model)
    for _ in range(STEPS):
        x = play(model)
        model(x).sum().backward()
        optimizer.step()


def stream(n):
    for _ in range(n):
        yield torch.randn(3, 4)


def of_a_generator():
    model = nn.Linear(4, 1)
    optimizer = trains(model)
    for x in stream(STEPS):
        model(x).sum().backward()
        optimizer.step()


def loss_of(prediction):
    return prediction.square().sum()


def detach(h):
    return h.detach()


def with_state():
    model = nn.RNNCell(4, 4)
    optimizer = trains(model)
    h = torch.zeros(3, 4)
    for _ in range(STEPS):
        h = detach(h)
        h = model(data[:3], h)
        loss = loss_of(h)
        loss.backward()
        optimizer.step()


def as_an_argument():
    model = nn.Linear(4, 1)
    optimizer = trains(model)
    for _ in range(STEPS):
        model(another_batch(3)).sum().backward()  # io
        optimizer.step()


def another_batch(n):
    return torch.randn(n, 4)


def pair(n):
    return torch.randn(n, 4), torch.randn(n, 1)


def update(model, optimizer, x, y):
    (model(x) - y).square().sum().backward()
    optimizer.step()


def as_starred_arguments():
    model = nn.Linear(4, 1)
    optimizer = trains(model)
    for _ in range(STEPS):
        update(model, optimizer, *pair(3))  # io


def over_time(model, optimizer, x, y):
    h, loss = torch.zeros(3, 4), 0
    for t in range(2):
        h = model(x, h)
        loss = loss + (h - y).square().sum()
    loss.backward()
    optimizer.step()


def sequences(n):
    return torch.randn(n, 4), torch.randn(n, 4)


def of_a_step_with_a_loop():
    model = nn.RNNCell(4, 4)
    optimizer = trains(model)
    for _ in range(STEPS):
        over_time(model, optimizer, *sequences(3))  # io


unnamed = lambda n: torch.randn(n, 4)


def of_a_lambda():
    model = nn.Linear(4, 1)
    optimizer = trains(model)
    for _ in range(STEPS):
        x = unnamed(3)
        model(x).sum().backward()
        optimizer.step()


def fails(n):
    if n == STEPS - 1:
        raise ValueError("no more")
    return torch.randn(3, 4)


def until_it_raises():
    model = nn.Linear(4, 1)
    optimizer = trains(model)
    try:
        for n in range(STEPS):
            x = fails(n)  # io until it raises
            model(x).sum().backward()
            optimizer.step()
    except ValueError as error:
        print("raised", error.__traceback__.tb_next.tb_lineno == fails.__code__.co_firstlineno + 2)


if __name__ == "__main__":
    torch.manual_seed(0)
    plain()
    one_ahead()
    Trainer().train()
    of_another_module()
    of_a_wrapped_function()
    of_a_loader()
    after_rollouts()
    of_a_generator()
    with_state()
    as_an_argument()
    of_a_step_with_a_loop()
    as_starred_arguments()
    of_a_lambda()
    until_it_raises()
    print("drawn", get_batch(2).sum().item())
"""


def lines_with(text: str, mark: str) -> dict[int, str]:
    return {n: line.strip() for n, line in enumerate(text.splitlines(), 1) if mark in line}


def test_functions_that_make_batches_are_io_from_the_first_backward_on(run, tmp_path):
    (tmp_path / "other.py").write_text(OTHER)
    done = run(LOOPS)
    process = done.only
    found: dict[int, int] = {}
    for span in process.named("io"):
        if not (span.what or "").startswith("DataLoader"):
            found[span.line] = found.get(span.line, 0) + 1
    steps = 5
    known = lines_with(LOOPS, "# io")
    wrapper = next(n for n in lines_with(LOOPS, "return function(*args)"))
    wanted = {}
    for n, text in known.items():
        # The first batch was made before there was a backward; get_batch is known from its first loop on.
        seen = steps if "get_batch(5)" in text else steps - 1
        if "until it raises" in text:
            seen = steps - 2
        wanted[wrapper if "in the wrapper" in text else n] = seen
    ahead = next(n for n in lines_with(LOOPS, "    x = get_batch(5)"))
    wanted[ahead] = 1
    wanted[next(n for n in lines_with(LOOPS, 'print("drawn"'))] = 1
    assert found == wanted
    # What cannot be recorded of the program, a lambda, is nothing that PyTorch lacks.
    assert not [miss for each in done.info["automatic"] for miss in each["missed"]]


EVALUATION = """
import torch
from torch import nn

def get_batch(split):
    return torch.randn(3, 4)

@torch.no_grad()
def estimate():
    model.eval()
    for split in ("train", "val"):
        for _ in range(3):
            x = get_batch(split)
            model(x).sum()  # evaluation
    model.train()

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = get_batch("train")
for step in range(6):
    if step % 2 == 0:
        estimate()
    for _ in range(2):
        loss = model(x).sum() / 2
        x = get_batch("train")
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.release
@pytest.mark.parametrize("voirfile", [False, True])
def test_evaluations_before_and_after_the_function_is_known_are_one(run, tmp_path, voirfile):
    """A function that makes batches for training and evaluation paces neither."""
    (tmp_path / "x.py").write_text("def instrument_x(ov):\n    ov.region('//get_batch', 'io')\n")
    done = run(EVALUATION, *(("--voirfile", str(tmp_path / "x.py")) if voirfile else ()))
    summary = summarise(open_run(done.folder))
    [loop] = summary.profile.loops
    [evaluation] = summary.profile.evaluations
    assert (loop.steps, loop.updates_per_step) == (6, 1)
    [place] = lines_with(EVALUATION, "# evaluation")
    assert evaluation.place.line == place
    assert (evaluation.passes, evaluation.batches, evaluation.items) == (3, 18, 54)


LISTENING = """
import torch
from torch import nn


class Listening:
    @property
    def __class__(self):
        print("asked")
        return super().__class__

    def __getattr__(self, name):
        print("asked for", name)
        raise AttributeError(name)

    def draw(self, n):
        return torch.randn(n, 4)


source, model = Listening(), nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    x = source.draw(3)
    model(x).sum().backward()
    optimizer.step()
"""


def test_no_code_of_the_program_runs_to_find_them(run):
    done = run(LISTENING)
    assert done.out == ""
    assert len(done.only.named("io")) == 2


COMPILED = """
import torch
from torch import nn

graphs = [0]


def backend(graph, inputs):
    graphs[0] += 1
    return graph


def rows(n):
    return torch.ones(n, 4)


def get_batch(n):
    return rows(n) * 2


def another(n):
    return torch.randn(n, 4)


def trained(loss):
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def inside(x):
    return model(get_batch(3) + x).sum()


model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
whole = torch.compile(inside, backend=backend)
for _ in range(3):
    trained(whole(torch.ones(3, 4)))
for _ in range(3):
    x = get_batch(3)  # not hooked
    y = rows(3)  # not hooked
    z = another(3)  # io
    trained(model(x + y + z).sum())
for _ in range(3):
    trained(whole(torch.ones(3, 4)))
print(graphs, torch._dynamo.utils.counters["stats"]["unique_graphs"])
"""


@pytest.mark.release
def test_what_a_graph_was_made_of_stays_as_it_is(run):
    """Another code of a function that is inlined in a graph would have it compiled once more."""
    done = run(COMPILED)
    assert done.out == "[1] 1\n"
    [line] = lines_with(COMPILED, "# io")
    assert [span.line for span in done.only.named("io")] == [line, line]
