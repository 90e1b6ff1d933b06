"""Where the wall time of the run went, evaluation, and regions outside of any step."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from ..analysis.profile import Evaluation, Node, Place, Stretch
from .layout import BARS, room
from .text import (
    LIMIT,
    Unit,
    bar,
    clean,
    code_line,
    count,
    duration,
    figure,
    fit,
    left,
    limited,
    line_of,
    percent,
    short,
    table,
    wrap,
    wrapped,
)

_BAR = 8
_NOTE = 58
"""Columns of a note, the fewer where lines are short."""
_SHORTER = "shorter ones"
_LOOSE = ("gap", _SHORTER)
"""What is left out where it rounds to nothing."""
_WORTH = 0.001
"""Of the run: what is shorter has no row of its own."""


def wall(stretches: Sequence[Stretch], total: float) -> list[str]:
    """The stretches, those alike taken together, adding up to ``total`` seconds."""
    if not stretches:
        return []
    rows = _together(stretches, total)
    rest = total - sum(row.seconds for row in rows)
    unit = Unit(total)
    if isfinite(rest) and abs(rest) * unit.scale >= 0.5 * 10**-unit.decimals:
        rows.append(Stretch("not accounted for", rest))
    nothing = (unit(0.0), unit(-0.0))
    rows = [row for row in rows if row.name not in _LOOSE or unit(row.seconds) not in nothing]
    cells = [line for row in rows for line in _rows(row, total, unit)]
    bars = [""] if room() >= BARS else []
    cells.append(["the run", unit(total), percent(1.0), *bars, ""])
    return table("wall time", [unit.name, "share", *bars, ""], cells)


def _rows(row: Stretch, total: float, unit: Unit) -> list[list[str]]:
    """A row of the table; more of them where the note is long."""
    share = row.seconds / total if total > 0 else 0.0
    first, *rest = _where(row) or [""]
    bars = [left(bar(share, _BAR), _BAR)] if room() >= BARS else []
    cells = [clean(row.name), unit(row.seconds), percent(share), *bars, first]
    return [cells, *(["", "", "", *([""] if bars else []), more] for more in rest[:4])]


def _where(row: Stretch) -> list[str]:
    """The note, wrapped, with the place, once; without a note the line of the program."""
    note, place = clean(row.note), line_of(row.place)
    if not note or row.name == _SHORTER:
        return [note or code_line(row.place)]
    spare = room() - (44 if room() >= BARS else 34)
    return wrap(note if place in note else f"{note}, {place}", min(_NOTE, max(spare, 16)))


def _together(stretches: Sequence[Stretch], total: float) -> list[Stretch]:
    """One for each name, note and place, in the order of their first; the small ones joined."""
    sums: dict[tuple[str, str, Place | None], float] = {}
    for each in stretches:
        key = (each.name, each.note, each.place)
        sums[key] = sums.get(key, 0.0) + each.seconds
    found = [Stretch(name, spent, note, place) for (name, note, place), spent in sums.items()]
    # A sum that is NaN sorts as if it were none.
    order = sorted(found, key=lambda one: -one.seconds if isfinite(one.seconds) else 0.0)
    small = {id(one) for one in found if one.name == "gap" and abs(one.seconds) < total * _WORTH}
    if len(found) - len(small) >= LIMIT:
        small |= {id(one) for one in order[LIMIT - 1 :]}
    if len(small) < 2:
        return found
    kept = [one for one in found if id(one) not in small]
    rest = [one.seconds for one in found if id(one) in small]
    return [*kept, Stretch(_SHORTER, sum(rest), count(len(rest), "stretch"))]


def evaluations(found: Sequence[Evaluation]) -> list[str]:
    """A row for each place that evaluates."""
    rows = []
    for one in found:
        name, most = max(one.regions.items(), key=lambda item: item[1], default=("", 0.0))
        share = f"{fit(name, 20)} {percent(most / one.seconds)}" if name and one.seconds > 0 else ""
        rows.append(
            [
                (line_of(one.place) or "(no line known)")
                + (f" data {one.data}" if one.data else ""),
                str(one.passes),
                str(one.batches),
                duration(one.seconds),
                "" if one.throughput is None else figure(one.throughput),
                share,
                clean(one.place.text).strip() if one.place else "",
            ]
        )
    heads = ["passes", "batches", "total", "items/s", "mostly", ""]
    shown = limited(table("evaluation", heads, rows[:LIMIT]), len(rows))
    for one in found[:LIMIT]:
        if one.warmup:
            text = f"warm-up at {line_of(one.place)}: the first batch took {duration(one.warmup)}"
            shown += wrapped(f"{text}, not in items/s", 2)
    return shown


def outside(nodes: Sequence[Node], whole: bool = False) -> list[str]:
    """Regions that belong to no step, those that are a part of the run worth a row, or the ``whole``."""
    rows = [
        [
            clean(node.name) + (f" of {clean(node.what)}" if node.what else ""),
            str(node.host.n),
            short(node.host.median),
            short(node.host.p95),
            duration(node.host.mean * node.host.n),
            code_line(node.place),
        ]
        for node in nodes
        if whole or not node.share < _WORTH
    ]
    heads = ["calls", "median", "p95", "total", ""]
    return limited(table("outside of steps", heads, rows[:LIMIT]), len(rows))
