"""Lightning: which passes evaluate, epochs, the trainer's count of updates, logs, transfers.

Fetches, forward, backward and updates are torch's and come from its voirfile. The Trainer passes the whole
training step to ``optimizer.step`` as its closure, so forward and backward lie within the update.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

LIBRARY = ("lightning", "pytorch_lightning", "lightning_fabric")  # published under several names
TESTED = ("2.4", "2.6")


def instrument_trainer(ov: Any) -> None:
    """``epoch``, ``evaluation``, ``checkpoint`` and ``logging`` of the Trainer; its counts and metrics."""
    for package in ("lightning.pytorch", "pytorch_lightning"):
        record_trainer(ov, package)


def instrument_fetches(ov: Any) -> None:
    """``io``: the wait for batches of loaders other than torch's, which records its own."""
    for package in ("lightning.pytorch", "pytorch_lightning"):
        for method, region in (("__next__", "io"), ("__iter__", "io.start")):
            ov.region(
                f"/{package}.utilities.combined_loader/CombinedLoader/{method}",
                region,
                when=is_by_others,
                of=lambda self: self.flattened[0],
                what=lambda self: f"batches of {type(self.flattened[0]).__name__}",
            )


def instrument_fabric(ov: Any) -> None:
    """Metrics that Fabric logs; ``h2d``: batches that are moved to another device than the host."""
    for package in ("lightning.fabric", "lightning_fabric"):
        log = f"/{package}.fabric/Fabric/log_dict"  # `log` calls it
        ov.value(log, task="train", get=renamed)
        ov.region(
            f"/{package}.utilities.apply_func/move_data_to_device",
            "h2d",
            when=lambda device: str(device).partition(":")[0] != "cpu",
            outermost=True,
            device="sampled",
        )


def instrument_spawned(ov: Any) -> None:
    """Stop a program whose spawned ranks were stopped: its launcher waits for what rank 0 returns."""
    rank: dict[str, Any] = {}

    def ends(error: BaseException) -> BaseException:
        if ov.stopping and rank.get("process_idx") == 0:
            rank["return_queue"].put(STOPPED)
        return error

    def given(value: Any) -> Any:
        if isinstance(value, str) and value == STOPPED:
            ov.stop()
        return value

    for package, result in LAUNCHING.items():
        where = f"/{package}.strategies.launchers.multiprocessing/_MultiProcessingLauncher"
        for name in ("process_idx", "return_queue"):
            keep = lambda value, name=name: rank.setdefault(name, value)
            ov.override(f"{where}/_wrapping_function > {name}", keep)
        ov.override(f"{where}/_wrapping_function > #error", ends)
        ov.override(f"{where}/launch > {result}", given)


LAUNCHING = {
    "lightning.pytorch": "worker_output",
    "pytorch_lightning": "worker_output",
    "lightning.fabric": "#value",
    "lightning_fabric": "#value",
}
"""Of each package whose launcher may spawn ranks, what takes the result of rank 0 in ``launch``."""
STOPPED = "injector: the ranks were stopped"
"""What rank 0 hands over in place of its result."""


def record_trainer(ov: Any, package: str) -> None:
    """Record what the Trainer of ``package`` does and knows."""
    loops = f"/{package}.loops"
    # The first of these runs validation, test, and the sanity check before the first epoch.
    for place in ("evaluation_loop/_EvaluationLoop/run", "prediction_loop/_PredictionLoop/run"):
        # One decorator wraps both: if they have been loaded before, they share its rewritten code. Whether
        # there is any data is known once the loop has set it up.
        ov.region(
            f"{loops}.{place}",
            "evaluation",
            phase="eval",
            when=lambda self, result: not self.skip,
            outermost=True,
        )

    save = f"/{package}.trainer.trainer/Trainer/save_checkpoint"
    ov.region(save, "checkpoint", what="save_checkpoint", outermost=True)
    epoch = f"{loops}.fit_loop/_FitLoop/advance"
    ov.region(epoch, "epoch")
    ov.value(epoch, "epoch", task="train", get=lambda self: self.trainer.current_epoch)

    ov.value(f"{loops}.fit_loop/_FitLoop/on_run_start", "epochs", get=lambda self: plan(ov, self))

    # Where gradients are accumulated, several turns make one update; the trainer counts updates.
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
                renamed(metrics) if self.trainer.training is training else None
            ),
        )


def is_by_others(self: Any) -> bool:
    """Whether there are loaders that are combined, none of which is torch's ``DataLoader`` or holds one."""
    from torch.utils.data import DataLoader

    # Each fetch comes here: of torch's own loader the first look is enough.
    parts = (
        part
        for loader in self.flattened
        for part in chain((loader,), getattr(loader, "__dict__", {}).values())
    )
    return bool(self.flattened) and not any(isinstance(part, DataLoader) for part in parts)


def plan(ov: Any, loop: Any) -> None:
    """Record how long a fit that begins will be: in epochs, updates, or both, of which the first counts."""
    epochs, steps = loop.max_epochs, loop.max_steps
    if type(epochs) is int and epochs >= 0:
        epochs -= loop.trainer.current_epoch
    else:
        epochs = None
    if type(steps) is not int or steps < 0:
        ov.ahead(epochs=epochs)
    elif len(loop.trainer.optimizers) == 1:  # of several optimizers it counts each update
        ov.ahead(epochs=epochs, steps=steps - loop.epoch_loop.global_step)


def renamed(metrics: dict[str, Any]) -> dict[str, Any]:
    """What a program logs. Its loss is not always the one that backward starts from: ``logged_loss``."""
    return {"logged_loss" if name == "loss" else name: value for name, value in metrics.items()}
