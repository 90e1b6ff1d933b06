"""The step as a tree of its regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..analysis.profile import Node
from .places import line
from .text import (
    UNKNOWN,
    WIDTH,
    Unit,
    bar,
    clean,
    columns,
    crop,
    fit,
    labelled,
    left,
    percent,
    right,
)

OTHER = "other"
_NAME = 26
"""Columns that names may take."""
_BAR, _NARROW = 10, 6
"""Columns of a bar of 100 %, the fewer where there are more columns of figures."""
_WORTH = 0.01
"""Of a step, what is worth a line of its own."""
_DEEP = 6
"""Levels below the step; what is deeper is part of its parent."""
_WIDE = 12
"""Regions within one; what is beyond is said as a number."""


class _Row(NamedTuple):
    stem: str
    """The branches before the name."""
    node: Node | None
    more: int = 0


def lines(tree: Node, depth: int = _DEEP) -> list[str]:
    """A table of ``tree``; its first row is the step, 100 %, which the rows below add up to."""
    rows = list(_rows(tree, "", "", depth))
    nodes = [row.node for row in rows if row.node is not None]
    unit = Unit(max((node.host.median for node in nodes), default=0.0))
    device = any(node.device is not None for node in nodes)
    moved = any(node.nbytes for node in nodes)
    heads = [f"host {unit.name}", "p95", *(["device"] if device else []), "share", "", "calls"]
    heads += ["bytes"] if moved else []
    cells = [_cells(row, unit, device, moved) for row in rows]
    names = [fit(row.stem + _name(row), _NAME) for row in rows]
    # Where the step is paced is said above the table.
    places = ["", *(_place(row.node) if row.node else "" for row in rows[1:])]
    return [*_table(heads, names, cells, places), *_left_over(tree), ""]


def _rows(node: Node, before: str, stem: str, depth: int) -> Iterator[_Row]:
    yield _Row(stem, node)
    if depth <= 0:
        return
    children = _ordered(node.children)
    left_out = len(children) - _WIDE if len(children) > _WIDE else 0
    if left_out:
        kept = children[: _WIDE - 1]
        left_out = len(children) - len(kept)
        children = kept
    for at, child in enumerate(children):
        last = at == len(children) - 1 and not left_out
        yield from _rows(
            child,
            before + ("   " if last else "│  "),
            before + ("└─ " if last else "├─ "),
            depth - 1,
        )
    if left_out:
        yield _Row(before + "└─ ", None, left_out)


def _ordered(children: Sequence[Node]) -> list[Node]:
    """In the order given, what no region covers last; without those of no measured step."""
    seen = (child for child in children if child.share or child.host.max)
    return sorted(seen, key=lambda child: child.name == OTHER)


def _name(row: _Row) -> str:
    return clean(row.node.name) if row.node else f"… and {row.more} more"


def _place(node: Node) -> str:
    return line(node.place) or ("" if node.name == OTHER else clean(node.what or ""))


def _left_over(tree: Node) -> list[str]:
    """Between which lines most of the time lies that no region covers."""
    for node in tree.children:
        if node.name == OTHER and node.what and node.share >= _WORTH:
            return labelled("", [f"other is mostly {node.what}"], width=0)
    return []


def _cells(row: _Row, unit: Unit, device: bool, moved: bool) -> list[str]:
    node = row.node
    if node is None:
        return [""] * (5 + device + moved)
    width = _NARROW if device or moved else _BAR
    on_device = unit(node.device.median) if node.device else UNKNOWN
    return [
        unit(node.host.median),
        unit(node.host.p95),
        *([on_device] if device else []),
        percent(node.share),
        left(bar(node.share, width), width),
        "" if node.name == OTHER else _calls(node.calls),
        *([_bytes(node.nbytes)] if moved else []),
    ]


def _calls(number: float) -> str:
    if not abs(number) < 1e7:
        return UNKNOWN
    return f"{number:.2f}".removesuffix(".00")


def _bytes(number: float | None) -> str:
    """``number`` of bytes as ``12.5 MB``."""
    if not number:
        return ""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB" if number < 1e6 else UNKNOWN


def _table(
    heads: Sequence[str], names: Sequence[str], cells: Sequence[list[str]], places: Sequence[str]
) -> list[str]:
    widths = [max(map(columns, column)) for column in zip(heads, *cells, strict=True)]
    first = max(columns("a step"), *map(columns, names))
    spare = WIDTH - 2 - first - sum(widths) - 2 * len(widths) - 2
    found = []
    for name, row, place in zip(("a step", *names), (heads, *cells), ("", *places), strict=True):
        figures = [right(cell, width) for cell, width in zip(row, widths, strict=True)]
        text = crop(place, max(spare, 0))
        found.append(crop("  ".join(["  " + left(name, first), *figures, text]), WIDTH))
    return found
