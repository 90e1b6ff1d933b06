"""Charts: rows of named values become lines, with one dot at each x and a bar for its spread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, sqrt
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

from ..errors import UserError
from ..metrics import METRICS, shown

AGGREGATIONS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "median": median,
    "min": min,
    "max": max,
}
ERRORS = ("std", "sem", "range", "none")
"""Bars: the sample's standard deviation, the standard error of the mean, from the least to the largest."""
NOT_POSITIVE = "has values that are not above 0, which a logarithmic axis cannot show"


class Dot(NamedTuple):
    """One x of a line."""

    x: float
    """In a chart with categories, the index of one."""
    y: float
    below: float
    """How far the error bar reaches below y."""
    above: float
    n: int
    """How many values it is made of."""


class ChartLine(NamedTuple):
    """One line of a chart."""

    name: str
    dots: tuple[Dot, ...]
    """In the order of x."""


class Axis(NamedTuple):
    """One axis."""

    label: str
    """With the unit."""
    log: bool
    """Whether it is logarithmic."""


class Chart(NamedTuple):
    """A chart, independent of what draws it."""

    title: str
    x: Axis
    y: Axis
    categories: tuple[str, ...]
    """The names along x; empty if x is a number."""
    lines: tuple[ChartLine, ...]


def chart(
    rows: Sequence[Mapping[str, Any]],
    x: str,
    y: str,
    series: Sequence[str] = (),
    agg: str = "mean",
    error: str = "std",
    title: str = "",
    log: str = "",
    units: Mapping[str, str] = {},
) -> Chart:
    """A chart of the rows that have both ``x`` and ``y``, with a line for each combination in ``series``.

    Rows of the same x and line make one dot: their aggregate by ``agg`` (:data:`AGGREGATIONS`), with a bar by
    ``error`` (:data:`ERRORS`). ``log`` is the logarithmic axes: ``x``, ``y``, ``xy`` or none. ``units`` are
    those of names that are no metrics.

    Raises UserError if no row has both, a y is no number, or a logarithm cannot be taken.
    """
    usable = _usable(rows, x, y)
    x_unit, x_factor = _unit_and_factor(x, usable, units)
    y_unit, y_factor = _unit_and_factor(y, usable, units)
    places, categories = _places(usable, x, x_factor)
    values_of: dict[str, dict[float, list[float]]] = {}
    for row, place in zip(usable, places, strict=True):
        value = _number(row[y])
        if value is None:
            raise UserError(f"--y {y}: {row[y]!r} is no number")
        line_name = ", ".join(_shown(row.get(name)) for name in series) or y
        values_of.setdefault(line_name, {}).setdefault(place, []).append(value * y_factor)
    lines = tuple(
        ChartLine(name, tuple(_dot_of(*item, agg, error) for item in sorted(by_place.items())))
        for name, by_place in values_of.items()
    )
    if "x" in log and categories:
        raise UserError(f"--log {log}: {x} is no number")
    dots = [dot for line in lines for dot in line.dots]
    for axis, name, values in (("x", x, [d.x for d in dots]), ("y", y, [d.y for d in dots])):
        if axis in log and min(values) <= 0:
            raise UserError(f"--log {log}: {name} {NOT_POSITIVE}")
    aggregated = f"{agg} of " if any(dot.n > 1 for dot in dots) else ""
    return Chart(
        title or f"{y} over {x}",
        Axis(_label(x, x_unit), "x" in log),
        Axis(aggregated + _label(y, y_unit), "y" in log),
        categories,
        lines,
    )


def _places(
    rows: Sequence[Mapping[str, Any]], x: str, factor: float
) -> tuple[list[float], tuple[str, ...]]:
    """Where each row is on the axis of ``x``, and the names on it; none if all of them are numbers."""
    numbers = [_number(row[x]) for row in rows]
    if None not in numbers:
        return [number * factor for number in numbers if number is not None], ()
    names = [_shown(row[x]) for row in rows]
    categories = tuple(dict.fromkeys(names))
    return [categories.index(name) for name in names], categories


def _usable(rows: Sequence[Mapping[str, Any]], x: str, y: str) -> list[Mapping[str, Any]]:
    """The rows that have both ``x`` and ``y``. Raises UserError if there are none."""
    if not rows:
        raise UserError("nothing to plot: no run and no repeat of a benchmark has succeeded")
    usable = [row for row in rows if row.get(x) is not None and row.get(y) is not None]
    if not usable:
        known = sorted({name for row in rows for name, value in row.items() if value is not None})
        unknown = next((name for name in (x, y) if name not in known), None)
        what = f"has {unknown}" if unknown else f"has both {x} and {y}"
        raise UserError(
            f"nothing to plot: none of {len(rows)} rows {what}; there are {', '.join(known)}"
        )
    return usable


def labelled(unlabelled: Chart, x: str, y: str, legend: Mapping[str, str]) -> Chart:
    """The chart with the labels ``x`` and ``y``, unless they are empty, and names of lines by ``legend``.

    Raises UserError for a name in ``legend`` that no line has.
    """
    names = [line.name for line in unlabelled.lines]
    for name in legend:
        if name not in names:
            raise UserError(f"--legend {name}={legend[name]}: the lines are {', '.join(names)}")
    lines = tuple(line._replace(name=legend.get(line.name, line.name)) for line in unlabelled.lines)
    of_x = unlabelled.x._replace(label=x or unlabelled.x.label)
    of_y = unlabelled.y._replace(label=y or unlabelled.y.label)
    return unlabelled._replace(x=of_x, y=of_y, lines=lines)


def _dot_of(x: float, values: Sequence[float], agg: str, error: str) -> Dot:
    """The aggregate of ``values`` at ``x``, with its bar."""
    y, n = AGGREGATIONS[agg](values), len(values)
    if error == "range":
        return Dot(x, y, y - min(values), max(values) - y, n)
    size = stdev(values) if n > 1 and error != "none" else 0.0
    size = size / sqrt(n) if error == "sem" else size
    return Dot(x, y, size, size, n)


def _number(value: Any) -> float | None:
    """``value``, which may be text, as a finite number, or None."""
    if isinstance(value, (bool, list, dict)):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _unit_and_factor(
    name: str, rows: Sequence[Mapping[str, Any]], units: Mapping[str, str]
) -> tuple[str, float]:
    """The unit that the values called ``name`` are shown in, and the factor that converts them to it."""
    if name in units:
        return units[name], 1.0
    unit = METRICS[name].unit if name in METRICS else ""
    if unit != "s":
        return ("", 1.0) if unit == "count" else shown(unit)
    numbers = (_number(row[name]) for row in rows)
    most = max((abs(number) for number in numbers if number is not None), default=1.0)
    return ("s", 1.0) if most >= 1 else ("ms", 1e3) if most >= 1e-3 else ("µs", 1e6)


def _label(name: str, unit: str) -> str:
    return f"{name}, {unit}" if unit and unit != name else name


def columns(drawn: Chart) -> dict[str, list[Any]]:
    """The dots of a chart as the columns of a table."""
    dots = [(line.name, dot) for line in drawn.lines for dot in line.dots]
    table: dict[str, list[Any]] = {
        "series": [name for name, _ in dots],
        drawn.x.label: [drawn.categories[int(d.x)] if drawn.categories else d.x for _, d in dots],
        drawn.y.label: [dot.y for _, dot in dots],
    }
    if any(dot.below or dot.above for _, dot in dots):
        table["below"] = [dot.below for _, dot in dots]
        table["above"] = [dot.above for _, dot in dots]
    table["n"] = [dot.n for _, dot in dots]
    return table
