"""How many items a batch of PyTorch holds: what its loader drew, what it says itself, what its model shows.

The first dimension is that of the batch where nothing speaks against it. It is time where recurrent
modules and attention have their batch second, nodes where several graphs are one, features where a single
observation is no batch at all. 0 stands for a number that is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import length_hint
from typing import Any
from weakref import ref

import torch

from injector.probe.compiled import Shortcut as shortcut
from injector.probe.compiled import learn_tensors

__all__ = ["shortcut"]
DEPTH = 6
MOST = 2_000
"""Operations of a model that are looked at, once, to find out which dimension is the batch."""
TRIES = 3
"""Calls of one model in which that is tried."""
NAMES = ("num_graphs", "batch_size")
"""Attributes by which a batch says itself how many items it holds."""

_Tensor = torch.Tensor
_INTEGERS = (torch.int64, torch.int32)
# In C; without it (no such version is known) it is torch.jit's own, in Python.
_jit: Any = torch.jit
is_traced: Any = getattr(torch._C, "_is_tracing", None) or _jit.is_tracing


def _forget(known: dict[int, Any], key: int, _: object) -> None:
    """What ``key`` was of is gone: perhaps when the interpreter ends, and this module has no names left."""
    known.pop(key, None)


# --- loaders --------------------------------------------------------------------------------------

_drawn: dict[int, tuple[Any, dict[int, int]]] = {}
"""By identity of a loader's iterator, how many indices were drawn for which of its batches."""


def draw(result: Any, self: Any) -> None:
    """A loader has drawn the indices ``result`` of a batch, perhaps for a worker and ahead of time."""
    key = id(self)
    known = _drawn.get(key)
    if known is None:
        known = _drawn[key] = ref(self, partial(_forget, _drawn, key)), {}
        _announce(self, result)
    known[1][getattr(self, "_send_idx", 0)] = len(result) if type(result) in (list, tuple) else 0


_listeners: list[Callable[[Any, int], None]] = []
"""Functions that learn of a dataset how many batches a pass of its loader has."""
_lengths: dict[int, int] = {}


def on_length(tell: Callable[[Any, int], None]) -> None:
    """Have ``tell(dataset, batches)`` called when a pass begins that is as long as none before."""
    _listeners[:] = [tell]


def _announce(loader: Any, first: Any) -> None:
    try:
        batches = _length(loader, first) if type(first) is list else 0
    except AttributeError:  # a PyTorch that is made otherwise
        return
    if batches and _lengths.get(id(loader._dataset)) != batches:
        _lengths[id(loader._dataset)] = batches
        for tell in _listeners:
            tell(loader._dataset, batches)


def _length(loader: Any, first: list[Any]) -> int:
    """The batches of a pass that has begun with ``first``; 0 where nothing of PyTorch's own tells it.

    To ask the loader would call the dataset's ``__len__``, which is the program's.
    """
    batches = loader._index_sampler
    if type(batches) is not torch.utils.data.BatchSampler or loader._sampler_iter.gi_frame is None:
        return 0
    sampler, indices = batches.sampler, loader._sampler_iter.gi_frame.f_locals.get("sampler_iter")
    if type(indices) in _COUNTED:
        items = length_hint(indices) + len(first)
    elif type(sampler) is torch.utils.data.RandomSampler and hasattr(indices, "gi_frame"):
        inner = indices.gi_frame.f_locals if indices.gi_frame else {}
        items = sampler._num_samples or inner.get("n", 0)
    elif type(sampler) is torch.utils.data.SubsetRandomSampler:
        items = len(sampler.indices) if type(sampler.indices) in (list, range, tuple) else 0
    else:
        items = _attributes(sampler).get("num_samples", 0)
    size = batches.batch_size
    if type(items) is not int or type(size) is not int:
        return 0
    return items // size if batches.drop_last else -(-items // size)


_COUNTED: tuple[type, ...] = (type(iter(range(0))), type(iter([])), type(iter(())))
"""Iterators that know what is left of them."""


