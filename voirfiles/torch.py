"""Waiting for DataLoaders, transfers, forward, backward, optimizers, collectives, DDP's gradients.

Every training loop calls these functions of PyTorch, whatever stands between it and them. Each call becomes a
span of the line of the program that led to it; what a model calls inside itself is not recorded. Steps,
epochs and validation are derived from the spans afterwards, from what paces each loop.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import traceback
from inspect import isgeneratorfunction
from typing import Any
from weakref import WeakSet, ref

import torch

from injector import StopProgram
from injector.voirfiles._batches import DEPTH, is_traced, items, shortcut, tensors
from injector.voirfiles._loaders import draw, fetched, keeps_iterator, on_pass_length
from injector.voirfiles._models import name_recording_size
from injector.voirfiles._tokens import tokens

LIBRARY = "torch"
TESTED = ("2.4", "2.13")
DEVICE_METHODS = ("to", "cuda", "xpu")
RANK_METHODS = ("wait",)

LOADER = "/torch.utils.data.dataloader"
STATEFUL = "torchdata.stateful_dataloader.stateful_dataloader"
"""Its loader is torch's with an ``__iter__`` of its own."""
OPTIMIZER = "/torch.optim.optimizer/Optimizer"
COLLECTIVES = "/torch.distributed.distributed_c10d"
FUNCTIONAL = "/torch.distributed._functional_collectives"
PIPELINE = "/torch.distributed.pipelining.schedules"
TENSOR_PARALLEL = "/torch.distributed.tensor.parallel.style"
ELASTIC = "/torch.distributed.elastic.multiprocessing.errors"


def instrument_loaders(ov: Any) -> None:
    """``io``: the wait for each batch, with its items; ``io.start``: a loader starts workers and sampler."""
    ov.region(
        f"{LOADER}/_BaseDataLoaderIter/__next__",
        "io",
        of=lambda self: self._dataset,
        what=lambda self: _loader_name(self._dataset, self._num_workers),
        items=fetched,
    )
    ov.value(f"{LOADER}/_BaseDataLoaderIter/_next_index", "drawn", get=draw)
    on_pass_length(ov.ahead)

    def watch_start(loader: str) -> None:
        ov.region(
            f"{loader}/__iter__",
            "io.start",
            of=lambda self: self.dataset,
            what=lambda self: _loader_name(self.dataset, self.num_workers),
        )

    watch_start(f"{LOADER}/DataLoader")
    ov.after_import(STATEFUL, lambda _: watch_start(f"/{STATEFUL}/StatefulDataLoader"))


def instrument_endless_loaders(ov: Any) -> None:
    """``io.start``: a pass begins of a loader that keeps one endless iterator, whose workers go on."""
    watched = set()

    def starts(self: Any) -> bool:
        if keeps_iterator(self):
            now = time.perf_counter_ns()
            what = _loader_name(self.dataset, self.num_workers)
            ov.span("io.start", now, now, of=self.dataset, what=what)
        return False  # the pass as a whole is no span

    def watch(self: Any) -> None:
        draws = type(self).__iter__
        if isgeneratorfunction(draws) and draws not in watched:
            watched.add(draws)
            ov.region(draws, "io.start", when=starts)

    ov.value(f"{LOADER}/DataLoader/__init__", "loader", get=watch)


def instrument_batches(ov: Any) -> None:
    """``io``: the program's own functions that make the batches of a loop without a loader."""

    def watch(function: Any, when: Any = None) -> None:
        name = function.__name__ if when is None else function.__qualname__.rpartition(".")[0]
        ov.region(function, "io", what=name, when=when, outermost="batches")

    ov.batch_functions(watch, watch)


def instrument_transfers(ov: Any) -> None:
    """``h2d``: calls in the program's files that move a tensor or a whole batch from host to device."""
    for method in DEVICE_METHODS:
        ov.region(
            f".{method}",
            "h2d",
            when=[_is_on_host, _is_on_device],
            nbytes=_moved_bytes,
            outermost=True,
            device="sampled",
        )


