"""How many items a batch of PyTorch holds, from its own attributes or its model.

Usually the first dimension of a tensor is that of the batch. But it may be time, where recurrent modules and
attention have the batch second; nodes, where several graphs are joined; or features, where a single
observation is no batch. 0 stands for a number that is not known.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import ref

import torch

from injector.probe.compiled import Shortcut as shortcut
from injector.probe.compiled import learn_tensors

__all__ = ["shortcut"]
DEPTH = 6
"""Levels of tuples, mappings and objects in a batch that are searched for tensors."""
MOST_NODES = 2_000
"""Nodes of autograd's graph that are searched, at most, for which dimension is the batch."""
TRIES = 3
"""Calls of one model in which that graph is searched."""
NAMES = ("num_graphs", "batch_size")
"""Attributes in which a batch may hold the number of its items."""

_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
INTEGERS = (torch.int64, torch.int32)
# The function in C; if a version should lack it, torch.jit's in Python.
_jit: Any = torch.jit
is_traced: Any = getattr(torch._C, "_is_tracing", None) or _jit.is_tracing


def forget(known: dict[int, Any], key: int, _: object) -> None:
    """Remove ``key``, whose object died. That may happen when the interpreter ends and this module's names
    are gone, so all it needs is bound to it by ``partial``.
    """
    known.pop(key, None)


# --- what a batch says ----------------------------------------------------------------------------


def stated_items(batch: Any) -> int:
    """The items that a batch states itself: of joined graphs, packed sequences, a TensorDict; else 0."""
    kind = type(batch)
    if kind.__module__ == "builtins" or issubclass(kind, _Tensor):
        return 0
    if kind is torch.nn.utils.rnn.PackedSequence:
        return int(batch.batch_sizes[0])  # always in the host's memory
    for name in NAMES:
        if not hasattr(kind, name) and name not in attributes(batch):
            continue
        # A property may compute its value: on a device, that would wait for it.
        tensor = first_with_dimensions(batch, DEPTH)
        if tensor is not None and not tensor.is_cpu and name not in attributes(batch):
            continue
        try:
            number = getattr(batch, name)
        except Exception:  # a property of the program's may raise anything
            continue
        if isinstance(number, tuple):
            number = number[0] if number else 0
        if type(number) is int and number > 0:
            return number
    return 0


def attributes(value: Any) -> dict[str, Any]:
    """The ``__dict__`` of an object, read so that none of the program's code runs; {} if it has none."""
    try:
        attributes: dict[str, Any] = object.__getattribute__(value, "__dict__")
        return attributes
    except AttributeError:
        return {}


# --- models ---------------------------------------------------------------------------------------


class Layout:
    """What the modules of a model tell of its batches."""

    def __init__(self, model: Any) -> None:
        self.has_bags = False
        """Whether it has an EmbeddingBag, whose input of one dimension is words of several items."""
        self.is_sequential = False
        """Whether it has recurrent modules or attention, so that the first dimension may be time."""
        self.in_features: int | None = None
        """Features that its first linear layer expects."""
        self.axis: int | None = None
        """Which dimension is the batch, once that is known."""
        self.tries_left = TRIES
        """In how many calls the graph may still be searched for it."""
        self.kind: tuple[Any, ...] = ()
        """Class and settings: models that share them have the same axis."""
        self.is_torchs_own = False
        """Whether it is a recurrent module or a transformer of torch itself, and no model around one."""
        while len(model._modules) == 1 and (inner := wrapped(model)) is not None:
            model = inner
        todo = [model]
        while todo:
            module = todo.pop()
            self._note(module, _is_torchs_own(model))
            todo += [child for child in reversed(module._modules.values()) if child is not None]
        if not type(model).__module__.startswith("torch."):
            settings = [
                (name, value)
                for name, value in vars(model).items()
                if type(value) in (bool, int, str) and name != "training"
            ]
            self.kind = (type(model).__module__, type(model).__qualname__, *settings, *self.kind)
            self.axis = _axis_by_kind.get(self.kind) if self.axis is None else self.axis

    def _note(self, module: Any, is_torchs_own: bool) -> None:
        """Note what one of the model's modules tells. ``is_torchs_own``: the model is one of torch itself."""
        compiled = _compiled_class(module)
        if compiled in _SEQUENCE_CLASSES:
            self.is_sequential = True  # it has no attribute batch_first; the gradients tell
        if isinstance(module, (torch.nn.RNNBase, torch.nn.MultiheadAttention)):
            self.is_sequential = True
            self.kind += (module.batch_first,)
            if is_torchs_own:
                self.is_torchs_own, self.axis = True, 0 if module.batch_first else 1
        if isinstance(module, torch.nn.EmbeddingBag) or compiled == "EmbeddingBag":
            self.has_bags = True
        is_linear = isinstance(module, torch.nn.Linear) or compiled == "Linear"
        if self.in_features is None and is_linear:
            self.in_features = module.weight.shape[1]


