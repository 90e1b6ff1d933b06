"""What training calls beside modules: functional losses, clipping, distributions, RPC, environments.

Losses that are functions, and probabilities of distributions, are `forward`, as losses that are modules are.
Clipping and unscaling of gradients have regions of their own. Over RPC, the step of a `DistributedOptimizer`
is `optimizer`, and calls of other processes are `comm`. What has `step` and `reset`, and is no optimizer, is
an environment: calls of these methods in the program's files are `env`. A model that is called to have its
graph recorded is a part of `build`. A call of a function that was compiled is `compiled`, unless it is a
model's or an optimizer's update: what it does inside is not known.
"""

from __future__ import annotations

import os
from types import CodeType, FunctionType, MethodType
from typing import Any
from weakref import ref

import torch

LIBRARY = "torch"
TESTED = ("2.4", "2.13")
JOINT_METHODS = ("reset", "step")

FUNCTIONAL = "/torch.nn.functional"
CLIPPING = "/torch.nn.utils.clip_grad"
PROBABILITIES = "__init__ log_prob entropy sample rsample cdf icdf"


def instrument_losses(ov: Any) -> None:
    """``forward``: losses that are functions and that no module calls."""
    names = [name for name in vars(torch.nn.functional) if name.endswith("_loss")]
    for name in [*names, *_OTHER_LOSSES]:
        if name[:1] != "_" and hasattr(getattr(torch.nn.functional, name, None), "__code__"):
            _watch_forward(ov, f"{FUNCTIONAL}/{name}", name)


_OTHER_LOSSES = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "kl_div",
)


def _watch_forward(ov: Any, where: Any, what: str) -> None:
    depends = [torch.is_grad_enabled]
    ov.region(
        where,
        "forward",
        what=what,
        phase=_phase_of_call,
        outermost=True,
        device="sampled",
        depends=depends,
    )


def _phase_of_call() -> str | None:
    """``eval`` for a loss without gradients; that of others follows from the calls around it."""
    return None if torch.is_grad_enabled() else "eval"


def instrument_clipping(ov: Any) -> None:
    """``clip_grad`` and ``unscale``: what is done to gradients before an update."""
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        ov.region(f"{CLIPPING}/{name}", "clip_grad", outermost=True, device="sampled")
    ov.region(
        "/torch.amp.grad_scaler/GradScaler/unscale_", "unscale", outermost=True, device="sampled"
    )


def instrument_distributions(ov: Any) -> None:
    """``forward``: probabilities and samples, of each class of distributions once it has an instance."""
    watched: set[type] = set()

    def made(self: Any) -> Any:
        for kind in type(self).__mro__:
            if kind not in watched and kind.__module__.startswith("torch.distributions."):
                watched.add(kind)
                for name in PROBABILITIES.split():
                    method = vars(kind).get(name)
                    if hasattr(method, "__code__"):
                        _watch_forward(ov, method, f"{kind.__name__}.{name}")
        return self

    ov.override("/torch.distributions.distribution/Distribution/__init__ > self", made)


def instrument_rpc(ov: Any) -> None:
    """``optimizer``, ``backward`` and ``comm`` of programs whose model is spread over processes by RPC."""
    ov.region(
        "/torch.distributed.optim.optimizer/DistributedOptimizer/step",
        "optimizer",
        of=lambda self: self,
        what=lambda self: type(self).__name__,
        outermost=True,
    )

    def loaded(module: Any) -> None:
        ov.region("/torch.distributed.autograd/backward", "backward", outermost=True)

    ov.after_import("torch.distributed.autograd", loaded)
    for name in ("rpc_sync", "rpc_async", "remote"):
        ov.region(f"/torch.distributed.rpc.api/{name}", "comm", what=name, outermost=True)
    ov.region("/torch.futures/Future/wait", "comm", what="Future.wait", outermost=True)


def instrument_environments(ov: Any) -> None:
    """``env``: calls in the program's files of ``reset`` and of ``step`` that return an observation."""
    about = {"of": lambda self: type(self), "what": lambda self: type(self).__name__}
    for method, observed in (("step", _is_observed), ("reset", _is_begun)):
        when = [_is_environment, observed]
        ov.region(f".{method}", "env", when=when, outermost=True, **about)


