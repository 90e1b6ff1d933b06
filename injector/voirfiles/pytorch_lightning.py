"""Lightning under its older name: the same Trainer, published as a package of its own."""

from __future__ import annotations

from injector.voirfiles.lightning import follow_trainer

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

LIBRARY = "pytorch_lightning"
TESTED = ("2.4", "2.6")


def instrument_trainer(ov: Any) -> None:
    follow_trainer(ov, "pytorch_lightning")


def instrument_fabric(ov: Any) -> None:
    # The Fabric of this package has a third name.
    ov.value("/lightning_fabric.fabric/Fabric/log_dict", task="train", get=lambda metrics: metrics)
