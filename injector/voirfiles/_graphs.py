"""What graphs of TensorFlow do, learnt while they are traced. Its voirfile and that of Keras share this.

It is imported once TensorFlow has been.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, ref

from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context
from tensorflow.python.framework import dtypes, ops
from tensorflow.python.ops import control_flow_v2_func_graphs
from tensorflow.python.util import nest

is_eager: Any = context.executing_eagerly
current: Any = ops.get_default_graph

EVALUATES, DIFFERENTIATES, LOOPS, TRAINS = range(1, 5)
"""What a graph does, the larger the more: it calls a model, derives gradients, updates in a loop, or once."""
_effects: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_assigned: WeakKeyDictionary[Any, set[Any]] = WeakKeyDictionary()
"""The shapes of the variables that graphs assign to which derive no gradients; of numbers none."""
_gradients: dict[int, Any] = {}
"""Weak references, by ``id``, to what graphs returned that derive gradients and update nothing."""
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


def note_assignment(variable: Any) -> None:
    """Note that the traced graph assigns to ``variable``: if it derives gradients, it updates weights."""
    if effect_of(current()) >= DIFFERENTIATES:
        note_effect(TRAINS)
    elif variable.shape.rank:
        _assigned.setdefault(current(), set()).add(tuple(variable.shape))


def keep_gradients(graph: Any, result: Any) -> None:
    """Remember what a call of ``graph`` returned, if it derives gradients for something else to use."""
    if effect_of(graph) == DIFFERENTIATES:
        for each in nest.flatten(result):
            if isinstance(each, ops.EagerTensor):
                key = id(each)
                _gradients[key] = ref(each, partial(_forget, key))


def _forget(key: int, _: Any) -> None:
    _gradients.pop(key, None)


def learn_update(graph: Any, inputs: Any) -> bool:
    """Learn that ``graph`` updates weights: it assigns to what is shaped like gradients in its ``inputs``.

    Always True.
    """
    shapes = _assigned.get(graph)
    if shapes and any(is_gradient(each) and tuple(each.shape) in shapes for each in inputs):
        del _assigned[graph]
        _effects[graph] = TRAINS
    return True


def is_gradient(tensor: Any) -> bool:
    """Whether ``tensor`` was returned by a graph that derives gradients, be it beside them."""
    watch = _gradients.get(id(tensor))
    return watch is not None and watch() is tensor


def leading_size(tensors: Any) -> int:
    """The items of a batch: the first dimension of its first two tensors; 0 if these differ."""
    items = 0
    for tensor in tensors:
        if _gradients and is_gradient(tensor):
            continue  # it may have the shape of weights
        shape: Any = getattr(tensor, "_shape_tuple", tuple)()
        if not shape or tensor.dtype in _OPAQUE:
            continue
        if items:
            return items if shape[0] == items else 0
        items = shape[0] or 0
    return items
