"""Keras 3 on PyTorch: its layers and optimizers are its own, its loader and backward are torch's.

A Keras layer is a ``torch.nn.Module`` that is never called as one, and its optimizers are none of
torch's, so that forward and updates are asked for here. Added to them: evaluation, epochs, metrics.
On other backends, which compile a whole step, only evaluation and metrics are seen.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

LIBRARY = "keras"
TESTED = ("3.4", "3.15")

VAL = "val_"
"""What ``fit`` puts before the names of metrics of its validation."""


def instrument_training(ov: Any) -> None:
    ov.region(
        "/keras.src.layers.layer/Layer/__call__",
        "forward",
        outermost=True,
        device=True,
        when=lambda args: is_run(args),
        phase=lambda self, kwargs: phase_of(self, kwargs),
        items=lambda args: leading(args),
        of=lambda self: self,
        what=lambda self: type(self).__name__,
    )
    ov.region(
        "/keras.src.optimizers.base_optimizer/BaseOptimizer/apply",
        "optimizer",
        outermost=True,  # an optimizer that scales the loss holds another one
        device=True,
        when=lambda self: updates(self),
        of=lambda self: self,
        what=lambda self: type(self).__name__,
    )


def instrument_evaluation(ov: Any) -> None:
    for name in ("evaluate", "predict"):
        ov.region(
            f"/keras.src.backend.torch.trainer/TorchTrainer/{name}", "evaluation", phase="eval"
        )


def instrument_values(ov: Any) -> None:
    # What `fit` tells its callbacks.
    tell = "/keras.src.callbacks.callback_list/CallbackList"
    ov.value(f"{tell}/on_epoch_begin", "epoch", task="train", get=lambda epoch: epoch)
    ov.value(f"{tell}/on_train_batch_end", task="train", get=lambda logs: logs)
    ov.value(f"{tell}/on_epoch_end", task="eval", get=lambda logs: validated(logs))


def is_run(args: tuple[Any, ...]) -> bool:
    """Whether a layer is called with data, not to learn the shapes of what it would give."""
    for argument in args:
        device = getattr(argument, "device", None)
        if type(argument).__name__ == "KerasTensor" or getattr(device, "type", None) == "meta":
            return False
    return True


def phase_of(layer: Any, kwargs: dict[str, Any]) -> str:
    """What the call says; else what the module that the layer is was put into."""
    training = kwargs.get("training")
    if training is None:
        torch: Any = sys.modules.get("torch")
        training = getattr(layer, "training", True) and (torch is None or torch.is_grad_enabled())
    return "train" if training else "eval"


def leading(args: tuple[Any, ...]) -> int:
    """The leading dimension of the first input; 0 where there is none."""
    found = args[0] if args else None
    while isinstance(found, (list, tuple, dict)) and found:
        found = next(iter(found.values() if isinstance(found, dict) else found))
    shape = getattr(found, "shape", ())
    return int(shape[0]) if len(shape) else 0


def updates(optimizer: Any) -> bool:
    """Whether this call updates the weights or only adds to the gradients."""
    every = getattr(optimizer, "gradient_accumulation_steps", None)
    return not every or (int(optimizer._iterations.value) + 1) % every == 0


def validated(logs: dict[str, Any] | None) -> dict[str, Any]:
    """The metrics of an epoch's validation, without the prefix."""
    return {name[len(VAL) :]: value for name, value in (logs or {}).items() if name.startswith(VAL)}
