"""torch.compile sees the program as it was written."""

from __future__ import annotations

import builtins
import importlib

import pytest

torch = pytest.importorskip("torch")

TEXT = """
import torch
def helper(x):
    out = torch.relu(x)
    return out
def several(xs):
    for x in xs:
        yield x * 2
class Base(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
    def forward(self, x):
        y = self.layer(x)
        loss = helper(y)
        total = sum(v for v in several([loss, loss]))
        for i in range(2):
            loss = loss + i
        if x.dim() == 5:
            maybe = 3
        z = [a * 2 for a in (loss, loss)]
        return total.sum() + loss.sum() + z[0].sum()
class Model(Base):
    pass
def finish(x):
    try:
        y = x + 1
        return y
    finally:
        done = True
def broken(x):
    y = x + 1
    print("break")
    z = y * 2
    return z
"""

EVERYTHING = [
    ("Base.forward", "y", ()),
    ("Base.forward", "loss", ("x",)),
    ("Base.forward", "loss", ("maybe",)),
    ("Base.forward", "i", ()),
    ("Base.forward", "a", ()),
    ("Base.forward", "#enter", ()),
    ("Base.forward", "#exit", ()),
    ("Base.forward", "#value", ()),
    ("Base.forward", "#error", ()),
    ("Base.forward", "#scope", ()),
    ("Base.forward", "#loop_i", ()),
    ("Base.forward", "#endloop_i", ()),
    ("helper", "torch", ()),
    ("helper", "out", ()),
    ("helper", "#value", ()),
    ("several", "#yield", ()),
    ("several", "x", ()),
    ("Model.forward", "loss", ()),
    ("Model.forward", "loss", ("maybe",)),
    ("Model.forward", "#exit", ()),
    ("Model.forward", "#scope", ()),
    ("finish", "y", ()),
    ("finish", "#exit", ()),
    ("finish", "done", ()),
    ("broken", "y", ()),
    ("broken", "#exit", ()),
    ("broken", "z", ()),
]


@pytest.fixture
def graphs():
    """Counts what is compiled: ``graphs(function, *args)`` gives result and nodes of each graph."""

    def run(function, *arguments, fullgraph=True, times=3):
        torch._dynamo.reset()
        seen = []

        def backend(graph, _):
            seen.append([str(node.target) for node in graph.graph.nodes])
            return graph.forward

        compiled = torch.compile(function, backend=backend, fullgraph=fullgraph)
        for _ in range(times):
            result = compiled(*arguments)
        return result, seen

    yield run
    torch._dynamo.reset()


def ask(woven, name):
    requests = []
    for path, variable, captures in EVERYTHING:
        requests.append(woven.request(name, path, variable, captures=captures))
    woven.engine.add(requests)


@pytest.mark.parametrize("when", ["before", "after"])
def test_graphs_are_those_of_the_plain_program(woven, module, graphs, when, capsys):
    module("net_plain", TEXT)
    module("net", TEXT)
    plain = importlib.import_module("net_plain")
    x = torch.ones(2, 3)
    if when == "after":
        made = importlib.import_module("net")
        graphs(made.finish, x)
    ask(woven, "net")
    made = importlib.import_module("net")
    theirs, ours = plain.Model(), made.Model()
    ours.load_state_dict(theirs.state_dict())
    woven.take()
    for function, same, full in (
        (theirs, ours, True),
        (plain.finish, made.finish, True),
        (plain.broken, made.broken, False),
    ):
        expected, nodes = graphs(function, x, fullgraph=full)
        result, seen = graphs(same, x, fullgraph=full)
        assert torch.equal(result, expected) and seen == nodes
    assert not woven.misses()
    assert {event[0] for event in woven.take()} <= {"#exit", "z"}, "only what runs uncompiled"
    compiled = {name for file, name in woven.engine.compiled if file == made.__file__}
    assert {"Base.forward", "helper", "finish"} <= compiled


def test_hooks_fire_outside_of_compiled_regions(woven, module, graphs):
    module("net", TEXT)
    ask(woven, "net")
    made = importlib.import_module("net")
    x, model = torch.ones(2, 3), made.Model()
    model(x)
    before = woven.take()
    graphs(model, x)
    assert woven.take() == []
    model(x)
    assert [event[0] for event in woven.take()] == [event[0] for event in before]


def test_hooks_defined_later_and_exchanged_ones_compile_nothing_anew(woven, module, graphs):

    made = module("net", TEXT, load=True)
    x = torch.ones(2, 3)
    graphs(made.helper, x)
    request = woven.add("net", "helper", "out")
    compiled = []

    def backend(graph, _):
        compiled.append(graph)
        return graph.forward

    function = torch.compile(made.helper, backend=backend, fullgraph=True)
    function(x)

    def other(value):
        woven.events.append(("other", value))
        return value

    woven.engine.on_hook_defined(other)
    builtins.__dict__[request.hook] = other
    function(x)
    assert len(compiled) == 1 and woven.take() == []
    made.helper(x)
    assert woven.take()[0][0] == "other"


def test_an_override_is_traced_when_it_can_be(woven, module, graphs):
    module("net", TEXT)
    request = woven.add("net", "helper", "out", change=lambda value: value * 3)

    woven.engine.on_hook_defined(builtins.__dict__[request.hook], lambda value: value * 3)
    made = importlib.import_module("net")
    result, seen = graphs(made.helper, torch.ones(2))
    assert torch.equal(result, torch.full((2,), 3.0)) and len(seen) == 1


def test_a_wrapped_operator_is_the_operator_in_the_graph(woven, module, graphs, monkeypatch):
    module("net_plain", TEXT)
    plain = importlib.import_module("net_plain")
    x = torch.ones(2, 3)
    monkeypatch.setattr(torch, "relu", torch.relu)
    _, nodes = graphs(plain.helper, x)
    woven.add("torch", "relu", "#enter")
    result, seen = graphs(plain.helper, x)
    assert seen == nodes and torch.equal(result, x)
    woven.take()
    plain.helper(x)
    assert woven.take() == [("#enter", True)]


def test_a_module_object(woven, module):
    made = module("net", TEXT, load=True)
    one, two = made.Model(), made.Model()
    woven.engine.attach(one.forward, woven.request("", "", "y"))
    woven.engine.attach(one, woven.request("", "", "#enter"))
    x = torch.ones(2, 3)
    one(x), two(x)
    assert [event[0] for event in woven.take()] == ["#enter", "y"]


SENDING = """
import torch
def send(x):
    return x.to(torch.float64).to("cpu") + move(x)
def move(x):
    return x.cuda() if x.dim() == 5 else x.to(torch.float64)
"""


def test_calls_of_methods_are_not_in_the_graph(woven, module, graphs):
    called = []
    for name in ("injector:.to", "injector:.to="):
        vars(builtins)[name] = lambda value: called.append(value) or value
        woven.hooks.append(name)
    module("sending_plain", SENDING)
    module("sending", SENDING)
    plain = importlib.import_module("sending_plain")
    woven.engine.add_method("to")
    made = importlib.import_module("sending")
    x = torch.ones(3)
    made.send(x)
    assert len(called) == 6
    called.clear()
    expected, nodes = graphs(plain.send, x)
    result, seen = graphs(made.send, x)
    assert torch.equal(result, expected) and seen == nodes and len(seen) == 1
    assert called == []
