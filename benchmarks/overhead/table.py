"""The table: what was measured beside the goal, the floor and the peers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .measures import Table
from .spread import Spread


class Row(NamedTuple):
    """One line: its key in the measurements, its title, its unit, the goal and who must meet it."""

    key: str
    title: str
    unit: str
    goal: float | None
    ours: tuple[str, ...]


HOOK = ("hook",)
ROWS = (
    Row("observe", "observe a variable", "µs", 0.10, (*HOOK, "ov.value")),
    Row("count", "the same, an integer", "µs", 0.10, HOOK),
    Row("override", "override a return value", "µs", 0.10, HOOK),
    Row("loop", "loop begin and end", "µs", 0.20, HOOK),
    Row("nested", "nested selector f > g > x", "µs", 0.60, ("ov.value",)),
    Row("entered", "the same, entering f each time", "µs", None, ("ov.value",)),
    Row("unprobed", "a function no probe names", "µs", 0.0, ("ov.value",)),
    Row("start-up", "start-up, empty script", "ms", 30.0, ("inject",)),
    Row("start-up (CPU)", "  of it CPU", "ms", None, ("inject",)),
    Row("start-up, torch", "start-up, imports torch", "ms", 30.0, ("inject",)),
    Row("start-up, torch (CPU)", "  of it CPU", "ms", None, ("inject",)),
    Row("500 imports", "500 unprobed imports", "%", 2.0, ("inject",)),
)
SILENCE = 0.005
"""Microseconds that two texts which are the same may differ by."""
COLUMNS = ("python", "floor", "hook", "ov.value", "ov.probe", "inject", "ptera", "voir")


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
    """Rows with a goal for which this run has no number of ours."""
    return [
        row.title
        for row in ROWS
        if row.goal is not None and not any(name in measured.get(row.key, {}) for name in row.ours)
    ]


def lines(measured: Table) -> Iterator[str]:
    """The table as text: medians over the plain program, then the spread of the widest."""
    used = [c for c in COLUMNS if any(c in row for row in measured.values())]
    yield _line("over the plain program", "", "goal", used)
    for row in ROWS:
        if row.key in measured:
            cells = [_cell(measured[row.key].get(column)) for column in used]
            goal = "" if row.goal is None else f"{row.goal:g}"
            yield _line(row.title, row.unit, goal, cells)
    yield ""
    yield "medians of paired differences (python: of the plain run itself); 95 % interval of ours:"
    for row in ROWS:
        for name in row.ours:
            found = measured.get(row.key, {}).get(name)
            if found is not None:
                bounds = f"{found.low:.3g} … {found.high:.3g} {row.unit}"
                yield f"  {row.title.strip()} [{name}]: {bounds}, n={found.n}"


def _cell(found: Spread | None) -> str:
    if found is None:
        return "–"
    return f"{found.median:.1f}" if abs(found.median) >= 10 else f"{found.median:.3f}"


def _line(title: str, unit: str, goal: str, cells: list[str]) -> str:
    return f"{title:32} {unit:3} {goal:>6}" + "".join(f"{cell:>10}" for cell in cells)
