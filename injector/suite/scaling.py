"""How a benchmark scales over devices: weak and strong, exact or as DLBS rounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .outcome import BenchmarkResult, SuiteResult

WEAK, STRONG = "weak", "strong"
EXACT, DLBS = "exact", "dlbs"


class Point(NamedTuple):
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
    """Benchmarks that differ in nothing but their devices."""

    name: str
    kind: str
    """``"weak"``: the batch grows with the devices; ``"strong"``: it stays."""
    columns: tuple[Scaled, ...]


def scaled(points: Iterable[Point], kind: str, rounding: str = EXACT) -> tuple[Scaled, ...]:
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


def _throughput(point: Point, rounding: str) -> float:
    exact = point.items / point.seconds
    return float(_cut(exact)) if rounding == DLBS else exact


def _cut(value: float) -> int:
    """Towards 0, but for what only the last bit keeps from being whole."""
    return int(value * (1 + 1e-12))


def families(suite: SuiteResult, rounding: str = EXACT) -> list[Family]:
    """What of ``suite`` scales: benchmarks of one entry with the tag ``weak`` or ``strong``.

    Only those that did not fail, on two different numbers of devices at least.
    """
    found: dict[tuple[str, str], dict[int, Point]] = {}
    for benchmark in suite.benchmarks:
        kind = next((kind for kind in (WEAK, STRONG) if _tagged(benchmark, kind)), None)
        point = _point(benchmark)
        if kind and point:
            found.setdefault((benchmark.family, kind), {})[point.devices] = point
    return [
        Family(name, kind, scaled(points.values(), kind, rounding))
        for (name, kind), points in found.items()
        if len(points) > 1
    ]


def _tagged(benchmark: BenchmarkResult, kind: str) -> bool:
    return kind in benchmark.tags or f"{kind}-scaling" in benchmark.tags


def _point(benchmark: BenchmarkResult) -> Point | None:
    """The mean over its repeats."""
    records = [p.record for p in benchmark.processes if p.record and not p.failed]
    records = [record for record in records if record.step > 0 and record.items]
    if not records or benchmark.failures or not benchmark.devices:
        return None
    seconds = sum(record.step for record in records) / len(records)
    items = sum(record.items or 0.0 for record in records) / len(records)
    return Point(benchmark.devices, seconds, items)