_SEQUENCE_CLASSES = frozenset(("RNN", "LSTM", "GRU", "MultiheadAttention"))


def _compiled_class(module: Any) -> str:
    """The name of the class that torch.jit scripted or traced ``module`` from; "" for other modules."""
    return str(module.original_name) if isinstance(module, torch.jit.ScriptModule) else ""


def wrapped(model: Any) -> Any:
    """The model within a wrapper that compiles or distributes it, or None."""
    modules = model._modules  # a scripted module's is no dict
    return next((modules[name] for name in ("_orig_mod", "module") if name in modules), None)


def _is_torchs_own(model: Any) -> bool:
    return type(model).__module__ in (
        "torch.nn.modules.rnn",
        "torch.nn.modules.transformer",
        "torch.nn.modules.activation",
    )


_axis_by_kind: dict[tuple[Any, ...], int] = {}
"""Learnt by training one model, for others of its kind: one that is loaded only to be evaluated."""
_layouts: dict[int, tuple[Any, Layout, bool]] = {}
"""By ``id`` of a model: a weak reference to it, its layout, and whether its batch is surely the first
dimension. The shortcut in C reads the first and the last of these."""


def _layout(model: Any) -> Layout:
    """The layout of ``model``, made when it is called for the first time."""
    key = id(model)
    entry = _layouts.get(key)
    if entry is None:
        layout = Layout(model)
        watch = ref(model, partial(forget, _layouts, key))
        entry = _layouts[key] = watch, layout, not layout.is_sequential
    return entry[1]


# This and what finds tokens (`_tokens`) are called at every call of a model. They take all of its variables,
# in the same order: then nothing has to be picked out for each of them.


def _items(result: Any, self: Any, args: Any, kwargs: Any) -> int:
    """The items that the model ``self`` was called with when it returned ``result``."""
    first = args[0] if args else None
    if type(first) is not _Tensor:
        batch = first if args else next(iter(kwargs.values()), None)
        if batch is not None and (number := stated_items(batch)):
            return number
        first = first_with_dimensions((args, kwargs), DEPTH)
        if _is_list_of_objects(batch):
            return 0 if is_traced() else _items_of_objects(batch, first, result)
    if is_traced():  # reading a shape would become part of the graph
        return 0
    if first is None:
        return _items_of_arrays((*args, *kwargs.values()), result)
    shape = first.shape or _shape(first_with_dimensions((args[1:], kwargs), DEPTH))
    size = shape[0] if shape else 0
    if type(size) is not int:
        return 0
    entry = _layouts.get(id(self))
    if entry is None and not (self._parameters or self._modules):
        # A module without weights is no model: a loss, or a constraint, which may be of a single number.
        return size if size != 1 else 0
    layout = _layout(self) if entry is None else entry[1]
    if layout.is_sequential:
        return _items_of_sequences(layout, first, shape, result)
    if len(shape) == 1:
        return _items_of_vector(layout, first, size, result)
    shape_out = result.shape if type(result) is _Tensor else None
    if shape_out and shape_out[0] == size:
        return 0 if len(args) > 1 and _is_graph(first, args[1]) else size  # nearly every model
    return size if _agrees_with_result(size, result) else 0


