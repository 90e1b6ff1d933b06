"""Tensors that are read from C: the same numbers, and nothing where somebody listens."""

from __future__ import annotations

import threading

import pytest

torch = pytest.importorskip("torch")

from injector.probe import compiled  # noqa: E402
from injector.voirfiles import _batches, _tokens  # noqa: E402

native = pytest.mark.skipif(not compiled.NATIVE, reason="nothing is compiled")


@pytest.fixture(params=["shown", "asked"])
def way(request, monkeypatch):
    if request.param == "asked":
        monkeypatch.delattr(torch.Tensor, "__dlpack_c_exchange_api__", raising=False)
    elif not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("from 2.10 on")
    compiled.learn_tensors(torch)
    yield request.param
    monkeypatch.undo()
    compiled.learn_tensors(torch)


@pytest.fixture
def number(way):
    return compiled.Shortcut("number", lambda tensor: "slow", {})


@native
def test_the_number_in_a_tensor(number):
    for value in (
        torch.tensor(1.5),
        torch.tensor([[2.5]]),
        torch.tensor(-3.25, dtype=torch.float64),
    ):
        assert number(value) == value.item()
    graph = (torch.ones(3, requires_grad=True) * 2).sum()
    assert number(graph) == 6.0
    assert number(torch.arange(4.0)[2]) == 2.0, "an offset into the memory of another tensor"


@native
def test_what_is_no_plain_number_of_the_host_is_left_to_python(number):
    negative = torch.complex(torch.tensor(1.0), torch.tensor(2.0)).conj().imag
    assert negative.is_neg()
    others = [torch.ones(2), torch.tensor(3), torch.tensor(1.0, dtype=torch.bfloat16), negative]
    others += [torch.empty((), device="meta"), torch.nn.Parameter(torch.tensor(1.0)), 7.0, None]
    assert [number(other) for other in others] == ["slow"] * len(others)
    seen = []
    torch.func.vmap(lambda row: seen.append(number(row.sum())) or row)(torch.ones(2, 3))
    assert seen == ["slow"]


@native
def test_who_listens_to_tensors_hears_nothing(number):
    """In a mode torch makes the call of the program anew, without the mode: Python knows which one counts."""
    heard = []

    class Listening(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            heard.append(function)
            return function(*args, **(kwargs or {}))

    loss, part = torch.tensor(1.0), torch.arange(4.0)[3]
    with Listening():
        assert [number(loss), number(part)] == ["slow", "slow"]
    assert number(loss) == 1.0
    assert not heard


@native
def test_a_trace_has_nothing_of_it(number):
    model = torch.nn.Linear(3, 3).requires_grad_(False)
    both = compiled.Pair(_batches.items, 100, _tokens.tokens, 100)

    def traced(rows, words):
        number(rows.sum())
        made = model(rows)
        both(made, model, (rows,), {})
        both(words, model, (words,), {})
        return made

    values = torch.ones(4, 3), torch.ones(4, 3, dtype=torch.int64)
    traced(*values)  # what the model is made of is known
    graph = torch.jit.trace(traced, values, check_trace=False).graph
    kinds = {node.kind() for node in graph.nodes()}
    assert "aten::linear" in kinds
    assert kinds.isdisjoint(["aten::size", "aten::numel", "aten::item", "aten::is_neg"])


@native
def test_whether_a_thread_has_set_something():
    local, seen = threading.local(), []
    unset = compiled.Shortcut("unset", lambda: "slow", {"context": local})

    def look():
        seen.append(unset())
        local.context = 1
        seen.append(unset())
        local.context = None
        seen.append(unset())
        local.context = 2

    for _ in range(2):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert unset() is True, "what another thread has set"
    look()
    assert seen == [True, False, True] * 3
    assert unset() is False
    assert compiled.Shortcut("unset", lambda: "slow", {})() == "slow"


@native
def test_a_shortcut_gives_what_its_function_does(way):
    inner = torch.nn.Linear(6, 3)
    recurrent = torch.nn.GRU(6, 3)
    table = torch.nn.Embedding(9, 4)
    loss = torch.nn.MSELoss()
    calls = [
        (inner, (torch.ones(5, 6),)),
        (inner, (torch.ones(1, 6),)),
        (inner, (torch.ones(6),)),
        (inner, (torch.ones(4, 5, 6),)),
        (recurrent, (torch.ones(7, 2, 6),)),
        (table, (torch.zeros(3, 8, dtype=torch.int64),)),
        (table, (torch.zeros(8, dtype=torch.int32),)),
        (loss, (torch.ones(5, 1), torch.ones(5, 1))),
        (loss, (torch.ones(1, 5), torch.ones(1, 5))),
        (loss, (torch.tensor(1.0), torch.tensor(2.0))),
    ]
    for model, args in calls:
        result = model(*args)
        for _ in range(2):  # from the second time on, what the model is made of is known
            for quick in (_batches.items, _tokens.tokens):
                values = (result, model, args, {})
                assert quick(*values) == quick.__wrapped__(*values), (model, args[0].shape)
            both = compiled.Pair(_batches.items, 1 << 20, _tokens.tokens, 1 << 20)
            separately = _batches.items(*values) | _tokens.tokens(*values) << 21
            assert both(*values) == separately, (model, args[0].shape)


@native
def test_a_model_at_the_place_of_one_that_is_gone(way):
    """What was plain of a model is of that model alone."""
    rows = torch.ones(5, 7, 6)
    for _ in range(20):
        for model in (torch.nn.Linear(6, 3), torch.nn.GRU(6, 3)):
            result = model(rows)
            for _ in range(2):
                values = (result, model, (rows,), {})
                assert _batches.items(*values) == _batches.items.__wrapped__(*values)
            del model, values, result
