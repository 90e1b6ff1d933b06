"""fastai: updates by its own optimizers, which are none of torch's.

Fetches, forward, backward and evaluations of a Learner are torch's. Optimizers that it wraps (`OptimWrapper`)
are torch's, too.
"""

from __future__ import annotations

from typing import Any

LIBRARY = "fastai"
TESTED = ("2.8.12", "2.8.12")


def instrument_optimizers(ov: Any) -> None:
    """``optimizer``: every ``step`` of every optimizer; ``zero_grad``: resetting the gradients."""
    for name in ("Optimizer", "Lookahead"):  # the latter steps another one within its own step
        ov.region(
            f"/fastai.optimizer/{name}/step",
            "optimizer",
            of="self",
            what=lambda self: type(self).__name__,
            outermost=True,
            device="sampled",
        )
    ov.region("/fastai.optimizer/Optimizer/zero_grad", "zero_grad", outermost=True)
