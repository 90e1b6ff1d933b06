"""How benchmarks scale over devices, or over another name that they are swept over.

The benchmarks of one entry make a family, or one family for each combination of the values of other names.
A family becomes a table with a column for each number of devices. In weak scaling the work grows with the
devices, in strong scaling it stays. Figures are exact, or rounded as those of the Deep Learning Benchmarking
Suite (DLBS) are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ...errors import UserError
from ..config.functions import read_number
from .points import DEVICES, DLBS_NAMES, STEP_TIME, THROUGHPUT, checked, row_of, unit_of
from .run_record import RunRecord
from .suite_summary import BenchmarkSummary, SuiteSummary

_LIST = re.compile(r"(?:[a-z]+:)?\d+(?:[, ]+(?:[a-z]+:)?\d+)*")
"""A list of devices: ``"0,1"``, ``"cuda:0, cuda:1"``."""
WEAK, STRONG = "weak", "strong"
EXACT, DLBS = "exact", "dlbs"


class Measurement(NamedTuple):
    """The mean step of one benchmark of a family."""

    number: float
    """Of devices, or the value of the name that is scaled over."""
    seconds: float
    items: float
    """Of all devices together."""


class Scaled(NamedTuple):
    """One column of a scaling table."""

    number: float
    """Of devices, or the value of the name that is scaled over."""
    seconds: float
    """Of a step, or the target if that is a time."""
    throughput: float
    """Items per second of all devices together, or the target if that is another rate."""
    speedup: float
    efficiency: float
    """Percent."""


class Family(NamedTuple):
    """Benchmarks of one entry that differ in nothing but what they are scaled over."""

    name: str
    kind: str
    """``"weak"`` (the batch grows with the devices) or ``"strong"`` (it stays)."""
    columns: tuple[Scaled, ...]
    values: Mapping[str, Any] = {}
    """The values of the other names that the entry is swept over: ``{"framework": "mxnet"}``."""
    over: str = DEVICES
    target: str = THROUGHPUT
    """The figure that is to grow with the number."""
    has_items: bool = True
    """Whether the items of a step are known; without them only the target can be shown."""


def scaled(points: Iterable[Measurement], kind: str, rounding: str = EXACT) -> tuple[Scaled, ...]:
    """The columns of ``points``, by number of devices, compared with the smallest number.

    With t seconds for a step of B items on N devices: throughput = B / t; speedup = throughput N /
    throughput 1; efficiency = t1 / tN if the work grows with N (weak), t1 / (N tN) if it stays (strong).
    DLBS truncates (``reports/summary_builder.py``): throughput = int(B / t), speedup is that of truncated
    throughputs, rounded to two decimals, and efficiency = int(10000 · fraction) / 100.
    """
    ordered = sorted(points)
    if not ordered:
        return ()
    first = ordered[0]
    base = _throughput(first, rounding)
    columns = []
    for point in ordered:
        throughput = _throughput(point, rounding)
        speedup = throughput / base if base else 0.0
        fraction = first.seconds / point.seconds
        if kind == STRONG:
            fraction *= first.number / point.number
        if rounding == DLBS:
            speedup, percent = round(speedup, 2), _cut(10_000 * fraction) / 100
        else:
            percent = 100 * fraction
        columns.append(Scaled(point.number, point.seconds, throughput, speedup, percent))
    return tuple(columns)


def _throughput(point: Measurement, rounding: str) -> float:
    exact = point.items / point.seconds
    return float(_cut(exact)) if rounding == DLBS else exact


def _cut(value: float) -> int:
    """``value`` truncated, unless rounding errors alone keep it below a whole number."""
    return int(value * (1 + 1e-12))


def families(
    suite: SuiteSummary,
    rounding: str = EXACT,
    kind: str | None = None,
    over: str = DEVICES,
    target: str = THROUGHPUT,
) -> list[Family]:
    """What of ``suite`` scales: the benchmarks with the tag ``weak`` or ``strong``, or all as ``kind`` says.

    ``over`` is what is counted: the devices, or a swept name. An entry that is swept over other names as well
    makes a family for each combination of their values. Only benchmarks that did not fail are points, and a
    family has at least two different numbers. Raises UserError if no benchmark has ``over`` or ``target``, or
    the target is neither a rate nor a time.
    """
    target = DLBS_NAMES[target][0] if target in DLBS_NAMES else target
    entries: dict[tuple[str, str], list[BenchmarkSummary]] = {}
    for benchmark in suite.benchmarks:
        tags = benchmark.tags
        tagged = (word for word in (WEAK, STRONG) if word in tags or f"{word}-scaling" in tags)
        scaling_kind = kind or next(tagged, None)
        if scaling_kind:
            entries.setdefault((benchmark.family, scaling_kind), []).append(benchmark)
    if kind:
        rows = [row_of(suite, benchmark) for benchmark in suite.benchmarks]
        checked(rows, over, "--over")
        checked(rows, target, "--target")
        if target not in (THROUGHPUT, STEP_TIME) and unit_of(target) not in ("s", "items/s"):
            raise UserError(
                f"--target {target}: scaling is of a rate or a time, such as throughput"
            )
    scaling = []
    for (name, scaling_kind), benchmarks in entries.items():
        numbers = _numbers(suite, benchmarks, over)
        for values, members in _series(benchmarks, numbers):
            items = target in (THROUGHPUT, STEP_TIME) and any(map(_with_items, members))
            measure = _point if items else partial(_point_of_figure, suite, scaling_kind, target)
            points = [
                point
                for member in members
                if not member.failures and (number := numbers[member.name])
                if (point := measure(member, number))
            ]
            if len({point.number for point in points}) > 1:
                columns = scaled(points, scaling_kind, rounding)
                scaling.append(Family(name, scaling_kind, columns, values, over, target, items))
    return scaling


def _numbers(
    suite: SuiteSummary, benchmarks: Sequence[BenchmarkSummary], over: str
) -> dict[str, float]:
    """How many devices each benchmark has, or its value of ``over``; of a list, how many members it has.

    The number is 0 if there is none.
    """
    if over == DEVICES:
        return {benchmark.name: benchmark.devices for benchmark in benchmarks}
    values = {benchmark.name: row_of(suite, benchmark).get(over) for benchmark in benchmarks}
    # "0" is a list of one device if it stands beside "0,1", else a number.
    has_lists = any(isinstance(value, list) or "," in str(value) for value in values.values())
    numbers: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, list):
            numbers[name] = len(value)
        elif has_lists and _LIST.fullmatch(str(value)):
            numbers[name] = len(re.split(r"[, ]+", str(value)))
        else:
            numbers[name] = read_number(str(value)) or 0
    return numbers


def _series(
    benchmarks: Sequence[BenchmarkSummary], numbers: Mapping[str, float]
) -> Iterable[tuple[dict[str, Any], list[BenchmarkSummary]]]:
    """The benchmarks of one entry, by the values of the names that do not set their numbers."""
    names = _other_names(benchmarks, numbers)
    series: dict[str, tuple[dict[str, Any], list[BenchmarkSummary]]] = {}
    for benchmark in benchmarks:
        values = {name: benchmark.values.get(name) for name in names}
        series.setdefault(_text(values), (values, []))[1].append(benchmark)
    return series.values()


def _other_names(benchmarks: Sequence[BenchmarkSummary], numbers: Mapping[str, float]) -> list[str]:
    """The swept names of an entry that do not set its benchmarks' numbers.

    No benchmark says which name became its number of devices, so the benchmarks are compared. A name sets the
    number if two that differ in this name alone have different numbers. If no two differ in it alone, such as
    a batch that grows with the devices, it may follow the number (:func:`_follows`), and is no other name
    either.
    """
    planned = [benchmark for benchmark in benchmarks if numbers[benchmark.name]]
    names = dict.fromkeys(name for benchmark in planned for name in benchmark.values)
    varied = [name for name in names if len({_text(b.values.get(name)) for b in planned}) > 1]
    others = []
    for name in varied:
        by_rest: dict[str, dict[str, float]] = {}
        for benchmark in planned:
            rest = _text([benchmark.values.get(other) for other in varied if other != name])
            value = _text(benchmark.values.get(name))
            by_rest.setdefault(rest, {})[value] = numbers[benchmark.name]
        differing = [by_value for by_value in by_rest.values() if len(by_value) > 1]
        sets_number = any(len(set(by_value.values())) > 1 for by_value in differing)
        if not sets_number and (differing or not _follows(name, planned, numbers)):
            others.append(name)
    return others


def _follows(
    name: str, benchmarks: Sequence[BenchmarkSummary], numbers: Mapping[str, float]
) -> bool:
    """Whether the values of ``name`` are numbers or lists of devices, each with one of ``numbers`` only."""
    numbers_of: dict[str, set[float]] = {}
    for benchmark in benchmarks:
        value = benchmark.values.get(name)
        if not (isinstance(value, (int, float, list)) or _LIST.fullmatch(str(value))):
            return False
        numbers_of.setdefault(_text(value), set()).add(numbers[benchmark.name])
    return all(len(beside) == 1 for beside in numbers_of.values())


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _with_items(benchmark: BenchmarkSummary) -> list[RunRecord]:
    """Its runs that did not fail and whose steps have a known number of items."""
    records = (p.record for p in benchmark.processes if p.record and not p.failed)
    return [record for record in records if record.step > 0 and record.items]


def _point(benchmark: BenchmarkSummary, number: float) -> Measurement | None:
    """The mean step of its runs; None if no run knows its items."""
    records = _with_items(benchmark)
    if not records:
        return None
    seconds = sum(record.step for record in records) / len(records)
    items = sum(record.items or 0.0 for record in records) / len(records)
    return Measurement(number, seconds, items)


def _point_of_figure(
    suite: SuiteSummary, kind: str, target: str, benchmark: BenchmarkSummary, number: float
) -> Measurement | None:
    """The figure ``target`` of a benchmark as if it were measured of a step; None if there is none."""
    value = row_of(suite, benchmark).get(target)
    if not value:
        return None
    # How much work there is, is not known. Only the proportion matters: it grows with the number in weak
    # scaling, and stays in strong scaling.
    work = number if kind == WEAK else 1.0
    return Measurement(number, value if unit_of(target) == "s" else work / value, work)
