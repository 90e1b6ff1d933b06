"""Waiting for DataLoaders, transfers, forward, backward, optimizers, collectives, DDP's gradients.

Wherever a training loop is, it goes through these functions of PyTorch. Their calls become spans, each
of the line of the program that led there; what a model calls inside of itself is not looked at. How
steps, epochs and validation follow from them is found out afterwards, from what paces each loop.
"""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakSet, ref

import torch

from injector import StopProgram
from injector.voirfiles._batches import (
    DEPTH,
    draw,
    fetched,
    is_traced,
    items,
    on_length,
    shortcut,
    tensors,
    tokens,
)

LIBRARY = "torch"
TESTED = ("2.4", "2.13")
DEVICE_METHODS = ("to", "cuda", "xpu")
RANK_METHODS = ("wait",)

LOADER = "/torch.utils.data.dataloader"
OPTIMIZER = "/torch.optim.optimizer/Optimizer"
COLLECTIVES = "/torch.distributed.distributed_c10d"
ELASTIC = "/torch.distributed.elastic.multiprocessing.errors"


def instrument_loaders(ov: Any) -> None:
    """``io``: the wait for each batch, with its items; ``io.start``: its workers and samplers begin."""
    ov.region(
        f"{LOADER}/_BaseDataLoaderIter/__next__",
        "io",
        of=lambda self: self._dataset,
        what=lambda self: _loader(self._dataset, self._num_workers),
        items=fetched,
    )
    ov.value(f"{LOADER}/_BaseDataLoaderIter/_next_index", "drawn", get=draw)
    on_length(ov.ahead)
    ov.region(
        f"{LOADER}/DataLoader/__iter__",
        "io.start",
        of=lambda self: self.dataset,
        what=lambda self: _loader(self.dataset, self.num_workers),
    )


def instrument_batches(ov: Any) -> None:
    """``io``: the functions of the program that make the batches of a loop without a loader."""
    ov.batch_functions(
        lambda function: ov.region(function, "io", what=function.__name__, outermost="batches")
    )


def instrument_transfers(ov: Any) -> None:
    """``h2d``: what the program's own calls move from the host to a device; whole batches too."""
    for method in DEVICE_METHODS:
        ov.region(
            f".{method}",
            "h2d",
            when=[_on_host, _on_device],
            nbytes=_moved,
            outermost=True,
            device="sampled",
        )


def instrument_models(ov: Any) -> None:
    """``forward``: calls of modules that no other module calls, with the size of their batch."""
    ov.region(
        "/torch.nn.modules.module/Module/_wrapped_call_impl",
        "forward",
        when=_is_models,
        of="self",
        what=lambda self, args, kwargs: _described(ov, self),
        phase=_phase,
        depends=[
            "self.training",
            "bool(self._parameters)",
            "bool(self._modules)",
            _records_gradients,
        ],
        items=items,
        tokens=tokens,
        outermost=True,
        device="sampled",
    )


def instrument_gradients(ov: Any) -> None:
    """``backward`` in its three forms, and the loss it starts from as ``train/loss``."""
    tensor = "/torch._tensor/Tensor/backward"
    for where in (tensor, "/torch.autograd/backward", "/torch.autograd/grad"):
        ov.region(where, "backward", when=_is_run, outermost=True, device="sampled")
    ov.value(tensor, "loss", task="train", get=_loss_of)


def instrument_scalers(ov: Any) -> None:
    """Of a loss that is scaled for mixed precision, ``train/loss`` is what it was before."""
    sharded = "/torch.distributed.fsdp.sharded_grad_scaler/ShardedGradScaler/scale"
    for where in ("/torch.amp.grad_scaler/GradScaler/scale", sharded):
        ov.value(where, "unscaled", get=_scaled)


def instrument_optimizers(ov: Any) -> None:
    """``optimizer``: every ``step`` of every optimizer; ``zero_grad`` apart."""
    ov.region(
        f"{OPTIMIZER}/profile_hook_step/wrapper",
        "optimizer",
        of="args[0]",
        what=lambda args: type(args[0]).__name__,
        outermost=True,
        device="sampled",
        splits="forward",  # of a module whose call is a training
    )
    for where in (f"{OPTIMIZER}/zero_grad", "/torch.nn.modules.module/Module/zero_grad"):
        ov.region(where, "zero_grad", outermost=True)


