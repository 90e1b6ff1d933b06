"""Lightning: which passes evaluate, epochs, the trainer's count of updates, logs, transfers.

Fetches, forward, backward and updates are torch's and come from its voirfile: the Trainer hands the
whole training step to ``optimizer.step`` as its closure, so that forward and backward lie inside of
the update.
"""

from __future__ import annotations

from typing import Any

LIBRARY = ("lightning", "pytorch_lightning", "lightning_fabric")  # its names have changed
TESTED = ("2.4", "2.6")


def instrument_trainer(ov: Any) -> None:
    for package in ("lightning.pytorch", "pytorch_lightning"):
        follow_trainer(ov, package)


def instrument_fabric(ov: Any) -> None:
    # Its `log` ends in its `log_dict`.
    for package in ("lightning.fabric", "lightning_fabric"):
        ov.value(
            f"/{package}.fabric/Fabric/log_dict",
            task="train",
            get=lambda metrics: named(metrics),
        )


def instrument_transfers(ov: Any) -> None:
    for package in ("lightning.fabric", "lightning_fabric"):
        ov.region(
            f"/{package}.utilities.apply_func/move_data_to_device",
            "h2d",
            when=lambda device: str(device).partition(":")[0] != "cpu",
            outermost=True,
            device="sampled",
        )


def follow_trainer(ov: Any, package: str) -> None:
    """Ask for what the Trainer of ``package`` knows; the package has been published twice."""
    loops = f"/{package}.loops"
    # The first one holds validation, test, and the sanity check before the first epoch.
    for place in ("evaluation_loop/_EvaluationLoop/run", "prediction_loop/_PredictionLoop/run"):
        # Both are wrapped by one decorator, whose code they share where they are rewritten late.
        ov.region(f"{loops}.{place}", "evaluation", phase="eval", outermost=True)

    save = f"/{package}.trainer.trainer/Trainer/save_checkpoint"
    ov.region(save, "checkpoint", what="save_checkpoint", outermost=True)
    epoch = f"{loops}.fit_loop/_FitLoop/advance"
    ov.region(epoch, "epoch")
    ov.value(epoch, "epoch", task="train", get=lambda self: self.trainer.current_epoch)

    ov.value(f"{loops}.fit_loop/_FitLoop/on_run_start", "epochs", get=lambda self: plan(ov, self))

    # Several batches make one update where gradients are accumulated: the count is the trainer's own.
    turn = f"{loops}.training_epoch_loop/_TrainingEpochLoop/advance"
    ov.value(turn, "global_step", task="train", get=lambda self, result: self.global_step)

    log = f"/{package}.trainer.connectors.logger_connector.logger_connector/_LoggerConnector"
    ov.region(
        f"{log}/log_metrics",
        "logging",
        what="log_metrics",
        when=lambda metrics: bool(metrics),
        outermost=True,
    )
    for task, training in (("train", True), ("eval", False)):
        ov.value(
            f"{log}/log_metrics",
            task=task,
            get=lambda self, metrics, training=training: (
                named(metrics) if self.trainer.training is training else None
            ),
        )


def plan(ov: Any, loop: Any) -> None:
    """Say how long a fit that begins will be: epochs, updates, or what comes first of both."""
    epochs, steps = loop.max_epochs, loop.max_steps
    if type(epochs) is int and epochs >= 0:
        epochs -= loop.trainer.current_epoch
    else:
        epochs = None
    if type(steps) is not int or steps < 0:
        ov.ahead(epochs=epochs)
    elif len(loop.trainer.optimizers) == 1:  # else it counts an update of each
        ov.ahead(epochs=epochs, steps=steps - loop.epoch_loop.global_step)


def named(metrics: dict[str, Any]) -> dict[str, Any]:
    """What a program logs; its losses beside those that backward starts from, which are not the same."""
    return {"logged_loss" if name == "loss" else name: value for name, value in metrics.items()}
