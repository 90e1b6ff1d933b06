"""The step as a tree of its regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.profile import Node
from ..named_tuple import NamedTuple
from .output import BARS, room
from .text import (
    UNKNOWN,
    TimeUnit,
    bar,
    clean,
    code_line,
    fit,
    labelled,
    left,
    line_of,
    percent,
    table,
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
_NOWHERE = "(no line known)"
_WIDE = 12
"""Regions within one, or lines of one: of more, those that took least share a row."""


class _Row(NamedTuple):
    name: str
    """With the branches before it."""
    note: str
    """Its line of the program."""
    node: Node | None
    share: float


class Entry(NamedTuple):
    """A region, or one of the lines that a region has."""

    name: str
    note: str
    node: Node
    lines: tuple[Node, ...] = ()
    """Of a region at several lines."""

    def inside(self) -> list[Entry]:
        """What stands below it: its lines, else the regions within it."""
        if self.lines:
            rest = any(one.place for one in self.lines) and "other lines"
            return [
                Entry(line_of(one.place) or rest or _NOWHERE, _text(one), one) for one in self.lines
            ]
        return entries_of(self.node)


def lines(tree: Node, depth: int = _DEEP, notes: Sequence[str] = ()) -> list[str]:
    """A table of ``tree``: its first row is the step, 100 %, which the regions below add up to.

    A region has one row; where several lines have it, they stand below with a row each.
    ``notes`` stand below it, those that are empty left out.
    """
    # The line that paces the step stands above the table.
    rows = [_Row(fit(clean(tree.name), _NAME), "", tree, tree.share), *_rows(tree, "", depth)]
    nodes = [row.node for row in rows if row.node is not None]
    unit = TimeUnit(max((node.host.median for node in nodes), default=0.0))
    device = any(node.device is not None for node in nodes)
    moved = any(node.nbytes for node in nodes)
    bars = (_NARROW if device or moved else _BAR) if room() >= BARS else 0
    heads = [f"host {unit.name}", "p95", *(["device"] if device else []), "share"]
    heads += [*([""] if bars else []), "calls", *(["bytes"] if moved else []), ""]
    cells = [[row.name, *_cells(row, unit, device, moved, bars), row.note] for row in rows]
    below = [*_left_over(tree), *labelled("", filter(None, notes), width=0)]
    return [*table("  a step", heads, cells)[:-1], *below, ""]


def _rows(node: Node, before: str, depth: int) -> Iterator[_Row]:
    if depth > 0:
        yield from _branches(entries_of(node), before, depth)


def _branches(entries: Sequence[Entry], before: str, depth: int) -> Iterator[_Row]:
    kept = _largest(entries)
    for entry in kept:
        last = entry is kept[-1] and len(kept) == len(entries)
        stem = before + ("└─ " if last else "├─ ")
        inner = before + ("   " if last else "│  ")
        yield _Row(stem + fit(entry.name, _NAME - 4), entry.note, entry.node, entry.node.share)
        if entry.lines:
            yield from _branches(entry.inside(), inner, depth)
        else:
            yield from _rows(entry.node, inner, depth - 1)
    if len(kept) < len(entries):
        rest = sum(entry.node.share for entry in entries if entry not in kept)
        yield _Row(f"{before}└─ {len(entries) - len(kept)} smaller ones", "", None, rest)


def _largest(entries: Sequence[Entry]) -> list[Entry]:
    """All, in order; of too many the largest."""
    if len(entries) <= _WIDE:
        return list(entries)
    order = sorted(range(len(entries)), key=lambda at: -entries[at].node.share)
    return [entries[at] for at in sorted(order[: _WIDE - 1])]


def entries_of(node: Node) -> list[Entry]:
    """The regions within ``node``, in the order of their first lines; what no region covers is last."""
    seen = (child for child in node.children if child.share or child.host.max)
    named: dict[str, list[Node]] = {}
    for child in sorted(seen, key=lambda child: child.name == OTHER):
        named.setdefault(child.name, []).append(child)
    sums = {one.name: one for one in node.together}
    found: list[Entry] = []
    for name, nodes in named.items():
        if len(nodes) > 1 and name in sums:
            placed = sum(one.place is not None for one in nodes)
            note = (
                f"{placed} lines and others" if 0 < placed < len(nodes) else f"{len(nodes)} lines"
            )
            found.append(Entry(clean(name), note, sums[name], tuple(nodes)))
        else:
            found += [Entry(clean(name), _place(one), one) for one in nodes]
    return found


def _text(node: Node) -> str:
    return clean(node.place.text).strip() if node.place else clean(node.what or "")


def _place(node: Node) -> str:
    return code_line(node.place) or ("" if node.name == OTHER else clean(node.what or ""))


def _left_over(tree: Node) -> list[str]:
    """Between which lines most of the time lies that no region covers."""
    for node in tree.children:
        if node.name == OTHER and node.what and node.share >= _WORTH:
            return labelled("", [f"other is mostly {node.what}"], width=0)
    return []


def _cells(row: _Row, unit: TimeUnit, device: bool, moved: bool, bars: int) -> list[str]:
    share = [percent(row.share), *([left(bar(row.share, bars), bars)] if bars else [])]
    node = row.node
    if node is None:
        return ["", "", *([""] if device else []), *share, "", *([""] if moved else [])]
    on_device = unit(node.device.median) if node.device else UNKNOWN
    return [
        unit(node.host.median),
        unit(node.host.p95),
        *([on_device] if device else []),
        *share,
        "" if node.name == OTHER else calls_text(node.calls),
        *([bytes_text(node.nbytes)] if moved else []),
    ]


def calls_text(number: float) -> str:
    """Empty for none: what goes on there was called in another region, which it outlasts."""
    if not number:
        return ""
    if not abs(number) < 1e7:
        return UNKNOWN
    return f"{number:.2f}".removesuffix(".00")


def bytes_text(number: float | None) -> str:
    """``number`` of bytes as ``12.5 MB``."""
    if not number:
        return ""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB" if number < 1e6 else UNKNOWN