def instrument_traces(ov: Any) -> None:
    """``build``: what calls a model to record its graph, for TorchScript, ONNX or TensorBoard."""
    for name in ("trace_module", "_get_trace_graph"):
        ov.region(f"/torch.jit._trace/{name}", "build", what="torch.jit.trace", outermost=True)


def instrument_compiled(ov: Any) -> None:
    """``optimizer`` where the function that was compiled is an update, ``compiled`` for any other."""

    def loaded(module: Any) -> None:
        around = module._TorchDynamoContext.__call__.__code__
        inner = [each.co_name for each in around.co_consts if isinstance(each, CodeType)]
        name = "compile_wrapper" if "compile_wrapper" in inner else "_fn"  # depends on the version
        where = f"/torch._dynamo.eval_frame/_TorchDynamoContext/__call__/{name}"
        ov.region(
            where,
            "optimizer",
            when=lambda fn: _optimizer_of(fn) is not None,
            of=_optimizer_of,
            what=lambda fn: f"compiled {type(_optimizer_of(fn)).__name__}",
            outermost=True,
            device="sampled",
        )
        ov.region(
            where,
            "compiled",
            when=lambda fn: _optimizer_of(fn) is None and not _is_model_code(fn),
            what=lambda fn: getattr(fn, "__name__", None),
            outermost=True,
            device="sampled",
        )

    ov.after_import("torch._dynamo.eval_frame", loaded)


def _is_model_code(fn: Any) -> bool:
    """Whether a model was compiled, whose calls are `forward`: ``fn`` is its method or Dynamo's wrapper."""
    if type(fn) is MethodType:
        return isinstance(fn.__self__, torch.nn.Module)
    return type(fn) is FunctionType and fn.__code__.co_filename.endswith(_DYNAMO_WRAPPERS)


_DYNAMO_WRAPPERS = os.path.join("torch", "_dynamo", "external_utils.py")
_known_optimizers: dict[int, tuple[Any, Any]] = {}
"""By ``id`` of a compiled function: weak references to it and to the optimizer it only steps, or None."""


def _optimizer_of(fn: Any) -> Any:
    """The optimizer that ``fn`` steps, if it does nothing else; None for any other function."""
    key = id(fn)
    entry = _known_optimizers.get(key)
    if entry is None:
        if type(fn) not in (FunctionType, MethodType):
            return None
        stepped = fn.__self__ if type(fn) is MethodType else _stepped_alone(fn)
        optimizer = ref(stepped) if isinstance(stepped, torch.optim.Optimizer) else None
        forget = lambda _: _known_optimizers.pop(key, None)
        entry = _known_optimizers[key] = ref(fn, forget), optimizer
    return entry[1] and entry[1]()


def _stepped_alone(fn: Any) -> Any:
    """The only optimizer among the variables of ``fn``, if it uses ``step``, no model and no gradients."""
    names = fn.__code__.co_names
    used = [fn.__globals__[name] for name in names if name in fn.__globals__]
    for cell in fn.__closure__ or ():
        try:
            used.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            pass
    optimizers = [value for value in used if issubclass(type(value), torch.optim.Optimizer)]
    has_model = any(issubclass(type(value), torch.nn.Module) for value in used)
    has_gradients = not {"backward", "grad"}.isdisjoint(names)
    only_steps = len(optimizers) == 1 and "step" in names and not (has_model or has_gradients)
    return optimizers[0] if only_steps else None


_is_environment_class: dict[type, bool] = {}


def _is_environment(self: Any) -> bool:
    """Whether the class of ``self`` has ``step`` and ``reset``, and is neither optimizer nor module.

    No attribute of the object is read: that may run the program's code.
    """
    kind = type(self)
    known = _is_environment_class.get(kind)
    if known is None:
        names = {name for each in kind.__mro__ for name in vars(each)}
        trains = issubclass(kind, (torch.optim.Optimizer, torch.nn.Module))
        known = _is_environment_class[kind] = names.issuperset(JOINT_METHODS) and not trains
    return known


def _is_observed(result: Any) -> bool:
    """Whether ``step`` returned an observation, a reward and flags: four values in Gym, five in Gymnasium."""
    return isinstance(result, tuple) and len(result) >= 3


def _is_begun(result: Any) -> bool:
    """Whether ``reset`` returned an observation: schedules, meters and early stops return nothing."""
    return result is not None
