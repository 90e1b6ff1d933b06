"""Hugging Face's Trainer: which passes evaluate, epochs, its count of updates, what is logged.

Fetches, forward, backward and updates are torch's and come from its voirfile. The Trainer fetches all batches
of an update before the first forward, and its loader (Accelerate's) fetches one batch ahead.
"""

from __future__ import annotations

from typing import Any

LIBRARY = "transformers"
TESTED = ("4.46", "5.23")

EVAL = "eval_"
"""What the Trainer puts before the names of metrics of an evaluation."""


def instrument_trainer(ov: Any) -> None:
    """``evaluation``, ``checkpoint`` and ``logging`` of the Trainer; its counts and metrics."""
    for name in ("evaluate", "predict"):
        # `evaluate` calls itself for each of several sets.
        ov.region(
            f"/transformers.trainer/Trainer/{name}", "evaluation", phase="eval", outermost=True
        )

    for name in ("_save_checkpoint", "save_model"):
        where = f"/transformers.trainer/Trainer/{name}"
        ov.region(where, "checkpoint", what=f"Trainer.{name}", outermost=True)

    # The names of its callbacks have stayed the same, while those of its loop have changed.
    handler = "/transformers.trainer_callback/CallbackHandler"
    ov.value(
        f"{handler}/on_train_begin",
        "steps",
        get=lambda state: ov.ahead(steps=state.max_steps - state.global_step),
    )
    ov.value(
        f"{handler}/on_step_end", "global_step", task="train", get=lambda state: state.global_step
    )
    ov.value(f"{handler}/on_step_end", "epoch", task="train", get=lambda state: state.epoch)
    # It keeps the logs in memory, and calls what writes them: TensorBoard, W&B, a progress bar.
    ov.region(f"{handler}/on_log", "logging", what="on_log", outermost=True)
    ov.value(f"{handler}/on_log", task="train", get=trained)
    ov.value(f"{handler}/on_log", task="eval", get=evaluated)


def trained(logs: dict[str, Any]) -> dict[str, Any]:
    """What was logged of the training. Its loss is a mean since the last time: ``logged_loss``."""
    metrics = {name: value for name, value in logs.items() if not name.startswith(EVAL)}
    metrics.pop("epoch", None)  # on_step_end has recorded it
    if "loss" in metrics:
        metrics["logged_loss"] = metrics.pop("loss")
    return metrics


def evaluated(logs: dict[str, Any]) -> dict[str, Any]:
    """What was logged of an evaluation, without its prefix."""
    return {name[len(EVAL) :]: value for name, value in logs.items() if name.startswith(EVAL)}
