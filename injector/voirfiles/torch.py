"""Waiting for DataLoaders, forward, backward, optimizers, collectives and DDP's waiting for gradients.

Wherever a training loop is, it goes through these functions of PyTorch. Their calls become spans, each
of the line of the program that led there; what a model calls inside of itself is not looked at. How
steps, epochs and validation follow from them is found out afterwards, from who paces whom.
"""

from __future__ import annotations

import os
from time import perf_counter_ns
from typing import Any
from weakref import WeakSet

import torch

LIBRARY = "torch"
TESTED = ("2.13", "2.13")

LOADER = "/torch.utils.data.dataloader"
OPTIMIZER = "/torch.optim.optimizer/Optimizer"
COLLECTIVES = "/torch.distributed.distributed_c10d"

_jit: Any = torch.jit


def instrument_loaders(ov: Any) -> None:
    """``io``: the wait for each batch; ``io.start``: workers being started, samplers drawn up."""
    ov.region(
        f"{LOADER}/_BaseDataLoaderIter/__next__",
        "io",
        of=lambda self: self._dataset,
        what=lambda self: f"DataLoader of {type(self._dataset).__name__}",
    )
    ov.region(
        f"{LOADER}/DataLoader/__iter__",
        "io.start",
        of=lambda self: self.dataset,
        what=lambda self: f"DataLoader of {type(self.dataset).__name__}",
    )


def instrument_models(ov: Any) -> None:
    """``forward``: calls of modules that no other module calls, with the size of their batch."""
    ov.region(
        "/torch.nn.modules.module/Module/_wrapped_call_impl",
        "forward",
        of=_model,
        what=lambda self, args, kwargs: _name_of(self),
        phase=_phase,
        items=_items,
        tokens=_tokens,
        outermost=True,
        device=True,
    )


def instrument_gradients(ov: Any) -> None:
    """``backward`` in its three forms, and the loss it starts from as ``train/loss``."""
    tensor = "/torch._tensor/Tensor/backward"
    for where in (tensor, "/torch.autograd/backward", "/torch.autograd/grad"):
        ov.region(where, "backward", outermost=True, device=True)
    ov.value(tensor, "loss", task="train", get=lambda self: self if self.numel() == 1 else None)


def instrument_optimizers(ov: Any) -> None:
    """``optimizer``: every ``step`` of every optimizer; ``zero_grad`` apart."""
    ov.region(
        f"{OPTIMIZER}/profile_hook_step/wrapper",
        "optimizer",
        of=lambda args: args[0],
        what=lambda args: type(args[0]).__name__,
        outermost=True,
        device=True,
    )
    for where in (f"{OPTIMIZER}/zero_grad", "/torch.nn.modules.module/Module/zero_grad"):
        ov.region(where, "zero_grad", outermost=True)


def instrument_ranks(ov: Any) -> None:
    """The rank, as soon as there is one; from then on collectives, as ``comm``."""
    joined: list[bool] = []

    def initialised(result: Any) -> Any:
        distributed = torch.distributed
        local = os.environ.get("LOCAL_RANK", "")
        ov.rank(
            distributed.get_rank(),
            distributed.get_world_size(),
            int(local) if local.isdecimal() else None,
        )
        if not joined:
            joined.append(True)
            _watch_collectives(ov)
            _watch_replicas(ov)
        return result

    ov.override(f"{COLLECTIVES}/init_process_group > #value", initialised)


# --- models ---------------------------------------------------------------------------------------


def _name_of(module: Any) -> str:
    """Of what wraps a model (compiled, distributed), the model's name as well."""
    name = type(module).__name__
    for attribute in ("_orig_mod", "module", "_fsdp_wrapped_module"):
        inner = getattr(module, attribute, None)
        if isinstance(inner, torch.nn.Module) and inner is not module:
            return f"{name} of {_name_of(inner)}"
    return name


# The functions that are asked at every call have all of its variables as parameters, in one order:
# then nothing needs to be sorted out for each of them.


def _model(self: Any, args: Any, kwargs: Any) -> Any:
    return self


def _phase(self: Any, args: Any, kwargs: Any) -> str | None:
    if not (_records_gradients() and self.training):
        return "eval"
    # A loss or a metric trains nothing and is always in training mode: it goes with what is around.
    return "train" if self._parameters or self._modules else None


def _items(self: Any, args: Any, kwargs: Any) -> int:
    """The leading dimension of the first tensor that a model is called with, 0 if there is none."""
    first = args[0] if args else None
    if type(first) is not _Tensor:
        first = _search((args, kwargs), _DEPTH)
    if first is None or _is_traced():  # looking at a shape would stand in the graph
        return 0
    shape = first.shape or _shape(_search((args[1:], kwargs), _DEPTH))
    size = shape[0] if shape else 0
    return size if type(size) is int else 0


