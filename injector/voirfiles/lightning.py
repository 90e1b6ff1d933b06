"""What Lightning's Trainer and Fabric know beyond what PyTorch's own functions show.

Fetches, forward, backward and updates are torch's and come from its voirfile: Lightning hands the
whole training step to ``optimizer.step`` as its closure, so that forward and backward lie inside of
the update. Added here: which passes are validation, test and prediction, epochs, the count of updates,
losses, and what the program logs.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

LIBRARY = "lightning"
TESTED = ("2.4", "2.6")


def instrument_trainer(ov: Any) -> None:
    follow_trainer(ov, "lightning.pytorch")


def instrument_fabric(ov: Any) -> None:
    # Its `log` ends in `log_dict`.
    ov.value("/lightning.fabric.fabric/Fabric/log_dict", task="train", get=lambda metrics: metrics)


def follow_trainer(ov: Any, package: str) -> None:
    """Ask for what the Trainer of ``package`` knows; the package has been published twice."""
    loops = f"/{package}.loops"
    # The first one holds validation, test, and the sanity check before the first epoch.
    for place in ("evaluation_loop/_EvaluationLoop/run", "prediction_loop/_PredictionLoop/run"):
        ov.region(f"{loops}.{place}", "evaluation", phase="eval")

    epoch = f"{loops}.fit_loop/_FitLoop/advance"
    ov.region(epoch, "epoch")
    ov.value(epoch, "epoch", task="train", get=lambda self: self.trainer.current_epoch)

    # Several batches make one update where gradients are accumulated: the count is the trainer's own.
    turn = f"{loops}.training_epoch_loop/_TrainingEpochLoop/advance"
    ov.value(turn, "global_step", task="train", get=lambda self, result: self.global_step)

    for place in ("automatic/ClosureResult", "manual/ManualResult"):
        step = f"{loops}.optimization.{place}/from_training_step_output"
        ov.value(
            step,
            "loss",
            task="train",
            get=lambda training_step_output: loss_of(training_step_output),
        )

    log = f"/{package}.trainer.connectors.logger_connector.logger_connector/_LoggerConnector/log_metrics"
    ov.value(
        log, task="train", get=lambda self, metrics: metrics if self.trainer.training else None
    )
    ov.value(log, task="eval", get=lambda self, metrics: None if self.trainer.training else metrics)


def loss_of(output: Any) -> Any:
    """The loss in what a ``training_step`` returned: the loss itself, a dict that holds it, or none."""
    return output.get("loss") if hasattr(output, "get") else output