def fetched(result: Any, self: Any) -> int:
    """The items of the batch ``result``, as many as were drawn for it; 0 where it is of one index."""
    known = _drawn.get(id(self))
    if known is None or not known[1]:
        return 0
    sizes = known[1]
    at = getattr(self, "_rcvd_idx", 1) - 1
    size = sizes.pop(at if at in sizes else next(iter(sizes)))
    return _held(result, size) if size and self._dataset_kind else size


def _held(batch: Any, most: int) -> int:
    """The items of a batch of a stream: ``most`` are drawn each time, fewer at its end."""
    tensor = _search(batch, DEPTH)
    found = {stated_items(batch), len(batch) if type(batch) is list else 0}
    found.add(0 if tensor is None else tensor.shape[0])
    fewer = {number for number in found if 0 < number < most}
    return most if most in found or len(fewer) != 1 else fewer.pop()


# --- what a batch says ----------------------------------------------------------------------------


def stated_items(batch: Any) -> int:
    """The items that a batch says to hold: of graphs, of sequences that are packed, of a TensorDict."""
    kind = type(batch)
    if kind.__module__ == "builtins" or issubclass(kind, _Tensor):
        return 0
    if kind is torch.nn.utils.rnn.PackedSequence:
        return int(batch.batch_sizes[0])  # always in the host's memory
    for name in NAMES:
        # A property may compute: on a device, that would wait for it.
        if not hasattr(kind, name) and name not in _attributes(batch):
            continue
        tensor = _search(batch, DEPTH)
        if tensor is not None and not tensor.is_cpu and name not in _attributes(batch):
            continue
        try:
            found = getattr(batch, name)
        except Exception:  # its own affair
            continue
        if isinstance(found, tuple):
            found = found[0] if found else 0
        if type(found) is int and found > 0:
            return found
    return 0


def _attributes(value: Any) -> dict[str, Any]:
    try:
        found: dict[str, Any] = object.__getattribute__(value, "__dict__")
        return found
    except AttributeError:
        return {}


# --- models ---------------------------------------------------------------------------------------


class Layout:
    """What the modules of a model say of its batches."""

    __slots__ = ("axis", "bag", "itself", "kind", "timed", "tries", "width")

    def __init__(self, model: Any) -> None:
        self.bag = self.timed = False
        self.width: int | None = None
        """Features that its first layer expects."""
        self.axis: int | None = None
        """Which dimension is the batch, once that is known."""
        self.tries = TRIES
        """How often that may still be looked for."""
        self.kind: tuple[Any, ...] = ()
        """What it has in common with models that are made alike."""
        self.itself = False
        """Whether it is a recurrent module or a transformer of torch's own."""
        while len(model._modules) == 1 and (inner := _wrapped(model)) is not None:
            model = inner
        todo = [model]
        while todo:
            module = todo.pop()
            compiled = _compiled_class(module)
            if compiled in _SEQUENCE_CLASSES:
                self.timed = True  # its batch_first is gone, or a constant: the gradients tell
            if isinstance(module, (torch.nn.RNNBase, torch.nn.MultiheadAttention)):
                self.timed = True
                self.kind += (module.batch_first,)
                if _is_torchs(model):
                    self.itself, self.axis = True, 0 if module.batch_first else 1
            self.bag = (
                self.bag or isinstance(module, torch.nn.EmbeddingBag) or compiled == "EmbeddingBag"
            )
            if self.width is None and (isinstance(module, torch.nn.Linear) or compiled == "Linear"):
                self.width = module.weight.shape[1]
            todo += [each for each in reversed(module._modules.values()) if each is not None]
        if not type(model).__module__.startswith("torch."):
            own = [
                (name, own) for name, own in vars(model).items() if type(own) in (bool, int, str)
            ]
            own = [each for each in own if each[0] != "training"]
            self.kind = (type(model).__module__, type(model).__qualname__, *own, *self.kind)
            self.axis = _axes.get(self.kind) if self.axis is None else self.axis


