"""Epochs as rows: time, items, losses, cost."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.profile import Epoch, TrainingLoop
from .text import LIMIT, amount, clean, count, duration, figure, table

_FIRST = 3
"""Of many epochs, so many of the first are shown, and the last ones."""


def lines(loop: TrainingLoop, currency: str = "") -> list[str]:
    """A table of the epochs of ``loop``; nothing of a single one without a price."""
    epochs = loop.epochs
    if len(epochs) < 2 and not any(each.cost is not None for each in epochs):
        return []
    heads, rows = cells(epochs, currency)
    left_out = len(rows) - LIMIT
    if left_out > 0:
        rows = [*rows[:_FIRST], *rows[_FIRST + left_out :]]
    made = table("  epochs", [*heads[1:], ""], [[*row, ""] for row in rows], indent=4)[:-1]
    if left_out > 0:
        made.insert(1 + _FIRST, f"    … {count(left_out, 'epoch')} between these")
    return [*made, ""]


def cells(epochs: Sequence[Epoch], currency: str) -> tuple[list[str], list[list[str]]]:
    """Heads, and a row for each epoch; columns of what is not known are left out."""
    items = any(each.items for each in epochs)
    after = any(each.after >= 0.01 * each.seconds for each in epochs)
    losses = list(dict.fromkeys(loss.name for each in epochs for loss in each.losses))[:1]
    cost = any(each.cost is not None for each in epochs)
    name = clean(losses[0]) if losses else ""
    heads = ["epoch", "steps", "time", *(["after it"] if after else [])]
    heads += ["items", "items/s"] if items else []
    heads += [f"{name}: first", "last", "mean"] if losses else []
    heads += [f"cost {clean(currency)}".strip()] if cost else []
    rows = []
    for each in epochs:
        row = [str(each.number), str(each.steps), duration(each.seconds)]
        row += [duration(each.after)] if after else []
        if items:
            row += ["" if each.items is None else amount(each.items)]
            row += ["" if each.throughput is None else figure(each.throughput)]
        found = next((loss for loss in each.losses if loss.name in losses), None)
        if losses:
            row += [figure(v) for v in (found.first, found.last, found.mean)] if found else [""] * 3
        row += ["" if each.cost is None else figure(each.cost)] if cost else []
        rows.append(row)
    return heads, rows
