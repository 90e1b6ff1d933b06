"""Accelerate: saving, logging, batches sent to a device, the wait of ranks whose batches another reads.

Its wrappers call torch's own loader, backward and optimizer, which torch's voirfile records; while gradients
are accumulated, its optimizer does not call torch's. Its loader fetches one batch ahead of the loop.
"""

from __future__ import annotations

from typing import Any

LIBRARY = "accelerate"
TESTED = ("1.0", "1.15")


def instrument_log(ov: Any) -> None:
    """Metrics that the main process logs, with or without trackers."""
    ov.value("/accelerate.accelerator/Accelerator/log", task="train", get=logged)


def instrument_saving(ov: Any) -> None:
    """``checkpoint`` and ``logging``."""
    for name in ("save_state", "save_model"):
        where = f"/accelerate.accelerator/Accelerator/{name}"
        ov.region(where, "checkpoint", what=f"Accelerator.{name}", outermost=True)
    where = "/accelerate.accelerator/Accelerator/log"
    ov.region(where, "logging", what="Accelerator.log", outermost=True)


def instrument_loader(ov: Any) -> None:
    """``io`` where the first process reads for all: the others have no loader of torch's, and wait here."""
    ov.region(
        "/accelerate.data_loader/DataLoaderDispatcher/_fetch_batches",
        "io",
        of=lambda self: self,
        what=lambda self: f"DataLoader of {type(self.dataset).__name__}",
        when=lambda self: self.state.process_index != 0,
    )


def instrument_transfers(ov: Any) -> None:
    """``h2d``: batches sent to a device that is not the host itself."""
    ov.region(
        "/accelerate.utils.operations/send_to_device",
        "h2d",
        when=lambda device: str(device).partition(":")[0] != "cpu",
        outermost=True,
        device="sampled",
    )


def logged(values: dict[str, Any]) -> dict[str, Any]:
    """What ``Accelerator.log`` was called with. Its loss is not always the one that backward starts from."""
    return {"logged_loss" if name == "loss" else name: value for name, value in values.items()}
