"""What graphs of TensorFlow do, learnt while they are traced. Its voirfile and that of Keras share this.

It is imported once TensorFlow has been.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context
from tensorflow.python.framework import dtypes, ops
from tensorflow.python.ops import control_flow_v2_func_graphs

is_eager: Any = context.executing_eagerly
current: Any = ops.get_default_graph

EVALUATES, DIFFERENTIATES, LOOPS, TRAINS = range(1, 5)
"""What a graph does, the larger the more: it calls a model, derives gradients, updates in a loop, or once."""
_effects: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_BODY = control_flow_v2_func_graphs.WhileBodyFuncGraph
_OPAQUE = (dtypes.resource, dtypes.variant)

own_calls = [0]
"""How many calls of models, gradients and optimizers there were outside of graphs."""
covered: list[str] = []
"""Not empty while a library records a whole step: the compiled functions that it calls are parts of that."""


def is_taped() -> bool:
    """Whether a tape of this thread records operations: a model that is called now is trained."""
    return not pywrap_tfe.TFE_Py_TapeSetIsEmpty()


def note_effect(what: int) -> bool:
    """Whether this call is executed now; else note ``what`` as an effect of the graphs that are traced."""
    if is_eager():
        own_calls[0] += 1
        return True
    graph = current()
    while graph is not None:
        if _effects.get(graph, 0) < what:
            _effects[graph] = what
        if what == TRAINS and (isinstance(graph, _BODY) or "Dataset" in getattr(graph, "name", "")):
            what = LOOPS  # `for batch in dataset` within a function: one call makes many updates
        graph = getattr(graph, "outer_graph", None)
    return False


def effect_of(graph: Any) -> int:
    """The largest effect of a graph; 0 if none is known."""
    return _effects.get(graph, 0)


def leading_size(tensors: Any) -> int:
    """The items of a batch: the first dimension of its first two tensors; 0 if these differ."""
    items = 0
    for tensor in tensors:
        shape: Any = getattr(tensor, "_shape_tuple", tuple)()
        if not shape or tensor.dtype in _OPAQUE:
            continue
        if items:
            return items if shape[0] == items else 0
        items = shape[0] or 0
    return items