def instrument_ranks(ov: Any) -> None:
    """The rank, as soon as there is one; from then on collectives, as ``comm``."""
    joined: list[bool] = []

    def initialised(result: Any) -> Any:
        distributed = torch.distributed
        if not distributed.is_initialized():  # the default group was taken away
            return result
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

    # Of the two, the function that sets the default group is a few lines: woven in a tenth of the time.
    small = hasattr(getattr(torch.distributed, "distributed_c10d", None), "_update_default_pg")
    place = "_update_default_pg" if small else "init_process_group"
    ov.override(f"{COLLECTIVES}/{place} > #value", initialised)


def instrument_leave(ov: Any) -> Any:
    """A program that was stopped did not get to where it closes its group of ranks.

    A thread of gloo that lets go of a tensor while the interpreter ends takes the process with it.
    """
    try:
        yield ov.phases.run_script
    except StopProgram:
        distributed = torch.distributed
        joined = distributed.is_available() and distributed.is_initialized()
        if joined and distributed.get_backend() == "gloo":
            distributed.destroy_process_group()


def instrument_launcher(ov: Any) -> None:
    """How workers ended that torchrun, or who builds on it, has started: it alone can know."""

    def failed(self: Any) -> Any:
        ov.exited(self.pid, self.exitcode)
        return self

    ov.override(f"{ELASTIC}/ProcessFailure/__post_init__ > self", failed)


# --- models ---------------------------------------------------------------------------------------


def _loader(dataset: Any, workers: int) -> str:
    """A loader's name, with what matters to how fast it can be."""
    beside = f", {workers} worker{'' if workers == 1 else 's'}" if workers else ""
    return f"DataLoader of {type(dataset).__name__}{beside}"


_counted: WeakSet[Any] = WeakSet()
"""The models whose parameters were recorded."""


def _described(ov: Any, module: Any) -> str:
    """The name of a model that is called at a line for the first time; how large one is that is trained."""
    name = _name_of(module)
    if module.training and _records_gradients() and module not in _counted:
        with _C.DisableTorchFunction():
            sizes = [(_numel(p), p.requires_grad) for p in module.parameters()]
        whole = not any("_fsdp_wrapped_module" in each._modules for each in module.modules())
        if whole and all(size for size, _ in sizes) and any(trainable for _, trainable in sizes):
            _counted.add(module)
            ov.model(name, sum(n for n, _ in sizes), sum(n for n, trainable in sizes if trainable))
    return name


def _numel(parameter: Any) -> int:
    """Its size, on all ranks together where DeepSpeed divides it; 0 before a lazy module knows it."""
    if isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin):
        return 0
    return int(getattr(parameter, "ds_numel", None) or parameter.numel())


def _name_of(module: Any) -> str:
    """Of what wraps a model (compiled, distributed), the model's name as well."""
    name = type(module).__name__
    if vars(module).get("_compiled_call_impl") is not None:
        name = f"compiled {name}"
    for attribute in ("_orig_mod", "module", "_fsdp_wrapped_module"):
        inner = getattr(module, attribute, None)
        if isinstance(inner, torch.nn.Module) and inner is not module:
            return f"{name} of {_name_of(inner)}"
    return name


def _phase(self: Any, args: Any, kwargs: Any) -> str | None:
    gradients = _records_gradients()
    if not (gradients and self.training):
        return "predict" if gradients or self.training else "eval"
    # A loss or a metric trains nothing and is always in training mode: it goes with what is around.
    return "train" if self._parameters or self._modules else None


_Tensor = torch.Tensor
_records_gradients = torch.is_grad_enabled


# --- compilers ------------------------------------------------------------------------------------

_guards: Any = getattr(torch, "_guards", None)
_tracing: Any = getattr(_guards, "TracingContext", None)


def _find_run() -> Any:
    """``_is_run``, as fast as this version of torch allows: it is called at every backward."""
    if _tracing is None:
        return lambda: True
    code: Any = getattr(_tracing.try_get, "__code__", None)
    if code is None or "_TLS" not in code.co_names or "tracing_context" not in code.co_consts:
        return lambda: _tracing.try_get() is None
    # In a thread that never traced try_get makes an AttributeError and drops it: five times as long.
    local = _guards._TLS
    in_python = lambda: local.__dict__.get("tracing_context") is None
    return shortcut("unset", in_python, {"tracing_context": local})


_is_run = _find_run()
"""Whether no compiler is at work: one that derives a graph for backward trains nothing."""


def _is_models(self: Any, args: Any, kwargs: Any) -> bool:
    """Whether it is no graph without weights, as compilers derive and run for what was compiled."""
    return "_graph" not in self.__dict__ or bool(self._modules or self._parameters)


# --- losses ---------------------------------------------------------------------------------------