learn_tensors(torch)
items = shortcut("items", _items, _layouts)


def _is_list_of_objects(batch: Any) -> bool:
    """Whether ``batch`` is a list of several mappings or objects of one class, each with tensors in it."""
    if type(batch) is not list or len(batch) < 2:
        return False
    kind = type(batch[0])
    return (
        all(type(each) is kind for each in batch)
        and (kind is dict or kind.__module__ != "builtins")
        and not issubclass(kind, (_Tensor, torch.nn.Module))
    )


def _items_of_objects(batch: Any, first: Any, result: Any) -> int:
    """The items of a list of objects, of which ``first`` is the first tensor.

    Each may be one of several graphs of some nodes, or of several inputs with a whole batch: as many results
    tell. Without them nothing is sure.
    """
    rows = [tensor.shape[0] for tensor in tensors(result, 3) if tensor.dim()][:8]
    size = 0 if first is None else first.shape[0]
    return next((number for number in (len(batch), size) if number in rows), 0)


def _items_of_arrays(inputs: Any, result: Any) -> int:
    """The items of the first of ``inputs`` that is an array of NumPy with rows, as Keras passes it on."""
    arrays = (each for each in inputs if type(each).__module__ == "numpy")
    size = next((each.shape[0] for each in arrays if len(getattr(each, "shape", ())) > 1), 0)
    return size if size and _agrees_with_result(size, result) else 0


def _is_graph(nodes: Any, edges: Any) -> bool:
    """Whether a model is called with features of nodes, and edges: two rows of indices or a matrix."""
    if type(edges) is not _Tensor or edges.dim() != 2 or not nodes.is_floating_point():
        return False
    size = nodes.shape[0]
    if edges.shape[0] == edges.shape[1] == size:
        return bool(edges.is_floating_point()) and nodes.dim() == 2
    return edges.shape[0] == 2 != size and edges.dtype in INTEGERS


def _agrees_with_result(size: int, result: Any) -> bool:
    """Whether ``size`` items may have made ``result``: a tensor in it has that size, or a multiple of it, as
    with several outputs an item; or it has no tensors.
    """
    shapes = [tensor.shape for tensor in tensors(result, 3)][:8]
    shapes = [shape for shape in shapes if shape]
    return not shapes or any(
        size in shape[:2] or (size > 1 and shape[0] % size == 0) for shape in shapes
    )


def _items_of_vector(layout: Layout, first: Any, size: int, result: Any) -> int:
    """The items of a tensor of one dimension, if there are as many results: one number an item.

    A single observation, or a sentence, is no batch.
    """
    if layout.has_bags or (first.is_floating_point() and layout.in_features == size):
        return 0
    has_as_many = any(tensor.shape[:1] == (size,) for tensor in tensors(result, 3))
    return size if has_as_many else 0


def _items_of_sequences(layout: Layout, first: Any, shape: Any, result: Any) -> int:
    """The items of a model with recurrent modules or attention, whose first dimension may be time.

    The axis is learnt from autograd's graph of a training call. Otherwise the result may tell, if only one of
    both dimensions is left in it.
    """
    if layout.is_torchs_own:
        return shape[layout.axis] if len(shape) == 3 else 0
    if len(shape) < 2 or shape[0] == shape[1]:
        return shape[0] if len(shape) > 1 else 0
    if layout.axis is None:
        output = next(iter(tensors(result, 3)), None)
        if output is None:
            return 0
        if len(shape) < 4 and layout.tries_left and output.requires_grad:
            layout.tries_left -= 1
            layout.axis = _axis_by_graph(output, shape[0], shape[1])
            if layout.axis is not None and layout.kind and isinstance(layout.kind[0], str):
                _axis_by_kind[layout.kind] = layout.axis
        if layout.axis is None and (len(shape) > 2 or first.dtype in INTEGERS):
            return _items_by_result(shape[0], shape[1], output.shape)
    return 0 if layout.axis is None else int(shape[layout.axis])


