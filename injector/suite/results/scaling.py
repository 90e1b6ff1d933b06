"""How a benchmark scales over devices: weak and strong, exact or as DLBS rounds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .suite_summary import BenchmarkSummary, SuiteSummary

_LIST = re.compile(r"(?:[a-z]+:)?\d+(?:[, ]+(?:[a-z]+:)?\d+)*")
"""``"0,1"``, ``"cuda:0, cuda:1"``."""
WEAK, STRONG = "weak", "strong"
EXACT, DLBS = "exact", "dlbs"


class Measurement(NamedTuple):
    """A measurement on some devices."""

    devices: int
    seconds: float
    """Of a step."""
    items: float
    """Of a step, of all devices together."""


class Scaled(NamedTuple):
    """One column of a scaling table."""

    devices: int
    seconds: float
    throughput: float
    """Items per second of all devices together."""
    speedup: float
    efficiency: float
    """Percent."""


class Family(NamedTuple):
    """Benchmarks of one entry that differ in nothing but their devices."""

    name: str
    kind: str
    """``"weak"``: the batch grows with the devices; ``"strong"``: it stays."""
    columns: tuple[Scaled, ...]
    values: Mapping[str, Any] = {}
    """Of the other names that the entry is swept over: ``{"framework": "mxnet"}``."""


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
            fraction *= first.devices / point.devices
        if rounding == DLBS:
            speedup, percent = round(speedup, 2), _cut(10_000 * fraction) / 100
        else:
            percent = 100 * fraction
        found.append(Scaled(point.devices, point.seconds, throughput, speedup, percent))
    return tuple(found)


def _throughput(point: Measurement, rounding: str) -> float:
    exact = point.items / point.seconds
    return float(_cut(exact)) if rounding == DLBS else exact


def _cut(value: float) -> int:
    """Towards 0, but for what only the last bit keeps from being whole."""
    return int(value * (1 + 1e-12))


def families(suite: SuiteSummary, rounding: str = EXACT) -> list[Family]:
    """What of ``suite`` scales: benchmarks of one entry with the tag ``weak`` or ``strong``.

    An entry that is swept over other names than its devices makes a family for each combination of
    their values. Only benchmarks that did not fail are points, and a family has two different numbers
    of devices at least.
    """
    entries: dict[tuple[str, str], list[BenchmarkSummary]] = {}
    for benchmark in suite.benchmarks:
        kind = next((kind for kind in (WEAK, STRONG) if _tagged(benchmark, kind)), None)
        if kind:
            entries.setdefault((benchmark.family, kind), []).append(benchmark)
    found = []
    for (name, kind), benchmarks in entries.items():
        for values, points in _series(benchmarks):
            if len({point.devices for point in points}) > 1:
                found.append(Family(name, kind, scaled(points, kind, rounding), values))
    return found


def _tagged(benchmark: BenchmarkSummary, kind: str) -> bool:
    return kind in benchmark.tags or f"{kind}-scaling" in benchmark.tags


def _series(
    benchmarks: Sequence[BenchmarkSummary],
) -> Iterable[tuple[dict[str, Any], list[Measurement]]]:
    """The points of one entry, by the values of the names that do not set its devices."""
    names = _other_names(benchmarks)
    found: dict[str, tuple[dict[str, Any], list[Measurement]]] = {}
    for benchmark in benchmarks:
        values = {name: benchmark.values.get(name) for name in names}
        points = found.setdefault(_text(values), (values, []))[1]
        if point := _point(benchmark):
            points.append(point)
    return found.values()


def _other_names(benchmarks: Sequence[BenchmarkSummary]) -> list[str]:
    """The swept names of an entry that do not set the number of devices, as its benchmarks show.

    A name sets it where the devices change with that name alone. A name that never changes alone (the
    batch that grows with the devices) goes with them where its values are numbers or lists of
    devices, and each stands beside one number of devices only.
    """
    planned = [each for each in benchmarks if each.devices]
    names = dict.fromkeys(name for each in planned for name in each.values)
    varied = [name for name in names if len({_text(b.values.get(name)) for b in planned}) > 1]
    found = []
    for name in varied:
        alone: dict[str, dict[str, int]] = {}
        for each in planned:
            rest = _text([each.values.get(other) for other in varied if other != name])
            alone.setdefault(rest, {})[_text(each.values.get(name))] = each.devices
        groups = [devices for devices in alone.values() if len(devices) > 1]
        sets = any(len(set(devices.values())) > 1 for devices in groups)
        if not sets and (groups or not _follows(name, planned)):
            found.append(name)
    return found


def _follows(name: str, benchmarks: Sequence[BenchmarkSummary]) -> bool:
    """Whether the values of ``name`` count, and each stands beside one number of devices only."""
    devices: dict[str, set[int]] = {}
    for each in benchmarks:
        value = each.values.get(name)
        if not (isinstance(value, (int, float, list)) or _LIST.fullmatch(str(value))):
            return False
        devices.setdefault(_text(value), set()).add(each.devices)
    return all(len(each) == 1 for each in devices.values())


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _point(benchmark: BenchmarkSummary) -> Measurement | None:
    """The mean over its repeats."""
    records = [p.record for p in benchmark.processes if p.record and not p.failed]
    records = [record for record in records if record.step > 0 and record.items]
    if not records or benchmark.failures or not benchmark.devices:
        return None
    seconds = sum(record.step for record in records) / len(records)
    items = sum(record.items or 0.0 for record in records) / len(records)
    return Measurement(benchmark.devices, seconds, items)
