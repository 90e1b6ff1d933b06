"""The tables of a sweep: what ``inject suite report --scaling`` and ``--target`` print alone."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ...errors import UserError
from ...metrics import shown
from ...report.formats import as_csv
from ...report.text import figure, table
from .points import Row, checked, is_better_high, row_of, unit_of
from .scaling import EXACT, Family, families
from .suite_report import markdown_table, scaling_data, scaling_markdown, scaling_text
from .suite_summary import SuiteSummary


class Exploration(NamedTuple):
    """All benchmarks of a suite by one figure, the best first."""

    target: str
    names: tuple[str, ...]
    """What the benchmarks differ in: the swept names that have several values."""
    rows: tuple[Row, ...]


def explored(suite: SuiteSummary, target: str) -> Exploration:
    """``suite`` by ``target``; benchmarks without it come last. Raises UserError where none has it."""
    rows = [row_of(suite, each) for each in suite.benchmarks]
    checked(rows, target, "--target")
    swept = dict.fromkeys(name for each in suite.benchmarks for name in each.values)
    varied = (name for name in swept if len({str(row.get(name)) for row in rows}) > 1)
    sign = -1 if is_better_high(target) else 1
    known = [row for row in rows if row.get(target) is not None]
    unknown = [row for row in rows if row.get(target) is None]
    known.sort(key=lambda row: sign * row[target])
    return Exploration(target, tuple(varied), (*known, *unknown))


def render_exploration(found: Exploration, form: str) -> str:
    """In one of ``terminal json csv md``; of the last two, seconds and bytes as they are."""
    names = ("benchmark", "devices", *found.names)
    if form in ("json", "csv"):
        columns = {name: [row.get(name) for row in found.rows] for name in (*names, found.target)}
        if form == "csv":
            return as_csv(columns)
        rows = [
            dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)
        ]
        data = {"target": found.target, "unit": unit_of(found.target), "benchmarks": rows}
        return json.dumps(data, indent=1, default=str) + "\n"
    heads, cells = exploration_cells(found)
    made = table(heads[0], heads[1:], cells) if form == "terminal" else markdown_table(heads, cells)
    return "\n".join(made).rstrip() + "\n"


def exploration_cells(found: Exploration) -> tuple[tuple[str, ...], list[list[str]]]:
    """Heads, the last with the unit of the target, and a row for each benchmark."""
    names = ("benchmark", "devices", *found.names)
    own = unit_of(found.target)
    unit, factor = ("ms", 1e3) if own == "s" else (own, 1.0) if own == "ms" else shown(own)
    heads = (*names, f"{found.target}, {unit}" if unit else found.target)
    cells = [[*(_text(row.get(name)) for name in names), _amount(row, found.target, factor)]
             for row in found.rows]  # fmt: skip
    return heads, cells


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _amount(row: Row, target: str, factor: float) -> str:
    if row.get(target) is None:
        return "failed" if row["failed"] else "–"
    return figure(row[target] * factor)


def render_scaling(found: list[Family], form: str, rounding: str = EXACT) -> str:
    """In one of ``terminal json csv md``."""
    data = [scaling_data(family, rounding) for family in found]
    if form == "json":
        return json.dumps({"scaling": data}, indent=1, default=str) + "\n"
    if form == "csv":
        rows = [{"family": each["family"], **each["values"], **point} for each in data
                for point in each["points"]]  # fmt: skip
        names = dict.fromkeys(name for row in rows for name in row)
        return as_csv({name: [row.get(name) for row in rows] for name in names})
    make = scaling_text if form == "terminal" else scaling_markdown
    return "\n".join(line for family in found for line in make(family, rounding)).rstrip() + "\n"


def scaling_of(
    suite: SuiteSummary, rounding: str, kind: str, over: str, target: str
) -> list[Family]:
    """The tables of a sweep. Raises UserError where nothing scales."""
    found = families(suite, rounding, kind, over, target)
    if not found:
        raise UserError(
            f"--over {over}: no benchmarks that did not fail differ in it and have {target}"
        )
    return found
