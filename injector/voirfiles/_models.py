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
    if module.training and torch.is_grad_enabled() and module not in _recorded_models:
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
    for attribute in ("_orig_mod", "module", "_fsdp_wrapped_module"):
        inner = getattr(module, attribute, None)
        if isinstance(inner, torch.nn.Module) and inner is not module:
            return f"{name} of {_name_of(inner)}"
    return name
