"""What the graphs of TensorFlow do: learnt once, while they are traced, and known at each call.

The voirfiles of TensorFlow and of Keras share it. TensorFlow is imported already where this is.
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
"""What a graph does at most: it calls a model, derives gradients, makes any number of updates, makes one."""
_does: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_BODY = control_flow_v2_func_graphs.WhileBodyFuncGraph
_OPAQUE = (dtypes.resource, dtypes.variant)


calls = [0]
"""How many calls of their own there were: of models, of gradients, of optimizers."""


covered: list[str] = []
"""What is going on that a library records as a whole: what it has compiled is a part of that."""


def is_taped() -> bool:
    """Whether a tape of this thread records what is computed: a model that is called now is trained."""
    return not pywrap_tfe.TFE_Py_TapeSetIsEmpty()


def note(what: int) -> bool:
    """Whether this is a call of its own; else it is being traced, and the graphs around it do ``what``."""
    if is_eager():
        calls[0] += 1
        return True
    graph = current()
    while graph is not None:
        if _does.get(graph, 0) < what:
            _does[graph] = what
        if what == TRAINS and (isinstance(graph, _BODY) or "Dataset" in getattr(graph, "name", "")):
            what = LOOPS  # `for batch in dataset` within a function: one call makes many updates
        graph = getattr(graph, "outer_graph", None)
    return False


def does(graph: Any) -> int:
    """What a graph does, 0 for anything else."""
    return _does.get(graph, 0)


def leading(tensors: Any) -> int:
    """The items of a batch: the first dimension of its first two tensors, 0 where they differ."""
    found = 0
    for tensor in tensors:
        shape: Any = getattr(tensor, "_shape_tuple", tuple)()
        if not shape or tensor.dtype in _OPAQUE:
            continue
        if found:
            return found if shape[0] == found else 0
        found = shape[0] or 0
    return found
