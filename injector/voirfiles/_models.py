"""Names and sizes of the models that PyTorch's voirfiles record.

It imports torch, and so is imported by voirfiles for libraries on it only.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import torch

_recorded_models: WeakSet[Any] = WeakSet()
"""The models whose numbers of parameters have been recorded."""


def name_recording_size(ov: Any, module: Any) -> str:
    """The name of a model that is called at a new line. Record its size when it is first trained."""
    name = _name_of(module)
    # A trainer may set the mode of the model alone, and not of what wraps it (Lightning's DDP strategy).
    if (
        (module.training or any(inner.training for inner in _wrapped(module)))
        and torch.is_grad_enabled()
        and module not in _recorded_models
    ):
        with torch._C.DisableTorchFunction():
            sizes = [(_numel(p), p.requires_grad) for p in module.parameters()]
        # FSDP keeps only this rank's part of each parameter, and a lazy module none before its first call.
        is_sharded = any("_fsdp_wrapped_module" in each._modules for each in module.modules())
        is_known = not is_sharded and all(size for size, _ in sizes)
        if is_known and any(trainable for _, trainable in sizes):
            _recorded_models.add(module)
            ov.model(name, sum(n for n, _ in sizes), sum(n for n, trainable in sizes if trainable))
    return name


def _numel(parameter: Any) -> int:
    """The elements of a parameter, on all ranks if DeepSpeed divides it; 0 if a lazy module has none yet."""
    if isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin):
        return 0
    return int(getattr(parameter, "ds_numel", None) or parameter.numel())


def _name_of(module: Any) -> str:
    """The class of a model, after those that wrap it: ``"DistributedDataParallel of ResNet"``."""
    name = type(module).__name__
    if vars(module).get("_compiled_call_impl") is not None:
        name = f"compiled {name}"
    return " of ".join([name, *map(_name_of, _wrapped(module))])


def _wrapped(module: Any) -> list[Any]:
    """The model that ``module`` wraps, if it wraps one."""
    inner = [
        getattr(module, name, None) for name in ("_orig_mod", "module", "_fsdp_wrapped_module")
    ]
    return [each for each in inner if isinstance(each, torch.nn.Module) and each is not module][:1]
