"""Probes under ``torch.compile``: the traced graph is the one that would be traced without them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .engine import Engine


def watch(engine: Engine) -> None:
    """When Dynamo is imported, make it look through every hook."""