_unscaled: dict[int, tuple[Any, Any]] = {}
"""By identity of a scaled loss, which is watched and not kept, what it was made from."""


def _scaled(outputs: Any, result: Any) -> None:
    """A loss was scaled: no value of its own."""
    if isinstance(result, torch.Tensor) and result is not outputs:
        key = id(result)
        _unscaled[key] = ref(result, lambda _: _unscaled.pop(key, None)), outputs


def _loss(self: Any) -> Any:
    """The number that backward starts from, if it is one.

    Of a subclass of Tensor that has its say in torch's functions, backward is called twice: once by the
    program, and once by torch when that has spoken.
    """
    if type(self) is not _Tensor and _has_function(self):
        return None
    known = _unscaled.pop(id(self), None) if _unscaled else None
    loss = self if known is None else known[1]
    if loss.numel() != 1:
        return None
    # The host's number is at hand, and neither a graph nor a device hears of it.
    return loss.item() if loss.is_cpu and not is_traced() else loss


_loss_of = shortcut("number", _loss, _unscaled)


# --- transfers ------------------------------------------------------------------------------------

_C: Any = torch._C
_modes: Any = getattr(_C, "_len_torch_function_stack", lambda: 1)
_is_compiling = torch.compiler.is_compiling
_has_function: Any = torch.overrides.has_torch_function_unary


def _on_host(self: Any) -> bool:
    """Whether a tensor, or the first tensor of a batch, is in the host's memory; a model is no batch."""
    if type(self) is _Tensor and not _modes():
        return bool(self.is_cpu)
    found = _first(self)
    return found is not None and _is_cpu(found)


def _on_device(result: Any) -> bool:
    """Whether it is a device's now. What is only traced moves nothing."""
    if type(result) is _Tensor and not _modes() and result.is_cpu:
        return False
    found = _first(result)
    if found is None or _is_cpu(found):
        return False
    return not (is_traced() or _is_compiling())


def _moved(result: Any) -> int:
    """Bytes of all its tensors."""
    if type(result) is _Tensor and not _modes():
        return _size(result)
    with _C.DisableTorchFunction():
        return sum(_size(tensor) for tensor in tensors(result, DEPTH))


def _is_cpu(tensor: Any) -> bool:
    """Read so that no mode or subclass that listens to torch's functions sees it."""
    if type(tensor) is _Tensor and not _modes():
        return bool(tensor.is_cpu)
    with _C.DisableTorchFunction():
        return bool(tensor.is_cpu)


def _first(value: Any) -> Any:
    """The first tensor in ``value``, None if there is none."""
    return value if type(value) is _Tensor else next(tensors(value, DEPTH), None)


# --- ranks ----------------------------------------------------------------------------------------


def _watch_collectives(ov: Any) -> None:
    """Every function that communicates; what such a function calls itself is not looked at."""
    known = vars(torch.distributed.distributed_c10d)
    for names, nbytes in _COLLECTIVES:
        for name in names.split():
            if name in known:
                where = f"{COLLECTIVES}/{name}"
                ov.region(where, "comm", what=name, nbytes=nbytes, outermost=True, device="sampled")
    if hasattr(torch.distributed.utils, _CHECK):  # which each rank waits in for all others
        ov.region(f"/torch.distributed.utils/{_CHECK}", "comm", what="DDP's parameters")
    work = torch.distributed.Work
    for method in RANK_METHODS:
        ov.region(
            f".{method}",
            "comm",
            what=method,
            when=lambda self: issubclass(type(self), work),
            outermost=True,
            device="sampled",
        )


def _size(value: Any) -> int:
    """Bytes of a tensor, or of all tensors in a list."""
    if isinstance(value, torch.Tensor):
        return int(value.numel() * value.element_size())
    return sum(map(_size, value)) if isinstance(value, (list, tuple)) else 0


_CHECK = "_verify_param_shape_across_processes"
"""With which each DistributedDataParallel begins: all ranks tell each other how many parameters they have."""
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
            size = sum(_gradients(model, sizes) for model in synced)
            engine.queue_callback(ov.begin("comm", nbytes=size, what="DDP's gradients"))

        register: Any = loss.register_hook
        handle = register(arrived)
        return loss

    ov.override("/torch.nn.parallel.distributed/DistributedDataParallel/__init__ > self", made)
    ov.override("/torch._tensor/Tensor/backward > self", begins)


def _gradients(model: Any, known: dict[int, int]) -> int:
    if id(model) not in known:
        known[id(model)] = sum(_size(p) for p in model.parameters() if p.requires_grad)
    return known[id(model)]