def instrument_models(ov: Any) -> None:
    """``forward``: outermost calls of modules, with the size of their batch."""
    ov.region(
        "/torch.nn.modules.module/Module/_wrapped_call_impl",
        "forward",
        when=_is_no_compiler if torch.__version__.startswith("2.4.") else _is_no_graph,
        of="self",
        what=lambda self, args, kwargs: name_recording_size(ov, self),
        phase=_phase_of_call,
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


def instrument_eval_mode(ov: Any) -> None:
    """``eval_mode``: a model is put into evaluation mode, which tells two evaluations in a row apart."""
    ov.region("/torch.nn.modules.module/Module/eval", "eval_mode", outermost=True)


def instrument_gradients(ov: Any) -> None:
    """``backward`` in its three forms, and the loss it starts from as ``train/loss``; so does a transform."""
    tensor = "/torch._tensor/Tensor/backward"
    for where in (tensor, "/torch.autograd/backward", "/torch.autograd/grad"):
        ov.region(where, "backward", when=_is_no_trace, outermost=True, device="sampled")
    ov.value(tensor, "loss", task="train", get=_loss_of)
    transform = "/torch._functorch.apis/grad_and_value/wrapper"
    ov.value(transform, "loss", task="train", get=_transformed_loss)


def instrument_scalers(ov: Any) -> None:
    """Have ``train/loss`` be the loss before it was scaled for mixed precision."""
    sharded = "/torch.distributed.fsdp.sharded_grad_scaler/ShardedGradScaler/scale"
    for where in ("/torch.amp.grad_scaler/GradScaler/scale", sharded):
        ov.value(where, "unscaled", get=_keep_unscaled)


def instrument_optimizers(ov: Any) -> None:
    """``optimizer``: every ``step`` of every optimizer; ``zero_grad``: resetting the gradients."""
    ov.region(
        f"{OPTIMIZER}/profile_hook_step/wrapper",
        "optimizer",
        of="args[0]",
        what=lambda args: type(args[0]).__name__,
        outermost=True,
        device="sampled",
        splits="forward",  # of a module whose forward trains another one
    )
    for where in (f"{OPTIMIZER}/zero_grad", "/torch.nn.modules.module/Module/zero_grad"):
        ov.region(where, "zero_grad", outermost=True)


def instrument_ranks(ov: Any) -> None:
    """The rank, as soon as the default group exists; from then on collectives, as ``comm``."""
    has_joined = False

    def group_set(result: Any) -> Any:
        nonlocal has_joined
        distributed = torch.distributed
        if not distributed.is_initialized():  # the default group was destroyed
            return result
        local = os.environ.get("LOCAL_RANK", "")
        ov.rank(
            distributed.get_rank(),
            distributed.get_world_size(),
            int(local) if local.isdecimal() else None,
        )
        if not has_joined:
            has_joined = True
            _watch_collectives(ov)
            ov.after_import(FUNCTIONAL[1:], lambda module: _watch_functional(ov, module))
            ov.after_import(PIPELINE[1:], lambda module: _watch_pipeline(ov, module))
            _watch_parts(ov, int(local) if local.isdecimal() else None)
            _watch_replicas(ov)
        return result

    # _update_default_pg, where this version has it, is a few lines: rewriting it takes a tenth of the time.
    is_short = hasattr(getattr(torch.distributed, "distributed_c10d", None), "_update_default_pg")
    place = "_update_default_pg" if is_short else "init_process_group"
    ov.override(f"{COLLECTIVES}/{place} > #value", group_set)


def instrument_leave(ov: Any) -> Any:
    """Destroy gloo's group of a program that was stopped before it could do so.

    A thread of gloo that releases a tensor while the interpreter ends aborts the process.
    """
    try:
        yield ov.phases.run_script
    except StopProgram:
        distributed = torch.distributed
        has_group = distributed.is_available() and distributed.is_initialized()
        if has_group and distributed.get_backend() == "gloo":
            distributed.destroy_process_group()


def instrument_launcher(ov: Any) -> None:
    """How the workers of torchrun, and of launchers built on it, ended: only their parent can know."""

    def failed(self: Any) -> Any:
        ov.exited(self.pid, self.exitcode)
        return self

    ov.override(f"{ELASTIC}/ProcessFailure/__post_init__ > self", failed)


def instrument_spawned(ov: Any) -> None:
    """The exception that ends a rank of ``torch.multiprocessing.spawn``, which only its parent prints."""

    def ends(exit: Any) -> Any:
        error = exit.__context__
        # Raised by `_wrap` itself, which has caught the error, and not by what it calls.
        if isinstance(error, Exception) and exit.__traceback__.tb_next is None:
            trace = "".join(traceback.format_exception(error))
            data = {"type": type(error).__name__, "message": str(error), "trace": trace}
            ov.log({"$event": "error", "$data": data})
        return exit

    # While a spawned process imports the program, it does not know its parent yet.
    if "--multiprocessing-fork" in sys.orig_argv or multiprocessing.parent_process() is not None:
        ov.override("/torch.multiprocessing.spawn/_wrap > #error", ends)


# --- models ---------------------------------------------------------------------------------------


def _loader_name(dataset: Any, workers: int) -> str:
    """``"DataLoader of CIFAR10, 4 workers"``: the number of workers bounds its speed."""
    number = f", {workers} worker{'' if workers == 1 else 's'}" if workers else ""
    return f"DataLoader of {type(dataset).__name__}{number}"


def _phase_of_call(self: Any, args: Any, kwargs: Any) -> str | None:
    """``train``, ``eval``, or ``predict`` where the mode and the recording of gradients contradict."""
    records_gradients = _records_gradients()
    if not (records_gradients and self.training):
        return "predict" if records_gradients or self.training else "eval"
    # A loss or a metric has no weights and is always in training mode: the calls around it give its phase.
    return "train" if self._parameters or self._modules else None


_Tensor = torch.Tensor
_records_gradients = torch.is_grad_enabled


# --- compilers ------------------------------------------------------------------------------------

_guards: Any = getattr(torch, "_guards", None)
_tracing: Any = getattr(_guards, "TracingContext", None)


def _find_is_no_trace() -> Any:
    """``_is_no_trace``, as fast as this version of torch allows, since it is called at every backward."""
    if _tracing is None:
        return lambda: True
    code: Any = getattr(_tracing.try_get, "__code__", None)
    if code is None or "_TLS" not in code.co_names or "tracing_context" not in code.co_consts:
        return lambda: _tracing.try_get() is None
    # In a thread that has never traced, try_get raises an AttributeError inside and catches it, which takes
    # five times as long.
    local = _guards._TLS
    in_python = lambda: local.__dict__.get("tracing_context") is None
    return shortcut("unset", in_python, {"tracing_context": local})


_is_no_trace = _find_is_no_trace()
"""Whether no compiler traces in this thread: its calls of backward derive a graph and train nothing."""


def _is_no_graph(self: Any, args: Any, kwargs: Any) -> bool:
    """Whether this module is none of the graphs without weights that a compiler makes and runs itself."""
    return "_graph" not in self.__dict__ or bool(self._modules or self._parameters)


def _is_no_compiler(self: Any, args: Any, kwargs: Any) -> bool:
    """Whether no compiler calls this module: as a graph, or while it traces, as PyTorch does before 2.5."""
    return _is_no_graph(self, args, kwargs) and _is_no_trace()


# --- losses ---------------------------------------------------------------------------------------

_unscaled: dict[int, tuple[Any, Any]] = {}
"""By ``id`` of a scaled loss: a weak reference to it, and the loss that it was made from."""


def _keep_unscaled(outputs: Any, result: Any) -> None:
    """Remember the loss from which a scaler made ``result``. Nothing is recorded."""
    if isinstance(result, torch.Tensor) and result is not outputs:
        key = id(result)
        _unscaled[key] = ref(result, lambda _: _unscaled.pop(key, None)), outputs


def _loss(self: Any) -> Any:
    """The loss that backward starts from, as a number or a tensor; None unless it has one element.

    Of a subclass of Tensor with a ``__torch_function__``, and in a mode (``torch.set_default_device``),
    backward is called twice, by the program and then by torch within that function: the last call counts.
    """
    if _has_torch_function(self):
        return None
    entry = _unscaled.pop(id(self), None) if _unscaled else None
    loss = self if entry is None else entry[1]
    if loss.numel() != 1:
        return None
    # In host memory it can be read without waiting. While a graph is traced, item() would become part of it.
    return loss.item() if loss.is_cpu and not is_traced() else loss


_loss_of = shortcut("number", _loss, _unscaled)


def _transformed_loss(has_aux: bool, result: Any) -> Any:
    """The loss that ``grad_and_value`` returned beside the gradients; None within another transform.

    There it is the loss of one example, or a part of another loss.
    """
    loss = result[1][0] if has_aux else result[1]
    if _is_compiling() or _C._functorch.is_functorch_wrapped_tensor(loss):
        return None
    return _loss(loss)


# --- transfers ------------------------------------------------------------------------------------

_C: Any = torch._C
_function_modes: Any = getattr(_C, "_len_torch_function_stack", lambda: 1)
_is_compiling = torch.compiler.is_compiling
_has_torch_function: Any = torch.overrides.has_torch_function_unary


def _is_on_host(self: Any) -> bool:
    """Whether a tensor, or the first tensor of a batch, is in the host's memory; a model is no batch."""
    if type(self) is _Tensor and not _function_modes():
        return bool(self.is_cpu)
    tensor = _first_tensor(self)
    return tensor is not None and _is_cpu(tensor)


def _is_on_device(result: Any) -> bool:
    """Whether the first tensor of ``result`` is in a device's memory. What is only traced moves nothing."""
    if type(result) is _Tensor and not _function_modes() and result.is_cpu:
        return False
    tensor = _first_tensor(result)
    if tensor is None or _is_cpu(tensor):
        return False
    return not (is_traced() or _is_compiling())


def _moved_bytes(result: Any) -> int:
    """The bytes of all tensors in ``result``."""
    if type(result) is _Tensor and not _function_modes():
        return _bytes_of(result)
    with _C.DisableTorchFunction():
        return sum(_bytes_of(tensor) for tensor in tensors(result, DEPTH))


def _is_cpu(tensor: Any) -> bool:
    """``tensor.is_cpu``, read so that no ``__torch_function__`` of a mode or a subclass sees it."""
    if type(tensor) is _Tensor and not _function_modes():
        return bool(tensor.is_cpu)
    with _C.DisableTorchFunction():
        return bool(tensor.is_cpu)


def _first_tensor(value: Any) -> Any:
    """The first tensor in ``value``, or None."""
    return value if type(value) is _Tensor else next(tensors(value, DEPTH), None)


# --- ranks ----------------------------------------------------------------------------------------


def _watch_collectives(ov: Any) -> None:
    """``comm``: the outermost calls of all functions that communicate, and of ``Work.wait``."""
    functions = vars(torch.distributed.distributed_c10d)
    for names, nbytes in _COLLECTIVES:
        for name in names.split():
            if name in functions:
                where = f"{COLLECTIVES}/{name}"
                ov.region(where, "comm", what=name, nbytes=nbytes, outermost=True, device="sampled")
    if hasattr(torch.distributed.utils, _SHAPE_CHECK):  # each rank waits in it for all others
        ov.region(f"/torch.distributed.utils/{_SHAPE_CHECK}", "comm", what="DDP's parameters")
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


def _watch_functional(ov: Any, module: Any) -> None:
    """``comm``: what DTensor and tensor parallelism call to communicate, and the wait for what it gives."""
    for name in _FUNCTIONAL:
        if hasattr(module, name):
            nbytes = 0 if name == "wait_tensor" else lambda self: _bytes_of(self)
            ov.region(
                f"{FUNCTIONAL}/{name}",
                "comm",
                what=name,
                nbytes=nbytes,
                when=_is_no_trace,
                outermost=True,
                device="sampled",
            )


def _watch_pipeline(ov: Any, module: Any) -> None:
    """``comm``: the wait of a pipeline's stage for what the stages beside it send."""
    if hasattr(module, _PIPELINE_WAIT):
        where = f"{PIPELINE}/{_PIPELINE_WAIT}"
        ov.region(where, "comm", what="wait", outermost=True, device="sampled")


def _watch_parts(ov: Any, local: int | None) -> None:
    """That ranks share batches: each has a part of the layers, or of each layer's weights."""

    def shares(ranks: int) -> None:
        if ranks > 1:
            distributed = torch.distributed
            place = distributed.get_rank(), distributed.get_world_size(), local
            ov.rank(*place, shares_batches=True)

    def split(device_mesh: Any) -> Any:
        shares(device_mesh.size())
        return device_mesh

    def staged(stage: Any) -> Any:
        shares(stage.group_size)
        return stage

    def all_staged(stages: Any) -> Any:
        shares(stages[0].group_size)
        return stages

    def watch_split(_: Any) -> None:
        for style in ("ColwiseParallel", "RowwiseParallel"):
            ov.override(f"{TENSOR_PARALLEL}/{style}/_apply > device_mesh", split)

    def watch_stages(_: Any) -> None:
        ov.override(f"{PIPELINE}/PipelineScheduleSingle/__init__ > stage", staged)
        ov.override(f"{PIPELINE}/PipelineScheduleMulti/__init__ > stages", all_staged)

    ov.after_import(TENSOR_PARALLEL[1:], watch_split)
    ov.after_import(PIPELINE[1:], watch_stages)


def _bytes_of(value: Any) -> int:
    """The bytes of a tensor, or of all tensors in nested lists."""
    if isinstance(value, torch.Tensor):
        return int(value.numel() * value.element_size())
    return sum(map(_bytes_of, value)) if isinstance(value, (list, tuple)) else 0


_SHAPE_CHECK = "_verify_param_shape_across_processes"
"""With it each DistributedDataParallel begins: the ranks compare the shapes of their parameters."""
_PIPELINE_WAIT = "_wait_batch_p2p"
"""The function by which the schedules of pipelines wait, where this PyTorch has it."""
_FUNCTIONAL = (
    *("all_reduce", "all_reduce_coalesced", "broadcast", "all_to_all_single", "wait_tensor"),
    *("all_gather_single", "reduce_scatter_single"),
    *("all_gather_tensor", "reduce_scatter_tensor"),  # their names before 2.13
)
_COLLECTIVES: tuple[tuple[str, Any], ...] = (
    ("all_reduce broadcast reduce send recv isend irecv", lambda tensor: _bytes_of(tensor)),
    ("all_gather", lambda tensor_list: _bytes_of(tensor_list)),
    ("all_gather_into_tensor all_gather_single", lambda output_tensor: _bytes_of(output_tensor)),
    ("reduce_scatter", lambda input_list: _bytes_of(input_list)),
    (
        "reduce_scatter_tensor reduce_scatter_single all_to_all_single",
        lambda input: _bytes_of(input),
    ),
    ("all_to_all", lambda input_tensor_list: _bytes_of(input_tensor_list)),
    ("gather", lambda tensor: _bytes_of(tensor)),
    ("scatter", lambda tensor: _bytes_of(tensor)),
    ("all_reduce_coalesced", lambda tensors: _bytes_of(tensors)),
    ("all_gather_coalesced", lambda output_tensor_lists: _bytes_of(output_tensor_lists)),
    ("batch_isend_irecv", 0),
    ("barrier monitored_barrier", 0),
    ("all_gather_object gather_object broadcast_object_list scatter_object_list", 0),
    ("send_object_list recv_object_list", 0),
)


def _watch_replicas(ov: Any) -> None:
    """``comm`` within backward: the wait for DDP's gradients that are still on their way at its end.

    The engine runs callbacks that were queued for the end of a backward in order, and DDP queues its wait
    when its last gradient is there::

        first gradient: queue `computed` | ... | last gradient: DDP queues its wait | end of backward:
        computed (comm begins, its end is queued) -> DDP waits -> comm ends
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
            # A hook of the program's exchanges them by itself: its collectives have their own bytes.
            plain = (model for model in synced if not getattr(model, "_comm_hooks", ()))
            size = sum(_gradient_bytes(model, sizes) for model in plain)
            engine.queue_callback(ov.begin("comm", nbytes=size, what="DDP's gradients"))

        register: Any = loss.register_hook
        handle = register(arrived)
        return loss

    ov.override("/torch.nn.parallel.distributed/DistributedDataParallel/__init__ > self", made)
    ov.override("/torch._tensor/Tensor/backward > self", begins)


def _gradient_bytes(model: Any, sizes: dict[int, int]) -> int:
    """The bytes of the gradients of ``model``; ``sizes`` keeps them by the model's ``id``."""
    if id(model) not in sizes:
        sizes[id(model)] = sum(_bytes_of(p) for p in model.parameters() if p.requires_grad)
    return sizes[id(model)]
