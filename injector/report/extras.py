"""What a run records on request: time of layers, memory of regions, FLOPs; as lines and as cells."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.flops import Flops
from ..analysis.profile import Layer, MemoryUse
from .text import (
    UNKNOWN,
    TimeUnit,
    clean,
    figure,
    labelled,
    line_of,
    percent,
    rank_name,
    table,
)

# --- layers: how often they are called, what they take forward and backward -------------------------

ROWS = 40
"""Layers shown on a terminal, at most: those that take most, in the order of their calls."""


def layer_lines(found: Sequence[Layer]) -> list[str]:
    """A table of the layers; of many, those that take most of a step."""
    if not found:
        return []
    kept = sorted(range(len(found)), key=lambda at: -found[at].share)[:ROWS]
    heads, rows = layer_cells([found[at] for at in sorted(kept)])
    made = table("layers", [*heads[1:-1], ""], rows, indent=2)[:-1]
    rest = len(found) - len(kept)
    note = [f"  \u2026 and {rest} that take less"] if rest else []
    compiled = any(each.kind == "OptimizedModule" for each in found)
    return [*made, *note, *(["  a compiled module is one layer"] if compiled else []), ""]


def layer_cells(found: Sequence[Layer]) -> tuple[list[str], list[list[str]]]:
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


# --- memory: by how much a call of a region changes it, and the largest there was at an end ----------

MEMORY_NOTE = (
    "read where regions begin and end: what is allocated and freed within one does not show"
)


def memory_lines(found: Sequence[MemoryUse]) -> list[str]:
    """A table of steps and their regions, and what its figures leave out."""
    if not found:
        return []
    heads, rows = memory_cells(found)
    return [*table("memory", [*heads[1:-1], ""], rows, indent=2)[:-1], f"  {MEMORY_NOTE}", ""]


def memory_cells(found: Sequence[MemoryUse]) -> tuple[list[str], list[list[str]]]:
    """Heads, and a row for each region; of bytes in millions, as a step takes a few of them."""
    heads = ["region", "calls", "change MB", "largest MB", "where"]
    rows = []
    for each in found:
        change, largest = f"{each.change / 1e6:+.3f}", f"{each.largest / 1e6:.1f}"
        rows.append([clean(each.region), f"{each.calls:.3g}", change, largest, clean(each.where)])
    return heads, rows


# --- FLOPs of a step, FLOP/s and MFU -----------------------------------------------------------------

SIZES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def flops_lines(found: Flops | None) -> list[str]:
    """What was counted, the sum first, a sentence for each rank of several, and what it is."""
    return [*labelled("flops", flops_texts(found), indent=0, width=9), ""] if found else []


def flops_texts(found: Flops) -> list[str]:
    """The sum and the notes, as sentences."""
    parts = [f"{_scaled(found.step)}FLOPs a step"] if found.step is not None else []
    if found.rate is not None:
        parts.append(f"{_scaled(found.rate)}FLOP/s")
    if found.mfu is not None and found.peak is not None:
        devices = f"{found.devices} × " if found.devices > 1 else ""
        of = f"{devices}{_scaled(found.peak)}FLOP/s, {found.peak_from}"
        parts.append(f"MFU {percent(found.mfu)} of {of}")
    return [*([" · ".join(parts)] if parts else []), *found.notes]


def flops_rows(found: Flops) -> list[tuple[str, str, str]]:
    """A row for each of several ranks: its name, FLOPs of a step, FLOP/s."""
    if len(found.ranks) < 2:
        return []
    return [
        (
            rank_name(each.rank, at),
            _scaled(each.step),
            "" if each.rate is None else _scaled(each.rate),
        )
        for at, each in enumerate(found.ranks)
    ]


def _scaled(value: float) -> str:
    """``1.2 T``, before FLOPs or FLOP/s."""
    for size, unit in SIZES:
        if value >= size:
            return f"{figure(value / size)} {unit}"
    return f"{figure(value)} "
