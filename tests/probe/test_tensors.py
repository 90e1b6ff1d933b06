"""Tensors that are read from C: the same numbers, and nothing where somebody listens."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from injector.probe import compiled  # noqa: E402
from injector.voirfiles import _batches  # noqa: E402

native = pytest.mark.skipif(not compiled.NATIVE, reason="nothing is compiled")


@pytest.fixture
def number():
    compiled.learn_tensors(torch)
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
    heard = []

    class Listening(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            heard.append(function)
            return function(*args, **(kwargs or {}))

    loss = torch.tensor(1.0)
    with Listening():
        assert number(loss) == "slow"
    assert not heard


@native
def test_a_shortcut_gives_what_its_function_does():
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
            for quick in (_batches.items, _batches.tokens):
                values = (result, model, args, {})
                assert quick(*values) == quick.__wrapped__(*values), (model, args[0].shape)
