"""A value that is looked at while a graph is traced leaves nothing in the graph."""

from __future__ import annotations

from typing import Any

import pytest

from injector.measure.values import Store

torch = pytest.importorskip("torch")


class Recorder:
    folder = None

    def __init__(self) -> None:
        self.values: list[Any] = []

    def emit_values(self, series: str, t_ns: int, value: Any) -> None:
        self.values.append(value)

    def emit(self, event: str, data: object) -> None: ...

    path = None


def test_traced(recwarn: pytest.WarningsRecorder) -> None:
    recorder = Recorder()
    store = Store("x", recorder, lambda series, value: None)

    def function(x: Any) -> Any:
        y = x * 2
        store.put(y)
        return y

    graph = torch.fx.symbolic_trace(function).graph
    assert [node.op for node in graph.nodes] == ["placeholder", "call_function", "output"]
    recwarn.clear()
    traced = torch.jit.trace(function, torch.ones(1), check_trace=False)
    assert traced.code.endswith("  return torch.mul(x, CONSTANTS.c0)\n")
    assert not [w for w in recwarn if "Tracer" in w.category.__name__]
    assert recorder.values == []
    function(torch.ones(1))
    assert recorder.values == [2.0]
