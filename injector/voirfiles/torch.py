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
TESTED = ("2.4", "2.13")

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
        of=lambda self: self,
        what=lambda self: _name_of(self),
        phase=lambda self: _phase_of(self),
        items=lambda args, kwargs: _items(args, kwargs),
        tokens=lambda args, kwargs: _tokens(args, kwargs),
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


def _phase_of(module: Any) -> str | None:
    if not (torch.is_grad_enabled() and module.training):
        return "eval"
    # A loss or a metric trains nothing and is always in training mode: it goes with what is around.
    return "train" if module._parameters or module._modules else None


def _items(args: Any, kwargs: Any) -> int:
    """The leading dimension of the first tensor that a model is called with, 0 if there is none."""
    first = _first_tensor(args, kwargs)
    if first is None or _jit.is_tracing():  # looking at a shape would stand in the graph
        return 0
    size = first.shape[0]
    return size if type(size) is int else 0


def _tokens(args: Any, kwargs: Any) -> int:
    """The number of elements, where the model is called with a table of integers."""
    first = _first_tensor(args, kwargs)
    if first is None or first.dtype not in _INTEGERS or first.dim() != 2 or _jit.is_tracing():
        return 0
    size = first.numel()
    return size if type(size) is int else 0


_INTEGERS = {torch.int64, torch.int32}


def _first_tensor(args: Any, kwargs: Any) -> Any:
    if args:
        first = args[0]
        if type(first) is torch.Tensor and first.dim():
            return first
    return _search((args, kwargs), 6)


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
        return value.numel() * value.element_size()
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
