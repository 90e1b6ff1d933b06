"""GPyTorch: `forward` of Gaussian processes, their likelihoods and objectives, which torch's voirfile misses.

These modules have a `__call__` of their own, which does not lead to that of `torch.nn.Module`. Likelihoods
and marginal log likelihoods are losses. Loaders, backward and updates are torch's.
"""

from __future__ import annotations

from typing import Any

import torch

from injector.voirfiles._models import name_recording_size

LIBRARY = "gpytorch"
TESTED = ("1.15.2", "1.15.2")

MODULE = "/gpytorch.module/Module/__call__"
MODELS = ("exact_gp/ExactGP", "model_list/IndependentModelList")
"""Models with calls of their own; ApproximateGP is another. That of others, as deep processes, is MODULE."""


def instrument_models(ov: Any) -> None:
    """``forward``: outermost calls of Gaussian processes, with their points, and of what judges them."""
    for model in MODELS:
        _watch_model(ov, f"/gpytorch.models.{model}/__call__", lambda args: _points(args))
    where = "/gpytorch.models.approximate_gp/ApproximateGP/__call__"
    _watch_model(ov, where, lambda inputs: _points((inputs,)))

    def loaded(module: Any) -> None:
        kind = module.GP
        is_model = lambda self: issubclass(type(self), kind)
        _watch_model(ov, MODULE, lambda inputs: _points(inputs), is_model)
        _watch_loss(ov, MODULE, lambda self: not issubclass(type(self), kind))

    ov.after_import("gpytorch.models.gp", loaded)


def instrument_likelihoods(ov: Any) -> None:
    """``forward``: outermost calls of likelihoods, which have a second class where Pyro is installed."""

    def loaded(module: Any) -> None:
        for name in ("_Likelihood", "Likelihood"):
            if "__call__" in vars(getattr(module, name)):
                _watch_loss(ov, f"/gpytorch.likelihoods.likelihood/{name}/__call__")

    ov.after_import("gpytorch.likelihoods.likelihood", loaded)


def _watch_model(ov: Any, where: str, points: Any, when: Any = None) -> None:
    ov.region(
        where,
        "forward",
        when=when,
        of="self",
        what=lambda self: name_recording_size(ov, self),
        phase=_phase_of_call,
        items=points,
        outermost=True,
        device="sampled",
        depends=["self.training", torch.is_grad_enabled],
    )


def _watch_loss(ov: Any, where: str, when: Any = None) -> None:
    ov.region(
        where,
        "forward",
        when=when,
        what=lambda self: type(self).__name__,
        phase=lambda: None if torch.is_grad_enabled() else "eval",
        outermost=True,
        device="sampled",
    )


def _phase_of_call(self: Any) -> str:
    """``train``, ``eval``, or ``predict`` where the mode and the recording of gradients contradict."""
    if self.training == torch.is_grad_enabled():
        return "train" if self.training else "eval"
    return "predict"


def _points(inputs: Any) -> int:
    """The points of the first of ``inputs``: of shape (points,) or (…, points, features); 0 if unknown."""
    first = inputs[0] if inputs else None
    if not isinstance(first, torch.Tensor) or not first.dim():
        return 0
    return int(first.shape[0] if first.dim() == 1 else first.shape[-2])
