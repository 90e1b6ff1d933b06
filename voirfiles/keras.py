"""Keras 3 on PyTorch: updates, which passes evaluate, epochs, metrics.

Its layers are torch's modules, its loader and backward are torch's, so that torch's voirfile sees them;
its optimizers are its own. On other backends, which compile a whole step, only metrics are seen.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

LIBRARY = "keras"
TESTED = ("3.4", "3.15")

VAL = "val_"
"""What ``fit`` puts before the names of metrics of its validation."""


def instrument_updates(ov: Any) -> None:
    ov.region(
        "/keras.src.optimizers.base_optimizer/BaseOptimizer/apply",
        "optimizer",
        outermost=True,  # an optimizer that scales the loss holds another one
        device=True,
        when=lambda self: updates(self),
        of=lambda self: self,
        what=lambda self: type(self).__name__,
    )


def instrument_build(ov: Any) -> None:
    # The shapes of the first batch tell those of the weights: nothing is trained or evaluated with it.
    ov.region("/keras.src.trainers.trainer/Trainer/_symbolic_build", "build")


def instrument_evaluation(ov: Any) -> None:
    for name in ("evaluate", "predict"):
        ov.region(
            f"/keras.src.backend.torch.trainer/TorchTrainer/{name}", "evaluation", phase="eval"
        )


def instrument_checkpoints(ov: Any) -> None:
    for name in ("save", "save_weights"):
        where = f"/keras.src.models.model/Model/{name}"
        ov.region(where, "checkpoint", what=f"Model.{name}", outermost=True)


def instrument_values(ov: Any) -> None:
    # What `fit` tells its callbacks.
    tell = "/keras.src.callbacks.callback_list/CallbackList"
    ov.value(f"{tell}/on_epoch_begin", "epoch", task="train", get=lambda epoch: epoch)
    ov.value(f"{tell}/on_epoch_begin", "epochs", get=lambda self, epoch: plan(ov, self, epoch))
    ov.value(f"{tell}/on_train_batch_end", task="train", get=lambda logs: trained(logs))
    ov.value(f"{tell}/on_epoch_end", task="eval", get=lambda logs: validated(logs))


def plan(ov: Any, callbacks: Any, epoch: int) -> None:
    """Say how many epochs are to come, that which begins included."""
    epochs = (callbacks.params or {}).get("epochs")
    if type(epochs) is int:
        ov.ahead(epochs=epochs - epoch)


def updates(optimizer: Any) -> bool:
    """Whether this call updates the weights or only adds to the gradients."""
    every = getattr(optimizer, "gradient_accumulation_steps", None)
    if not every:
        return True
    # Calls so far: `iterations` counts them before 3.5, updates since.
    calls = optimizer._iterations if hasattr(optimizer, "_iterations") else optimizer.iterations
    return bool((int(calls.value) + 1) % every == 0)


def trained(logs: dict[str, Any] | None) -> dict[str, Any]:
    """The metrics of a batch: its loss is a mean over the epoch so far."""
    return {
        "logged_loss" if name == "loss" else name: value for name, value in (logs or {}).items()
    }


def validated(logs: dict[str, Any] | None) -> dict[str, Any]:
    """The metrics of an epoch's validation, without the prefix."""
    return {name[len(VAL) :]: value for name, value in (logs or {}).items() if name.startswith(VAL)}
