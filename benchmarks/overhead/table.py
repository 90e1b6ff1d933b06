"""Print what was measured beside the goals and the peers, and find the goals that were missed."""

from __future__ import annotations

from collections.abc import Iterator

from .measures import Table
from .sheets import SHEETS, Row, Sheet
from .spread import Spread

SILENCE = 0.005
"""Microseconds by which two pieces of the same code may differ, in the unit of a row whose goal is 0."""
ROWS = tuple(row for sheet in SHEETS for row in sheet.rows)


def missed(measured: Table) -> list[str]:
    """A line for each goal that was missed by more than the spread of the measurement explains."""
    lines = []
    for row in ROWS:
        for name in row.ours:
            figure = measured.get(row.key, {}).get(name)
            if row.goal is None or figure is None:
                continue
            # Nothing is exactly free: what the method itself cannot tell from 0 counts as 0.
            if figure.low > (row.goal or SILENCE):
                lines.append(f"{row.title}: {figure.median:.3g} {row.unit}, goal {row.goal:g}")
    return lines


def unmeasured(measured: Table) -> list[str]:
    """Titles of rows with a goal that were not measured, in tables of which another row was."""
    return [
        row.title
        for sheet in SHEETS
        if any(row.key in measured for row in sheet.rows)
        for row in sheet.rows
        if row.goal is not None and not any(name in measured.get(row.key, {}) for name in row.ours)
    ]


def lines(measured: Table) -> Iterator[str]:
    """The lines of all tables, with medians; then the intervals of the figures that have to meet goals."""
    for sheet in SHEETS:
        rows = [row for row in sheet.rows if row.key in measured]
        if rows:
            yield from _sheet_lines(sheet, rows, measured)
            yield ""
    yield "medians of paired differences (python: of the plain run itself); 95 % interval of ours:"
    for row in ROWS:
        for name in row.ours:
            figure = measured.get(row.key, {}).get(name)
            if figure is not None:
                bounds = f"{figure.low:.3g} … {figure.high:.3g} {row.unit}"
                yield f"  {row.title.strip()} [{name}]: {bounds}, n={figure.n}"


def _sheet_lines(sheet: Sheet, rows: list[Row], measured: Table) -> Iterator[str]:
    columns = [c for c in sheet.columns if any(c in measured[row.key] for row in rows)]
    yield _line(sheet.title, "", "goal", columns, columns)
    for row in rows:
        cells = [_cell(measured[row.key].get(column)) for column in columns]
        goal = "" if row.goal is None else f"{row.goal:g}"
        yield _line(row.title, row.unit, goal, cells, columns)


def _cell(figure: Spread | None) -> str:
    if figure is None:
        return "–"
    if abs(figure.median) >= 10_000:
        return f"{figure.median:,.0f}".replace(",", " ")
    return f"{figure.median:.1f}" if abs(figure.median) >= 10 else f"{figure.median:.3f}"


def _line(title: str, unit: str, goal: str, cells: list[str], columns: list[str]) -> str:
    """A line of a table whose columns are as wide as their names need."""
    padded = [f"{c:>{max(10, len(name) + 2)}}" for c, name in zip(cells, columns, strict=True)]
    return f"{title:32} {unit:3} {goal:>6}" + "".join(padded)
