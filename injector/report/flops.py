"""FLOPs of a step, FLOP/s and MFU, as a line with its sentences and as rows."""

from __future__ import annotations

from ..analysis.flops import Flops
from .text import figure, labelled, percent, rank_name

SIZES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def lines(found: Flops | None) -> list[str]:
    """What was counted, the sum first, a sentence for each rank of several, and what it is."""
    return [*labelled("flops", texts(found), indent=0, width=9), ""] if found else []


def texts(found: Flops) -> list[str]:
    """The sum and the notes, as sentences."""
    parts = [f"{amount(found.step)}FLOPs a step"] if found.step is not None else []
    if found.rate is not None:
        parts.append(f"{amount(found.rate)}FLOP/s")
    if found.mfu is not None and found.peak is not None:
        devices = f"{found.devices} × " if found.devices > 1 else ""
        of = f"{devices}{amount(found.peak)}FLOP/s, {found.peak_from}"
        parts.append(f"MFU {percent(found.mfu)} of {of}")
    return [*([" · ".join(parts)] if parts else []), *found.notes]


def rows(found: Flops) -> list[tuple[str, str, str]]:
    """A row for each of several ranks: its name, FLOPs of a step, FLOP/s."""
    if len(found.ranks) < 2:
        return []
    return [
        (
            rank_name(each.rank, at),
            amount(each.step),
            "" if each.rate is None else amount(each.rate),
        )
        for at, each in enumerate(found.ranks)
    ]


def amount(value: float) -> str:
    """``1.2 T``, before FLOPs or FLOP/s."""
    for size, unit in SIZES:
        if value >= size:
            return f"{figure(value / size)} {unit}"
    return f"{figure(value)} "
