"""The layers of models as rows: how often they are called, what they take forward and backward."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.profile import Layer
from .text import UNKNOWN, TimeUnit, clean, line_of, percent, table

ROWS = 40
"""Layers shown on a terminal, at most: those that take most, in the order of their calls."""


def lines(found: Sequence[Layer]) -> list[str]:
    """A table of the layers; of many, those that take most of a step."""
    if not found:
        return []
    kept = sorted(range(len(found)), key=lambda at: -found[at].share)[:ROWS]
    heads, rows = cells([found[at] for at in sorted(kept)])
    made = table("layers", [*heads[1:-1], ""], rows, indent=2)[:-1]
    rest = len(found) - len(kept)
    note = [f"  \u2026 and {rest} that take less"] if rest else []
    compiled = any(each.kind == "OptimizedModule" for each in found)
    return [*made, *note, *(["  a compiled module is one layer"] if compiled else []), ""]


def cells(found: Sequence[Layer]) -> tuple[list[str], list[list[str]]]:
    """Heads, and a row for each layer; host and device are columns of their own."""
    unit = TimeUnit(max((each.forward for each in found), default=0.0))
    device = any(each.device is not None for each in found)
    heads = ["layer", "calls", f"forward {unit.name}", *(["device"] if device else [])]
    heads += [f"backward {unit.name}", "share", "class, line"]
    rows = []
    for each in found:
        on_device = unit(each.device) if each.device is not None else UNKNOWN
        row = [clean(each.path), f"{each.calls:.3g}"]
        row += [unit(each.forward), *([on_device] if device else [])]
        row += [UNKNOWN if each.backward is None else unit(each.backward), percent(each.share)]
        rows.append([*row, f"{clean(each.kind)}  {line_of(each.place)}".rstrip()])
    return heads, rows
