"""Numbers, durations and columns as text of a terminal."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 100
"""Columns that no line exceeds."""


def figure(value: float) -> str:
    """``value`` with four digits that matter."""
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e7 or size < 1e-4:
        return f"{value:.3e}"
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3
    return f"{value:.{decimals}f}" if size >= 0.1 else f"{value:.4g}"


def duration(seconds: float) -> str:
    """``seconds`` as ``812 ms``, ``12.3 s``, ``4 min 05 s`` or ``2 h 07 min``."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def count(number: int, thing: str) -> str:
    """``1 process``, ``2 processes``, ``3 records``."""
    if number == 1:
        return f"1 {thing}"
    return f"{number} {thing}{'es' if thing.endswith('s') else 's'}"


def clean(text: object) -> str:
    """``text`` on one line, without anything that a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in str(text)).rstrip()


def fit(text: object, width: int) -> str:
    """``text`` in at most ``width`` columns; what is too long loses its middle."""
    line = clean(text)
    if len(line) <= width:
        return line
    head = (width - 1) // 2
    return f"{line[:head]}…{line[len(line) - (width - 1 - head) :]}"


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left under ``title``, the others to the right.

    A last head that is ``""`` marks a column of notes, to the left. Nothing if there are no rows.
    """
    if not rows:
        return []
    notes = bool(heads) and heads[-1] == ""
    columns = list(zip(heads, *(row[1:] for row in rows), strict=True))
    widths = [max(map(len, column)) for column in columns]
    room = WIDTH - 2 - sum(widths) - 2 * len(widths)
    first = min(max(len(title) - 2, *(len(row[0]) for row in rows)), max(room, 8))
    lines = [_row(title.ljust(first + 2), heads, widths, notes)]
    lines += [_row(f"  {fit(row[0], first):{first}}", row[1:], widths, notes) for row in rows]
    return [*lines, ""]


def _row(head: str, cells: Sequence[str], widths: Sequence[int], notes: bool) -> str:
    last = len(cells) - 1
    parts = [
        cell.ljust(width) if notes and at == last else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join([head, *parts]).rstrip()[:WIDTH]
