"""Lightning under its older name: the same Trainer, published as a package of its own."""

from __future__ import annotations

from injector.voirfiles.lightning import follow_fabric, follow_trainer

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

LIBRARY = "pytorch_lightning"
TESTED = ("2.4", "2.6")


def instrument_trainer(ov: Any) -> None:
    follow_trainer(ov, "pytorch_lightning")


def instrument_fabric(ov: Any) -> None:
    follow_fabric(ov, "lightning_fabric")  # a third name, for a part of the same package
