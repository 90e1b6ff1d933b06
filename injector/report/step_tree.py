"""The step as a tree of its regions: a table on a terminal, and the entries from which pages make theirs.

The step itself is 100 %, and the regions directly below it add up to it: what no region covers is ``other``.
A region that is entered at several lines of the program has one entry for all, with an entry for each line
below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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
    size,
    table,
)

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from ..analysis.training_loop import Node

OTHER = "other"
_NAME = 26
"""The most columns of a name, its branches included."""
_BAR, _NARROW = 10, 6
"""Columns of a bar of 100 %; the second where there are more columns of figures."""
_WORTH = 0.01
"""The share of a step from which ``other`` is worth a note."""
_DEEP = 6
"""Levels below the step that are shown. What is deeper is a part of its parent."""
_NOWHERE = "(no line known)"
_WIDE = 12
"""The most rows directly below one. Of more, those with the smallest shares have one row together."""


class _Row(NamedTuple):
    """A row of the table on a terminal."""

    name: str
    """The region, with the branches of the tree before it."""
    note: str
    """The line of the program."""
    node: Node | None
    """The figures; None for a row of several small regions."""
    share: float


class Columns(NamedTuple):
    """The columns of a table of a step."""

    unit: TimeUnit
    """The unit of times."""
    device: bool
    """Whether there is one for the time of devices."""
    moved: bool
    """Whether there is one for the bytes that calls move."""

    def times(self, node: Node, unknown: str) -> list[str]:
        """The cells of host, 95th percentile and device, which may be ``unknown``."""
        device = unknown if node.device is None else self.unit(node.device.median)
        host = [self.unit(node.host.median), self.unit(node.host.p95)]
        return [*host, *([device] if self.device else [])]

    def counts(self, node: Node) -> list[str]:
        """The cells of calls and bytes."""
        calls = "" if node.name == OTHER else _calls(node.calls)
        return [calls, *([size(node.nbytes) if node.nbytes else ""] if self.moved else [])]


def columns_of(nodes: Iterable[Node]) -> Columns:
    """The columns of a table of ``nodes``."""
    nodes = list(nodes)
    return Columns(
        TimeUnit(max((node.host.median for node in nodes), default=0.0)),
        any(node.device is not None for node in nodes),
        any(node.nbytes for node in nodes),
    )


class Entry(NamedTuple):
    """A region, or one of the lines at which a region is entered."""

    name: str
    note: str
    """The line of the program, or how many lines there are."""
    node: Node
    """The figures of all lines together."""
    lines: tuple[Node, ...] = ()
    """Those of each line, if there are several."""

    def inside(self) -> list[Entry]:
        """The entries below it: its lines if it has several, else the regions within it."""
        if self.lines:
            rest = any(node.place for node in self.lines) and "other lines"
            return [
                Entry(line_of(node.place) or rest or _NOWHERE, _text(node), node)
                for node in self.lines
            ]
        return entries_of(self.node)


def lines(tree: Node, depth: int = _DEEP, notes: Sequence[str] = ()) -> list[str]:
    """The table of a step: ``tree`` and ``depth`` levels below it, then the ``notes`` that are not empty."""
    # The step has no note: the line that paces it is in the heading above the table.
    rows = [_Row(fit(clean(tree.name), _NAME), "", tree, tree.share), *_rows(tree, "", depth)]
    columns = columns_of(row.node for row in rows if row.node is not None)
    bars = (_NARROW if columns.device or columns.moved else _BAR) if room() >= BARS else 0
    heads = [f"host {columns.unit.name}", "p95", *(["device"] if columns.device else []), "share"]
    heads += [*([""] if bars else []), "calls", *(["bytes"] if columns.moved else []), ""]
    cells = [[row.name, *_cells(row, columns, bars), row.note] for row in rows]
    below = [*_left_over(tree), *labelled("", filter(None, notes), width=0)]
    return [*table("  a step", heads, cells)[:-1], *below, ""]


def _rows(node: Node, before: str, depth: int) -> Iterator[_Row]:
    """The rows below ``node``, ``depth`` levels of them. ``before``: the branches that go on beside them."""
    if depth > 0:
        yield from _branches(entries_of(node), before, depth)


def _branches(entries: Sequence[Entry], before: str, depth: int) -> Iterator[_Row]:
    """The rows of ``entries`` and of what is below each. Lines of a region are no level of their own."""
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
    """``entries``, or if there are too many, those with the largest shares, in their order."""
    if len(entries) <= _WIDE:
        return list(entries)
    order = sorted(range(len(entries)), key=lambda at: -entries[at].node.share)
    return [entries[at] for at in sorted(order[: _WIDE - 1])]


def entries_of(node: Node) -> list[Entry]:
    """The regions within ``node``, in the order of their first lines; ``other`` is last, and never alone."""
    occurring = [child for child in node.children if child.share or child.host.max]
    if all(child.name == OTHER for child in occurring):  # what else was there, warm-up only had
        return []
    by_name: dict[str, list[Node]] = {}
    for child in sorted(occurring, key=lambda child: child.name == OTHER):
        by_name.setdefault(child.name, []).append(child)
    # Medians do not add up, so those of all lines together were computed by the analysis.
    sums = {together.name: together for together in node.together}
    entries: list[Entry] = []
    for name, nodes in by_name.items():
        if len(nodes) > 1 and name in sums:
            placed = sum(child.place is not None for child in nodes)
            note = (
                f"{placed} lines and others" if 0 < placed < len(nodes) else f"{len(nodes)} lines"
            )
            entries.append(Entry(clean(name), note, sums[name], tuple(nodes)))
        else:
            entries += [Entry(clean(name), _place(child), child) for child in nodes]
    return entries


def _text(node: Node) -> str:
    """The text of a node's line, or else its label."""
    return clean(node.place.text).strip() if node.place else clean(node.what or "")


def _place(node: Node) -> str:
    """A node's line with its number and text, or else its label."""
    return code_line(node.place) or ("" if node.name == OTHER else clean(node.what or ""))


def _left_over(tree: Node) -> list[str]:
    """A line on where most of the time is spent that no region covers; nothing if there is little."""
    for node in tree.children:
        if node.name == OTHER and node.what and node.share >= _WORTH:
            return labelled("", [f"other is mostly {node.what}"], width=0)
    return []


def _cells(row: _Row, columns: Columns, bars: int) -> list[str]:
    """The cells of a row between name and note. ``bars``: the width of the bars of shares; 0 without them."""
    share = [percent(row.share), *([left(bar(row.share, bars), bars)] if bars else [])]
    node = row.node
    if node is None:
        blank = [""] if columns.device else [], [""] if columns.moved else []
        return ["", "", *blank[0], *share, "", *blank[1]]
    return [*columns.times(node, UNKNOWN), *share, *columns.counts(node)]


def _calls(number: float) -> str:
    """A number of calls per step.

    It is empty for 0: time on a device may belong to a call in another region, which it outlasts.
    """
    if not number:
        return ""
    if not abs(number) < 1e7:
        return UNKNOWN
    return f"{number:.2f}".removesuffix(".00")
