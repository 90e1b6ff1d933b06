"""What training calls beside modules: functional losses, clipping, distributions, RPC, environments.

A loss that is a function belongs to `forward`, as one that is a module does; so do the probabilities of
distributions. Clipping and unscaling of gradients have regions of their own. Over RPC, what a
`DistributedOptimizer` does is `optimizer`, and calls of other processes are `comm`. What the program itself
steps and resets, and is no optimizer, is an environment: `env`. What the program has compiled, and is
neither a model nor an update of an optimizer, is `compiled`: what it does inside is not seen.
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
    """``forward``: losses that are functions, outside of modules."""
    names = [name for name in vars(torch.nn.functional) if name.endswith("_loss")]
    for name in [*names, *_OTHER_LOSSES]:
        if name[:1] != "_" and hasattr(getattr(torch.nn.functional, name, None), "__code__"):
            _belongs(ov, f"{FUNCTIONAL}/{name}", name)


_OTHER_LOSSES = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "kl_div",
)


def _belongs(ov: Any, where: Any, what: str) -> None:
    depends = [torch.is_grad_enabled]
    ov.region(
        where, "forward", what=what, phase=_phase, outermost=True, device="sampled", depends=depends
    )


def _phase() -> str | None:
    """A loss that needs no gradients evaluates; otherwise it goes with what is around."""
    return None if torch.is_grad_enabled() else "eval"


def instrument_clipping(ov: Any) -> None:
    """``clip_grad`` and ``unscale``: what is done to gradients before an update."""
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        ov.region(f"{CLIPPING}/{name}", "clip_grad", outermost=True, device="sampled")
    ov.region(
        "/torch.amp.grad_scaler/GradScaler/unscale_", "unscale", outermost=True, device="sampled"
    )


def instrument_distributions(ov: Any) -> None:
    """``forward``: probabilities and samples, of each class of distributions once there is one."""
    known: set[type] = set()

    def made(self: Any) -> Any:
        for kind in type(self).__mro__:
            if kind not in known and kind.__module__.startswith("torch.distributions."):
                known.add(kind)
                for name in PROBABILITIES.split():
                    method = vars(kind).get(name)
                    if hasattr(method, "__code__"):
                        _belongs(ov, method, f"{kind.__name__}.{name}")
        return self

    ov.override("/torch.distributions.distribution/Distribution/__init__ > self", made)


def instrument_rpc(ov: Any) -> None:
    """``optimizer``, ``backward`` and ``comm`` of programs whose model lies in several processes."""
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
    """``env``: what is reset and stepped by the program's own files, and steps to an observation."""
    about = {"of": lambda self: type(self), "what": lambda self: type(self).__name__}
    for method, when in (("step", [_is_environment, _is_observed]), ("reset", [_is_environment])):
        ov.region(f".{method}", "env", when=when, outermost=True, **about)


def instrument_compiled(ov: Any) -> None:
    """``optimizer`` where the function that was compiled is an update, ``compiled`` for any other."""

    def loaded(module: Any) -> None:
        around = module._TorchDynamoContext.__call__.__code__
        inner = [each.co_name for each in around.co_consts if isinstance(each, CodeType)]
        name = "compile_wrapper" if "compile_wrapper" in inner else "_fn"  # torches differ
        where = f"/torch._dynamo.eval_frame/_TorchDynamoContext/__call__/{name}"
        ov.region(
            where,
            "optimizer",
            when=lambda fn: _updated(fn) is not None,
            of=lambda fn: _updated(fn),
            what=lambda fn: f"compiled {type(_updated(fn)).__name__}",
            outermost=True,
            device="sampled",
        )
        ov.region(
            where,
            "compiled",
            when=lambda fn: _updated(fn) is None and not _is_models(fn),
            what=lambda fn: getattr(fn, "__name__", None),
            outermost=True,
            device="sampled",
        )

    ov.after_import("torch._dynamo.eval_frame", loaded)


def _is_models(fn: Any) -> bool:
    """Whether a model was compiled, which is `forward`: a method of it, or what Dynamo puts around it."""
    if type(fn) is MethodType:
        return isinstance(fn.__self__, torch.nn.Module)
    return type(fn) is FunctionType and fn.__code__.co_filename.endswith(_DYNAMOS)


_DYNAMOS = os.path.join("torch", "_dynamo", "external_utils.py")
_updates: dict[int, tuple[Any, Any]] = {}
"""By identity of a compiled function, which is watched and not kept, the optimizer that it steps."""


def _updated(fn: Any) -> Any:
    """The optimizer of which ``fn`` makes an update and does nothing else; None for any other function."""
    key = id(fn)
    known = _updates.get(key)
    if known is None:
        if type(fn) not in (FunctionType, MethodType):
            return None
        found = fn.__self__ if type(fn) is MethodType else _only_stepped(fn)
        found = ref(found) if isinstance(found, torch.optim.Optimizer) else None
        known = _updates[key] = ref(fn, lambda _: _updates.pop(key, None)), found
    return known[1] and known[1]()


def _only_stepped(fn: Any) -> Any:
    """The optimizer that a function of the program refers to, where it refers to no model and no gradient."""
    names = fn.__code__.co_names
    used = [fn.__globals__[name] for name in names if name in fn.__globals__]
    for cell in fn.__closure__ or ():
        try:
            used.append(cell.cell_contents)
        except ValueError:  # it is not set yet
            pass
    found = [each for each in used if issubclass(type(each), torch.optim.Optimizer)]
    more = any(issubclass(type(each), torch.nn.Module) for each in used)
    trains = not {"backward", "grad"}.isdisjoint(names)
    return found[0] if len(found) == 1 and "step" in names and not (more or trains) else None


_kinds: dict[type, bool] = {}


def _is_environment(self: Any) -> bool:
    """Whether its class has both methods. No attribute of the object is read: that may run its own code."""
    kind = type(self)
    known = _kinds.get(kind)
    if known is None:
        names = {name for each in kind.__mro__ for name in vars(each)}
        trains = issubclass(kind, (torch.optim.Optimizer, torch.nn.Module))
        known = _kinds[kind] = names.issuperset(JOINT_METHODS) and not trains
    return known


def _is_observed(result: Any) -> bool:
    """An observation, a reward, whether it is over: of Gym four values, of Gymnasium five."""
    return isinstance(result, tuple) and len(result) >= 3