_SEQUENCE_CLASSES = frozenset(("RNN", "LSTM", "GRU", "MultiheadAttention"))


def _compiled_class(module: Any) -> str:
    """The class that torch.jit has scripted or traced ``module`` from; "" for any other module."""
    return str(module.original_name) if isinstance(module, torch.jit.ScriptModule) else ""


def _wrapped(model: Any) -> Any:
    """The model in what compiles or distributes it."""
    modules = model._modules  # of a scripted module no dict
    return next((modules[name] for name in ("_orig_mod", "module") if name in modules), None)


def _is_torchs(model: Any) -> bool:
    return type(model).__module__ in (
        "torch.nn.modules.rnn",
        "torch.nn.modules.transformer",
        "torch.nn.modules.activation",
    )


_axes: dict[tuple[Any, ...], int] = {}
"""Found by training one model, for others of its class: one that is loaded only to be evaluated."""
_layouts: dict[int, tuple[Any, Layout, bool]] = {}
"""By identity of a model, which is not kept; and whether its batch is the first dimension for certain."""


def _layout(model: Any) -> Layout:
    key = id(model)
    known = _layouts.get(key)
    if known is None:
        layout = Layout(model)
        watch = ref(model, partial(_forget, _layouts, key))
        known = _layouts[key] = watch, layout, not layout.timed
    return known[1]


# The functions that are called at every call have all of its variables as parameters, in one order:
# then nothing needs to be sorted out for each of them.


def _items(result: Any, self: Any, args: Any, kwargs: Any) -> int:
    """The items that a model was called with when it made ``result`` of them."""
    first = args[0] if args else None
    if type(first) is not _Tensor:
        batch = first if args else next(iter(kwargs.values()), None)
        if batch is not None and (found := stated_items(batch)):
            return found
        first = _search((args, kwargs), DEPTH)
    if first is None or is_traced():  # looking at a shape would stand in the graph
        return 0
    shape = first.shape or _shape(_search((args[1:], kwargs), DEPTH))
    size = shape[0] if shape else 0
    if type(size) is not int:
        return 0
    known = _layouts.get(id(self))
    if known is None and not (self._parameters or self._modules):
        # What is called beside a model (a loss, a constraint of a number) says no more than others know.
        return size if size != 1 else 0
    layout = _layout(self) if known is None else known[1]
    if layout.timed:
        return _of_sequences(layout, first, shape, result)
    if len(shape) == 1:
        return _of_numbers(layout, first, size, result)
    made = result.shape if type(result) is _Tensor else None
    if made and made[0] == size:
        return 0 if len(args) > 1 and _is_graph(first, args[1]) else size  # nearly every model
    return size if _fits(size, result) else 0


def _tokens(result: Any, self: Any, args: Any, kwargs: Any) -> int:
    """The number of elements, where the model is called with a table of integers."""
    first = args[0] if args else None
    if type(first) is not _Tensor:
        first = _search((args, kwargs), DEPTH)
    if first is None or first.dtype not in _INTEGERS or first.dim() != 2 or is_traced():
        return 0
    size = first.numel()
    return size if type(size) is int else 0


learn_tensors(torch)
items = shortcut("items", _items, _layouts)
tokens = shortcut("tokens", _tokens, {})


def _is_graph(nodes: Any, edges: Any) -> bool:
    """Whether a model is called with the nodes of a graph, or of several, and the edges between them."""
    return (
        type(edges) is _Tensor
        and edges.dim() == 2
        and edges.shape[0] == 2 != nodes.shape[0]
        and edges.dtype in _INTEGERS
        and nodes.is_floating_point()
    )


def _fits(size: int, result: Any) -> bool:
    """Whether what a model made of a batch may be as many items: those of a part of it, or not known."""
    shapes = [tensor.shape for tensor in tensors(result, 3)][:8]
    shapes = [shape for shape in shapes if shape]
    return not shapes or any(
        size in shape[:2] or (size > 1 and shape[0] % size == 0) for shape in shapes
    )


