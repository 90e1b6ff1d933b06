"""The memory of regions as rows: by how much a call changes it, and the largest there was at an end."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.profile import MemoryUse
from .text import clean, table

NOTE = "read where regions begin and end: what is allocated and freed within one does not show"


def lines(found: Sequence[MemoryUse]) -> list[str]:
    """A table of steps and their regions, and what its figures leave out."""
    if not found:
        return []
    heads, rows = cells(found)
    return [*table("memory", [*heads[1:-1], ""], rows, indent=2)[:-1], f"  {NOTE}", ""]


def cells(found: Sequence[MemoryUse]) -> tuple[list[str], list[list[str]]]:
    """Heads, and a row for each region; of bytes in millions, as a step takes a few of them."""
    heads = ["region", "calls", "change MB", "largest MB", "where"]
    rows = []
    for each in found:
        change, largest = f"{each.change / 1e6:+.3f}", f"{each.largest / 1e6:.1f}"
        rows.append([clean(each.region), f"{each.calls:.3g}", change, largest, clean(each.where)])
    return heads, rows
