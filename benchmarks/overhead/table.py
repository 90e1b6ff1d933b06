"""The table: what was measured beside the goal, the floor and the peers."""

from __future__ import annotations

from collections.abc import Iterator

from .measures import Table
from .sheets import SHEETS, Row, Sheet
from .spread import Spread

SILENCE = 0.005
"""Microseconds that two texts which are the same may differ by."""
ROWS = tuple(row for sheet in SHEETS for row in sheet.rows)


def missed(measured: Table) -> list[str]:
    """The goals that were missed, beyond what the measurement's own spread explains."""
    return list(_missed(measured))


def _missed(measured: Table) -> Iterator[str]:
    for row in ROWS:
        for name in row.ours:
            found = measured.get(row.key, {}).get(name)
            if row.goal is None or found is None:
                continue
            # Nothing is exactly free: what the method itself cannot tell from 0 counts as 0.
            if found.low > (row.goal or SILENCE):
                yield f"{row.title}: {found.median:.3g} {row.unit}, goal {row.goal:g}"


def unmeasured(measured: Table) -> list[str]:
    """Rows with a goal for which this run has no number of ours, in tables that it began."""
    return [
        row.title
        for sheet in SHEETS
        if any(row.key in measured for row in sheet.rows)
        for row in sheet.rows
        if row.goal is not None and not any(name in measured.get(row.key, {}) for name in row.ours)
    ]


def lines(measured: Table) -> Iterator[str]:
    """The tables as text: medians over the plain program, then the spread of ours."""
    for sheet in SHEETS:
        rows = [row for row in sheet.rows if row.key in measured]
        if rows:
            yield from _sheet(sheet, rows, measured)
            yield ""
    yield "medians of paired differences (python: of the plain run itself); 95 % interval of ours:"
    for row in ROWS:
        for name in row.ours:
            found = measured.get(row.key, {}).get(name)
            if found is not None:
                bounds = f"{found.low:.3g} … {found.high:.3g} {row.unit}"
                yield f"  {row.title.strip()} [{name}]: {bounds}, n={found.n}"


def _sheet(sheet: Sheet, rows: list[Row], measured: Table) -> Iterator[str]:
    used = [c for c in sheet.columns if any(c in measured[row.key] for row in rows)]
    yield _line(sheet.title, "", "goal", used, used)
    for row in rows:
        cells = [_cell(measured[row.key].get(column)) for column in used]
        yield _line(row.title, row.unit, "" if row.goal is None else f"{row.goal:g}", cells, used)


def _cell(found: Spread | None) -> str:
    if found is None:
        return "–"
    if abs(found.median) >= 10_000:
        return f"{found.median:,.0f}".replace(",", " ")
    return f"{found.median:.1f}" if abs(found.median) >= 10 else f"{found.median:.3f}"


def _line(title: str, unit: str, goal: str, cells: list[str], columns: list[str]) -> str:
    filled = [f"{c:>{max(10, len(name) + 2)}}" for c, name in zip(cells, columns, strict=True)]
    return f"{title:32} {unit:3} {goal:>6}" + "".join(filled)