def _of_numbers(layout: Layout, first: Any, size: int, result: Any) -> int:
    """One number an item: of as many results. A single observation, or a sentence, is no batch."""
    if layout.bag or (first.is_floating_point() and layout.width == size):
        return 0
    several = any(tensor.shape[:1] == (size,) for tensor in tensors(result, 3))
    return size if several else 0


def _of_sequences(layout: Layout, first: Any, shape: Any, result: Any) -> int:
    """The items of a model with recurrent modules or attention, which may have time first."""
    if layout.itself:
        return shape[layout.axis] if len(shape) == 3 else 0
    if len(shape) < 2 or shape[0] == shape[1]:
        return shape[0] if len(shape) > 1 else 0
    if layout.axis is None:
        found = next(iter(tensors(result, 3)), None)
        if found is None:
            return 0
        if len(shape) < 4 and layout.tries and found.requires_grad:
            layout.tries -= 1
            layout.axis = _axis_by_graph(found, shape[0], shape[1])
            if layout.axis is not None and layout.kind and isinstance(layout.kind[0], str):
                _axes[layout.kind] = layout.axis
        if layout.axis is None and (len(shape) > 2 or first.dtype in _INTEGERS):
            return _by_result(shape[0], shape[1], found.shape)
    return 0 if layout.axis is None else int(shape[layout.axis])


def _axis_by_graph(result: Any, one: int, two: int) -> int | None:
    """Which of the first two dimensions was the batch inside of the modules that ``result`` went through."""
    todo: list[Any] = [result.grad_fn]
    known: set[Any] = set()
    while todo and len(known) < MOST:
        node = todo.pop(0)
        if node is None or node in known:
            continue
        known.add(node)
        shapes = [getattr(each, "shape", ()) for each in getattr(node, "_input_metadata", ())[:1]]
        if shapes and len(shapes[0]) > 2 and (found := _batch_of(node.name(), shapes[0])):
            batch, time = found
            if time is None:
                axis = 0 if batch == one else 1 if batch == two else None
            else:
                firsts, seconds = batch % one == 0 and time == two, batch % two == 0 and time == one
                axis = int(seconds) if firsts != seconds else None
            if axis is not None:
                return axis
        todo += [each for each, _ in node.next_functions]
    return None


def _batch_of(name: str, shape: Any) -> tuple[int, int | None] | None:
    """The batch that an operation on sequences worked on; of attention, times its heads, and the time."""
    if "Rnn" in name or name.startswith("Stack"):
        return shape[1], None
    if name.startswith("ScaledDotProduct"):
        return shape[0], None
    return (shape[0], shape[1]) if name.startswith(("Bmm", "Baddbmm")) else None


def _by_result(one: int, two: int, shape: Any) -> int:
    """Which of the first two dimensions is left, where only one is."""
    if shape and shape[0] == one and shape[1:2] != (two,):
        return one
    return two if shape and shape[0] == two and shape[1:2] != (one,) else 0


def _shape(tensor: Any) -> Any:
    return () if tensor is None else tensor.shape


def _search(value: Any, depth: int) -> Any:
    """The first tensor with a dimension in tuples, lists, mappings and plain objects."""
    return next((each for each in tensors(value, depth) if each.dim()), None)


def tensors(value: Any, depth: int) -> Any:
    """The tensors in tuples, lists, mappings and plain objects."""
    if issubclass(type(value), _Tensor):
        yield value
    elif depth:
        for part in _parts(value):
            yield from tensors(part, depth - 1)


def _parts(value: Any) -> list[Any]:
    """What a batch is made of, as far as is looked."""
    kind = type(
        value
    )  # not isinstance: that asks the object as well, and so runs the program's code
    if issubclass(kind, (str, bytes, int, float, torch.nn.Module, type(None))):
        return []
    if issubclass(kind, dict):
        return list(value.values())[:16]
    if issubclass(kind, (tuple, list)):
        return list(value[:8])
    return list(_attributes(value).values())[:16]