def _axis_by_graph(result: Any, first: int, second: int) -> int | None:
    """Which of the first two dimensions, of these sizes, the modules that made ``result`` took for the batch.

    Searches autograd's graph, from the result on, for an operation on sequences. None if there is none, or if
    both dimensions may be the batch.
    """
    for node, shape in nodes_of_graph(result):
        if len(shape) > 2 and (sizes := _batch_of(node, shape)):
            batch, time = sizes
            if time is None:
                axis = 0 if batch == first else 1 if batch == second else None
            else:
                is_first = batch % first == 0 and time == second
                is_second = batch % second == 0 and time == first
                axis = int(is_second) if is_first != is_second else None
            if axis is not None:
                return axis
    return None


def nodes_of_graph(result: Any) -> Any:
    """The operations in autograd's graph of ``result``, nearest first, each with the shape of its output."""
    todo: list[Any] = [result.grad_fn]
    seen: set[Any] = set()
    while todo and len(seen) < MOST_NODES:
        node = todo.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        shapes = [getattr(each, "shape", ()) for each in getattr(node, "_input_metadata", ())[:1]]
        yield node, shapes[0] if shapes else ()
        todo += [after for after, _ in node.next_functions]


def _batch_of(node: Any, shape: Any) -> tuple[int, int | None] | None:
    """The size of the batch in the output of ``node``, and of time if it is known there.

    Matrix products of attention have the heads in the first dimension, too: a multiple of the batch.
    """
    name = node.name()
    if "Rnn" in name:
        return shape[1], None
    if name.startswith("Stack"):
        # What is stacked are results of one moment each, along the dimension of time.
        time = node._saved_dim
        if time >= 2**63:  # a negative one is saved without its sign
            time += len(shape) - 2**64
        return (shape[1 - time], None) if time < 2 else None
    if name.startswith("ScaledDotProduct"):
        return shape[0], None
    return (shape[0], shape[1]) if name.startswith(("Bmm", "Baddbmm")) else None


def _items_by_result(first: int, second: int, shape: Any) -> int:
    """``first`` or ``second``, whichever alone is left in the ``shape`` of a result; else 0."""
    if shape and shape[0] == first and shape[1:2] != (second,):
        return first
    return second if shape and shape[0] == second and shape[1:2] != (first,) else 0


def _shape(tensor: Any) -> Any:
    return () if tensor is None else tensor.shape


def first_with_dimensions(value: Any, depth: int) -> Any:
    """The first tensor in ``value`` that is no scalar, or None.

    Weights that a loss is called with before its batch, as those of a vocabulary are, have no items: they
    count only where nothing else is there.
    """
    weights = None
    for tensor in tensors(value, depth):
        if tensor.dim():
            if not issubclass(type(tensor), _Parameter):
                return tensor
            weights = tensor if weights is None else weights
    return weights


def tensors(value: Any, depth: int) -> Any:
    """The tensors in nested tuples, lists, mappings and plain objects, down to so many levels."""
    if issubclass(type(value), _Tensor):
        yield value
    elif depth:
        for part in _parts(value):
            yield from tensors(part, depth - 1)


def _parts(value: Any) -> list[Any]:
    """The first elements or attributes of a value; of text, numbers and modules none."""
    # isinstance would read __class__ of the object, which may run the program's code.
    kind = type(value)
    if issubclass(kind, (str, bytes, int, float, torch.nn.Module, type(None))):
        return []
    if issubclass(kind, dict):
        return list(value.values())[:16]
    if issubclass(kind, (tuple, list)):
        return list(value[:8])
    return list(attributes(value).values())[:16]
