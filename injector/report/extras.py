"""The sections about what a run records on request: layers (``--layers``), memory (``--memory``), FLOPs
(``--flops``).

Each is made as lines for a terminal, and as cells for tables of pages and documents.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.flops import Flops
from ..analysis.profile import Layer, MemoryUse
from .text import (
    UNKNOWN,
    TimeUnit,
    clean,
    labelled,
    line_of,
    percent,
    rank_name,
    scaled,
    table,
)

# --- layers: how often they are called, what they take forward and backward -------------------------

ROWS = 40
"""The most layers that a terminal shows: those that take most, in the order of their calls."""


def layer_lines(layers: Sequence[Layer]) -> list[str]:
    """The table of the layers; of many, those with the largest shares of a step."""
    if not layers:
        return []
    kept = sorted(range(len(layers)), key=lambda at: -layers[at].share)[:ROWS]
    heads, rows = layer_cells([layers[at] for at in sorted(kept)])
    lines = table("layers", [*heads[1:-1], ""], rows, indent=2)[:-1]
    rest = len(layers) - len(kept)
    note = [f"  \u2026 and {rest} that take less"] if rest else []
    compiled = any(layer.kind == "OptimizedModule" for layer in layers)
    return [*lines, *note, *(["  a compiled module is one layer"] if compiled else []), ""]


def layer_cells(layers: Sequence[Layer]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of a table of layers, with a column for device time if there is any."""
    unit = TimeUnit(max((layer.forward for layer in layers), default=0.0))
    device = any(layer.device is not None for layer in layers)
    heads = ["layer", "calls", f"forward {unit.name}", *(["device"] if device else [])]
    heads += [f"backward {unit.name}", "share", "class, line"]
    rows = []
    for layer in layers:
        on_device = unit(layer.device) if layer.device is not None else UNKNOWN
        row = [clean(layer.path), f"{layer.calls:.3g}"]
        row += [unit(layer.forward), *([on_device] if device else [])]
        row += [UNKNOWN if layer.backward is None else unit(layer.backward), percent(layer.share)]
        rows.append([*row, f"{clean(layer.kind)}  {line_of(layer.place)}".rstrip()])
    return heads, rows


# --- memory: by how much a call of a region changes it, and the largest there was at an end ----------

MEMORY_NOTE = (
    "read where regions begin and end: what is allocated and freed within one does not show"
)


def memory_lines(uses: Sequence[MemoryUse]) -> list[str]:
    """The table of the memory of steps and regions, and a line on what its figures leave out."""
    if not uses:
        return []
    heads, rows = memory_cells(uses)
    return [*table("memory", [*heads[1:-1], ""], rows, indent=2)[:-1], f"  {MEMORY_NOTE}", ""]


def memory_cells(uses: Sequence[MemoryUse]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of a table of the memory of regions, in MB."""
    heads = ["region", "calls", "change MB", "largest MB", "where"]
    rows = []
    for use in uses:
        change, largest = f"{use.change / 1e6:+.3f}", f"{use.largest / 1e6:.1f}"
        rows.append([clean(use.region), f"{use.calls:.3g}", change, largest, clean(use.where)])
    return heads, rows


# --- FLOPs of a step, FLOP/s and MFU -----------------------------------------------------------------


def flops_lines(flops: Flops | None) -> list[str]:
    """The section about FLOPs; nothing without ``--flops``."""
    return [*labelled("flops", flops_texts(flops), indent=0, width=9), ""] if flops else []


def flops_texts(flops: Flops) -> list[str]:
    """The figures of all ranks together in one sentence, and the notes."""
    parts = [f"{scaled(flops.step)}FLOPs a step"] if flops.step is not None else []
    if flops.rate is not None:
        parts.append(f"{scaled(flops.rate)}FLOP/s")
    if flops.mfu is not None and flops.peak is not None:
        devices = f"{flops.devices} × " if flops.devices > 1 else ""
        peak = f"{devices}{scaled(flops.peak)}FLOP/s, {flops.peak_from}"
        parts.append(f"MFU {percent(flops.mfu)} of {peak}")
    return [*([" · ".join(parts)] if parts else []), *flops.notes]


def flops_rows(flops: Flops) -> list[tuple[str, str, str]]:
    """A row for each rank, with its name, FLOPs of a step and FLOP/s; nothing for a single rank."""
    if len(flops.ranks) < 2:
        return []
    return [
        (
            rank_name(rank.rank, at),
            scaled(rank.step),
            "" if rank.rate is None else scaled(rank.rate),
        )
        for at, rank in enumerate(flops.ranks)
    ]