def _tokens(self: Any, args: Any, kwargs: Any) -> int:
    """The number of elements, where the model is called with a table of integers."""
    first = args[0] if args else None
    if type(first) is not _Tensor:
        first = _search((args, kwargs), _DEPTH)
    if first is None:
        return 0
    kind = first.dtype
    if not (kind is _INT64 or kind is _INT32) or first.dim() != 2 or _is_traced():
        return 0
    size = first.numel()
    return size if type(size) is int else 0


_DEPTH = 6
_Tensor = torch.Tensor
_INT64, _INT32 = torch.int64, torch.int32
_records_gradients = torch.is_grad_enabled
# In C; without it (nobody knows such a version) it is torch.jit's own, in Python.
_is_traced: Any = getattr(torch._C, "_is_tracing", None) or _jit.is_tracing


def _shape(tensor: Any) -> Any:
    return () if tensor is None else tensor.shape


def _search(value: Any, depth: int) -> Any:
    """The first tensor with a dimension in tuples, lists, mappings and plain objects."""
    if isinstance(value, torch.Tensor):
        return value if value.dim() else None
    if not depth or isinstance(value, (str, bytes, int, float, torch.nn.Module, type(None))):
        return None
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, (tuple, list)):
        parts = list(value[:8])
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    for part in parts[:16]:
        found = _search(part, depth - 1)
        if found is not None:
            return found
    return None


# --- ranks ----------------------------------------------------------------------------------------


def _watch_collectives(ov: Any) -> None:
    """Every function that communicates; what such a function calls itself is not looked at."""
    known = vars(torch.distributed.distributed_c10d)
    for names, nbytes in _COLLECTIVES:
        for name in names.split():
            if name in known:
                where = f"{COLLECTIVES}/{name}"
                ov.region(where, "comm", what=name, nbytes=nbytes, outermost=True, device=True)


def _size(value: Any) -> int:
    """Bytes of a tensor, or of all tensors in a list."""
    if isinstance(value, torch.Tensor):
        return int(value.numel() * value.element_size())
    return sum(map(_size, value)) if isinstance(value, (list, tuple)) else 0


_COLLECTIVES: tuple[tuple[str, Any], ...] = (
    ("all_reduce broadcast reduce send recv isend irecv", lambda tensor: _size(tensor)),
    ("all_gather", lambda tensor_list: _size(tensor_list)),
    ("all_gather_into_tensor all_gather_single", lambda output_tensor: _size(output_tensor)),
    ("reduce_scatter", lambda input_list: _size(input_list)),
    ("reduce_scatter_tensor reduce_scatter_single all_to_all_single", lambda input: _size(input)),
    ("all_to_all", lambda input_tensor_list: _size(input_tensor_list)),
    ("gather", lambda tensor: _size(tensor)),
    ("scatter", lambda tensor: _size(tensor)),
    ("all_reduce_coalesced", lambda tensors: _size(tensors)),
    ("all_gather_coalesced", lambda output_tensor_lists: _size(output_tensor_lists)),
    ("batch_isend_irecv", 0),
    ("barrier monitored_barrier", 0),
    ("all_gather_object gather_object broadcast_object_list scatter_object_list", 0),
    ("send_object_list recv_object_list", 0),
)


def _watch_replicas(ov: Any) -> None:
    """``comm`` inside of backward: DDP's gradients that are still on their way when it has ended.

    The engine runs what was queued for the end of a backward in that order, and DDP queues its waiting
    when its last gradient is there. So what is queued at the beginning runs when this rank has computed
    everything, and what that queues runs when DDP has waited.
    """
    replicas: WeakSet[Any] = WeakSet()
    sizes: dict[int, int] = {}

    def made(self: Any) -> Any:
        replicas.add(self)
        return self

    def begins(loss: Any) -> Any:
        synced = [model for model in replicas if model.require_backward_grad_sync]
        if not (synced and isinstance(loss, torch.Tensor) and loss.requires_grad):
            return loss
        engine = torch.autograd.Variable._execution_engine

        def arrived(gradient: Any) -> None:
            handle.remove()
            engine.queue_callback(computed)

        def computed() -> None:
            start = perf_counter_ns()
            engine.queue_callback(lambda: waited(start))

        def waited(start: int) -> None:
            size = sum(_gradients(model, sizes) for model in synced)
            ov.span("comm", start, perf_counter_ns(), nbytes=size, what="DDP's gradients")

        register: Any = loss.register_hook
        handle = register(arrived)
        return loss

    ov.override("/torch.nn.parallel.distributed/DistributedDataParallel/__init__ > self", made)
    ov.override("/torch._tensor/Tensor/backward > self", begins)


def _gradients(model: Any, known: dict[int, int]) -> int:
    if id(model) not in known:
        known[id(model)] = sum(_size(p) for p in model.parameters() if p.requires_grad)
    return known[id(model)]
