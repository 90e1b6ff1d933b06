"""What is said of training steps of which torch.compile was given a part, or all."""

from __future__ import annotations

import re
from collections import Counter

import pytest

pytest.importorskip("torch")

PARTS = """
import sys, torch, torch._dynamo.utils
from torch import nn
from injector import region

STEPS = 6

def train(kind, fullgraph, shapes, backend):
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    def loss_of(given): return (given ** 2).mean()
    def made(function): return torch.compile(function, backend=backend, fullgraph=fullgraph)
    model, update = net, optimizer.step
    if kind in ("model", "both"):
        model = made(net)
    if kind in ("optimizer", "both"):
        update = made(optimizer.step)
    if kind == "update":
        def advance():
            optimizer.step()
        update = made(advance)
    def one(x):
        optimizer.zero_grad()
        loss = loss_of(model(x))
        loss.backward()
        update()
        return loss.item()
    if kind == "whole":
        def whole(x):
            optimizer.zero_grad()
            loss = loss_of(net(x))
            loss.backward()
            optimizer.step()
            return loss
        step = made(whole)
        def one(x): return step(x).item()
    if kind == "functional":
        weights = dict(net.named_parameters())
        weights = {name: each.detach().clone() for name, each in weights.items()}
        def error(weights, x):
            return loss_of(torch.func.functional_call(net, weights, (x,)))
        def functional(weights, x):
            gradients, loss = torch.func.grad_and_value(error)(weights, x)
            return {n: each - 0.01 * gradients[n] for n, each in weights.items()}, loss
        step = made(functional)
        def one(x):
            nonlocal weights
            weights, loss = step(weights, x)
            return loss.item()
    losses = []
    for number in range(STEPS):
        losses.append(one(torch.randn(4 + 2 * (number % shapes), 8)))
    breaks = torch._dynamo.utils.counters["graph_break"].values()
    print(kind, losses, torch._dynamo.utils.counters["stats"]["unique_graphs"], sorted(breaks))
"""

PRODUCTS = (
    PARTS
    + """
for kind in sys.argv[4:]:
    for fullgraph in map(bool, map(int, sys.argv[2])):
        for shapes in map(int, sys.argv[3]):
            with region(f"{kind}/{fullgraph}/{shapes}"):
                try:
                    train(kind, fullgraph, shapes, sys.argv[1])
                except Exception as error:
                    print(kind, fullgraph, shapes, type(error).__name__)
"""
)

SEEN = {"forward": 6, "backward": 6, "optimizer": 6}
REGIONS = (*SEEN, "compiled")
EXPECTED = {
    "model": SEEN,
    "optimizer": SEEN,
    "update": SEEN,
    "both": SEEN,
    "whole": {"compiled": 6, "backward": 6},
    "functional": {"compiled": 6},
}


OFTEN = ("whole",)
"""What is compiled in every `make test`: each is a compilation or two, with us and without."""


@pytest.mark.parametrize(
    ("fullgraph", "shapes", "kinds"),
    [("0", "1", OFTEN), pytest.param("10", "12", tuple(EXPECTED), marks=pytest.mark.release)],
)
def test_regions_of_all_that_can_be_compiled(run, fullgraph, shapes, kinds):
    """Of every product of what is compiled, with and without breaks, for one shape and for two."""
    words = ["aot_eager", fullgraph, shapes, *kinds]
    with_us = run(PRODUCTS, after=words)
    plain = run(PRODUCTS, "--no-auto", after=words)
    assert with_us.out == plain.out
    assert not with_us.info["failures"]
    process = with_us.only
    cases = [span for span in process.spans if "/" in span.region]
    assert len(cases) == len(kinds) * len(fullgraph) * len(shapes)
    lines = plain.out.splitlines()
    assert len(lines) == len(kinds) * len(fullgraph) * len(shapes)
    for case, line in zip(sorted(cases, key=lambda span: span.start), lines, strict=True):
        if "[" not in line:
            continue  # this torch cannot compile it as one graph: with us or without
        kind = case.region.partition("/")[0]
        inside = [s for s in process.spans if case.start <= s.start and s.end <= case.end]
        found = Counter(span.region for span in inside if span.region in REGIONS)
        expected = EXPECTED[kind]
        if kind == "functional" and not line.endswith("[]"):  # before PyTorch 2.5, the graph breaks
            expected = {"compiled": 6, "forward": 6, "backward": 6}
        assert found == expected, case.region
        whats = {span.what for span in inside if span.region == "optimizer"}
        assert whats <= {"SGD", "compiled SGD"}, case.region


@pytest.mark.release  # what a report says of such calls: tests/analysis/test_verdict.py
@pytest.mark.parametrize(("kind", "shapes"), [("both", 2), ("whole", 2), ("functional", 1)])
def test_steps_are_counted_or_reported_as_unknown(run, kind, shapes):
    text = f"{PARTS}\ntrain({kind!r}, {kind == 'functional'}, {shapes}, 'aot_eager')\n"
    text = text.replace("STEPS = 6", "STEPS = 12").replace("from injector import region\n", "")
    done = run(text, check=False)
    message = done.err
    if "_dynamo.exc.Unsupported: call_function args" in message:
        pytest.skip("this PyTorch cannot compile it as one graph")
    assert done.exit == 0, message
    loops = re.findall(r"^train: (\d+) steps?", message, re.M)
    assert loops == ([] if kind == "functional" else ["12"])
    assert not re.search("^evaluation ", message, re.M)
    if kind == "functional":
        assert "no steps and no evaluation were recorded" in message
        assert "steps inside of a compiled function are not recorded" in message
        assert "compiled of functional" in message
