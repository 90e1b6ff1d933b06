"""How a benchmark scales over devices: weak and strong, exact or as DLBS rounds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ...errors import UserError
from ..config.expressions import read_number
from .points import DEVICES, DLBS_NAMES, STEP_TIME, THROUGHPUT, checked, row_of, unit_of
from .run_record import RunRecord
from .suite_summary import BenchmarkSummary, SuiteSummary

_LIST = re.compile(r"(?:[a-z]+:)?\d+(?:[, ]+(?:[a-z]+:)?\d+)*")
"""``"0,1"``, ``"cuda:0, cuda:1"``."""
WEAK, STRONG = "weak", "strong"
EXACT, DLBS = "exact", "dlbs"


class Measurement(NamedTuple):
    """A measurement on some devices, or with some number of what else is scaled over."""

    number: float
    seconds: float
    """Of a step."""
    items: float
    """Of a step, of all devices together."""


class Scaled(NamedTuple):
    """One column of a scaling table."""

    number: float
    """Of devices, or of what else is scaled over."""
    seconds: float
    throughput: float
    """Items per second of all devices together, or what else the target is, where that is no time."""
    speedup: float
    efficiency: float
    """Percent."""


class Family(NamedTuple):
    """Benchmarks of one entry that differ in nothing but what they are scaled over."""

    name: str
    kind: str
    """``"weak"``: the batch grows with the devices; ``"strong"``: it stays."""
    columns: tuple[Scaled, ...]
    values: Mapping[str, Any] = {}
    """Of the other names that the entry is swept over: ``{"framework": "mxnet"}``."""
    over: str = DEVICES
    target: str = THROUGHPUT
    has_items: bool = True
    """Whether the items of a step are known; without them it is scaled over its time alone."""


def scaled(points: Iterable[Measurement], kind: str, rounding: str = EXACT) -> tuple[Scaled, ...]:
    """The table of ``points``, by number of devices; compared with the smallest, which should be 1.

    With t seconds of a step of B items on N devices: throughput = B / t; speedup = throughput N /
    throughput 1; efficiency = t1 / tN where the work grows with N, t1 / (N tN) where it stays. DLBS
    truncates (``reports/summary_builder.py``): throughput = int(B / t), speedup of truncated throughputs
    to two decimals, efficiency = int(10000 · fraction) / 100.
    """
    ordered = sorted(points)
    if not ordered:
        return ()
    first = ordered[0]
    base = _throughput(first, rounding)
    found = []
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
        found.append(Scaled(point.number, point.seconds, throughput, speedup, percent))
    return tuple(found)


def _throughput(point: Measurement, rounding: str) -> float:
    exact = point.items / point.seconds
    return float(_cut(exact)) if rounding == DLBS else exact


def _cut(value: float) -> int:
    """Towards 0, but for what only the last bit keeps from being whole."""
    return int(value * (1 + 1e-12))


def families(
    suite: SuiteSummary,
    rounding: str = EXACT,
    kind: str | None = None,
    over: str = DEVICES,
    target: str = THROUGHPUT,
) -> list[Family]:
    """What of ``suite`` scales: benchmarks with the tag ``weak`` or ``strong``, or all as ``kind`` says.

    ``over``: what is counted, the devices or a swept name. An entry that is swept over other names as well
    makes a family for each combination of their values. Only benchmarks that did not fail are points, and a
    family has two different numbers at least. Raises UserError where ``over`` or ``target`` fits nothing.
    """
    target = DLBS_NAMES[target][0] if target in DLBS_NAMES else target
    entries: dict[tuple[str, str], list[BenchmarkSummary]] = {}
    for benchmark in suite.benchmarks:
        tags = benchmark.tags
        tagged = (each for each in (WEAK, STRONG) if each in tags or f"{each}-scaling" in tags)
        own = kind or next(tagged, None)
        if own:
            entries.setdefault((benchmark.family, own), []).append(benchmark)
    if kind:
        rows = [row_of(suite, each) for each in suite.benchmarks]
        checked(rows, over, "--over")
        checked(rows, target, "--target")
        if target not in (THROUGHPUT, STEP_TIME) and unit_of(target) not in ("s", "items/s"):
            raise UserError(
                f"--target {target}: scaling is of a rate or a time, such as throughput"
            )
    found = []
    for (name, own), benchmarks in entries.items():
        numbers = _numbers(suite, benchmarks, over)
        for values, members in _series(benchmarks, numbers):
            items = target in (THROUGHPUT, STEP_TIME) and any(map(_with_items, members))
            measure = _point if items else partial(_point_of_figure, suite, own, target)
            points = [
                point
                for each in members
                if not each.failures and (number := numbers[each.name])
                if (point := measure(each, number))
            ]
            if len({point.number for point in points}) > 1:
                columns = scaled(points, own, rounding)
                found.append(Family(name, own, columns, values, over, target, items))
    return found


def _numbers(
    suite: SuiteSummary, benchmarks: Sequence[BenchmarkSummary], over: str
) -> dict[str, float]:
    """By benchmark its number of devices, or of ``over``: a number, or a list whose members count."""
    if over == DEVICES:
        return {each.name: each.devices for each in benchmarks}
    values = {each.name: row_of(suite, each).get(over) for each in benchmarks}
    lists = any(isinstance(value, list) or "," in str(value) for value in values.values())
    found: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, list):
            found[name] = len(value)
        elif lists and _LIST.fullmatch(str(value)):
            found[name] = len(re.split(r"[, ]+", str(value)))
        else:
            found[name] = read_number(str(value)) or 0
    return found


def _series(
    benchmarks: Sequence[BenchmarkSummary], numbers: Mapping[str, float]
) -> Iterable[tuple[dict[str, Any], list[BenchmarkSummary]]]:
    """The benchmarks of one entry, by the values of the names that do not set its number."""
    names = _other_names(benchmarks, numbers)
    found: dict[str, tuple[dict[str, Any], list[BenchmarkSummary]]] = {}
    for benchmark in benchmarks:
        values = {name: benchmark.values.get(name) for name in names}
        found.setdefault(_text(values), (values, []))[1].append(benchmark)
    return found.values()


def _other_names(benchmarks: Sequence[BenchmarkSummary], numbers: Mapping[str, float]) -> list[str]:
    """The swept names of an entry that do not set the number (of devices), as its benchmarks show.

    A name sets it where it changes with that name alone. A name that never changes alone (the batch that
    grows with the devices) goes with it where its values are numbers or lists of devices, and each stands
    beside one number only.
    """
    planned = [each for each in benchmarks if numbers[each.name]]
    names = dict.fromkeys(name for each in planned for name in each.values)
    varied = [name for name in names if len({_text(b.values.get(name)) for b in planned}) > 1]
    found = []
    for name in varied:
        alone: dict[str, dict[str, float]] = {}
        for each in planned:
            rest = _text([each.values.get(other) for other in varied if other != name])
            alone.setdefault(rest, {})[_text(each.values.get(name))] = numbers[each.name]
        groups = [counted for counted in alone.values() if len(counted) > 1]
        sets = any(len(set(counted.values())) > 1 for counted in groups)
        if not sets and (groups or not _follows(name, planned, numbers)):
            found.append(name)
    return found


def _follows(
    name: str, benchmarks: Sequence[BenchmarkSummary], numbers: Mapping[str, float]
) -> bool:
    """Whether the values of ``name`` count, and each stands beside one number only."""
    beside: dict[str, set[float]] = {}
    for each in benchmarks:
        value = each.values.get(name)
        if not (isinstance(value, (int, float, list)) or _LIST.fullmatch(str(value))):
            return False
        beside.setdefault(_text(value), set()).add(numbers[each.name])
    return all(len(each) == 1 for each in beside.values())


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _with_items(benchmark: BenchmarkSummary) -> list[RunRecord]:
    """Its runs of which the items of a step are known."""
    records = (p.record for p in benchmark.processes if p.record and not p.failed)
    return [record for record in records if record.step > 0 and record.items]


def _point(benchmark: BenchmarkSummary, number: float) -> Measurement | None:
    """The mean over its repeats."""
    records = _with_items(benchmark)
    if not records:
        return None
    seconds = sum(record.step for record in records) / len(records)
    items = sum(record.items or 0.0 for record in records) / len(records)
    return Measurement(number, seconds, items)


def _point_of_figure(
    suite: SuiteSummary, kind: str, target: str, benchmark: BenchmarkSummary, number: float
) -> Measurement | None:
    """Another rate or time than the step's."""
    value = row_of(suite, benchmark).get(target)
    if not value:
        return None
    # As if of a step: its work grows with the number in weak scaling, and stays in strong scaling.
    work = number if kind == WEAK else 1.0
    return Measurement(number, value if unit_of(target) == "s" else work / value, work)
