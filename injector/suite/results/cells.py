"""The cells of a suite's tables, for the eye."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...analysis.wording import count
from ...metrics import shown, unit_of
from ...report.text import UNKNOWN, duration, figure, short
from .points import STEP_TIME, THROUGHPUT, row_of
from .points import unit_of as unit_of_figure
from .scaling import DLBS, Family, Scaled
from .scores import Row, Total
from .suite_summary import BenchmarkSummary, SuiteSummary

COLUMNS = {
    "fail": "fail",
    "n": "n",
    "ngpu": "ngpu",
    "perf": "perf",
    "sem": "sem",
    "std": "std",
    "peak_memory": "memory",
    "energy": "energy",
    "perf_per_watt": "perf/W",
    "score": "score",
    "weight": "weight",
}
"""The fields of a row that are shown, and their titles."""
SCALING = ("step, ms", "items/s")
SCALED_TIMES = (THROUGHPUT, STEP_TIME)
"""Targets whose tables have both."""
TASKS = (
    *("time_data_generation", "time_data_loading", "time_training"),
    *("time_inferencing", "time_inferencing_per_query"),
    *("prediction_latency_p50_usecs", "prediction_latency_p99_usecs"),
)
"""Figures of tasks, under the names of lightgbm-benchmark, that have a table of their own."""
FRAMEWORKS = (
    "torch", "jax", "tensorflow", "lightning", "transformers", "accelerate", "deepspeed", "lightgbm",
    "xgboost", "catboost", "scikit-learn", "numpy", "overlay-injector", "milabench",
)  # fmt: skip
"""Of the packages, those that a reader asks for first."""


def head(field: str, title: str) -> str:
    """``title`` with the unit that ``field`` is shown in, where that is not the one it is kept in."""
    unit, factor = shown(unit_of(f"suite {field}"))
    return title if factor == 1 else f"{title} %" if unit == "%" else f"{title}, {unit}"


HEADS = tuple(head(*each) for each in COLUMNS.items())


def of_row(row: Row) -> list[str]:
    """As :data:`HEADS`, after the benchmark's name."""
    return [_cell(field, getattr(row, field)) for field in COLUMNS]


def _cell(field: str, value: float | None) -> str:
    unit, factor = shown(unit_of(f"suite {field}"))
    if value is None:
        return UNKNOWN
    if unit in ("%", "GB"):
        return f"{value * factor:.2f}"
    return f"{value:g}" if unit == "count" else figure(value * factor)


def verdict(total: Total) -> str:
    """Whether the suite has passed."""
    if not total.n:
        return "nothing was to run"
    if not total.fail:
        return f"PASS: all of {count(total.n, 'run')}"
    return f"FAIL: {total.fail} of {count(total.n, 'run')} failed, {100 * total.failure_rate:.1f} %"


def score(total: Total) -> list[str]:
    """The suite's score in sentences."""
    if not total.weight:
        return ["–, no benchmark has a weight"]
    if total.score is None:
        return ["–, nothing that counts has passed"]
    found = [f"{figure(total.score)}, over a weight of {total.weight:g}"]
    if total.left_out and total.score_of_run is not None:
        rest = total.weight - total.left_out
        found.append(
            f"what was left out counts 0 with a weight of {total.left_out:g}: "
            f"{figure(total.score_of_run)} without it, over a weight of {rest:g}"
        )
    return found


def has_rate(family: Family) -> bool:
    """Whether a table has the time of a step and its items per second."""
    return family.has_items and family.target in SCALED_TIMES


def scaling_heads(family: Family) -> tuple[str, ...]:
    """Of a table of :func:`of_scaled`."""
    unit = "ms" if unit_of_figure(family.target) == "s" else unit_of_figure(family.target)
    measured = SCALING if has_rate(family) else (f"{family.target}, {unit}",)
    return (family.over, *measured, "speedup", "efficiency %")


def of_scaled(column: Scaled, rounding: str, family: Family) -> list[str]:
    """As :func:`scaling_heads`."""
    exact = rounding != DLBS
    seconds = f"{column.seconds * 1e3:.2f}"
    rate = f"{column.throughput:.3f}" if exact else f"{column.throughput:.0f}"
    if has_rate(family):
        measured = [seconds, rate]
    else:
        measured = [seconds if unit_of_figure(family.target) == "s" else rate]
    return [
        f"{column.number:g}",
        *measured,
        f"{column.speedup:.3f}" if exact else f"{column.speedup:.3g}",
        f"{column.efficiency:.3f}" if exact else f"{column.efficiency:.2f}",
    ]


def title(family: Family) -> str:
    """``resnet50 (framework mxnet), weak scaling``."""
    own = ", ".join(f"{name} {value}" for name, value in family.values.items())
    first = family.columns[0].number
    base = f", compared with {first:g} {family.over}" if first > 1 else ""
    return f"{family.name}{f' ({own})' if own else ''}, {family.kind} scaling{base}"


def tasks(suite: SuiteSummary) -> tuple[list[str], list[list[str]]]:
    """Heads and rows, each begun by its benchmark, of the tasks that any benchmark has figures of."""
    known = {each.name: row_of(suite, each) for each in suite.benchmarks}
    rows = {name: {task: row.get(task) for task in TASKS} for name, row in known.items()}
    heads = [name for name in TASKS if any(row[name] is not None for row in rows.values())]
    found = [
        [benchmark, *(_duration(name, row[name]) for name in heads)]
        for benchmark, row in rows.items()
        if any(value is not None for value in row.values())
    ]
    return heads, found


def _duration(name: str, value: float | None) -> str:
    if value is None:
        return UNKNOWN
    unit, factor = shown(unit_of_figure(name))
    return short(value) if unit == "s" else f"{figure(value * factor)} {unit}"


def units(rows: Iterable[Row]) -> list[str]:
    """A sentence for each other unit of perf than items per second."""
    other: dict[str, list[str]] = {}
    for row in rows:
        if row.perf is not None and row.unit != "items/s":
            other.setdefault(row.unit, []).append(row.benchmark)
    return [f"perf is in {unit}: {', '.join(names)}" for unit, names in other.items()]


_NUMBER = re.compile(r"\d+(\.\d+)?")


@dataclass
class SharedFinding:
    """A finding, once for all runs that have it."""

    sentence: str
    lines: tuple[str, ...]
    keys: list[str] = field(default_factory=list)


def shared_findings(benchmark: BenchmarkSummary, severity: str) -> list[SharedFinding]:
    """Every finding of ``severity`` that is not ok, with the runs that have it."""
    found: dict[str, SharedFinding] = {}
    all_findings = [(each, p.key) for p in benchmark.processes for each in p.findings]
    all_findings += [(each, "") for each in benchmark.findings]
    for finding, key in all_findings:
        if finding.ok or finding.severity != severity:
            continue
        text = f"{finding.layer}: {finding.sentence}"
        # An exception is the same one when only its numbers differ: bytes, addresses, ids.
        same = _NUMBER.sub("0", text) if finding.layer == "error" else text
        each = found.setdefault(same, SharedFinding(text, finding.lines))
        each.lines = each.lines or finding.lines
        if key:
            each.keys.append(key)
    return list(found.values())


# --- what it ran on -------------------------------------------------------------------------------


def machine(suite: SuiteSummary) -> list[str]:
    """Host, processor, memory, system."""
    planned, records = suite.machine, suite.records
    hosts = dict.fromkeys([planned.get("host"), *(record.host for record in records)])
    cpu = planned.get("cpu") or next((record.cpu for record in records if record.cpu), None)
    cores = planned.get("cpu_count") or next((r.cpus for r in records if r.cpus), None)
    parts = [
        ", ".join(str(host) for host in hosts if host),
        str(cpu or ""),
        f"{cores} cores" if cores else "",
        _gigabytes(planned.get("memory")),
        next((record.platform for record in records if record.platform), ""),
    ]
    return [part for part in parts if part]


def devices(suite: SuiteSummary) -> list[str]:
    """``4 × NVIDIA L40S, 48.3 GB``, then the driver."""
    counted: dict[str, int] = {}
    for each in suite.machine.get("devices") or ():
        name = str(each.get("name") or each.get("key", "").partition(":")[0])
        memory = _gigabytes(each.get("memory"))
        text = f"{name}, {memory}" if memory else name
        counted[text] = counted.get(text, 0) + 1
    found = [f"{number} × {text}" for text, number in counted.items()]
    drivers = [suite.machine.get("driver"), *(record.driver for record in suite.records)]
    return [*found, *(f"driver {each}" for each in dict.fromkeys(drivers) if each)]


def _gigabytes(count: float | None) -> str:
    return f"{count / 1e9:.1f} GB" if count else ""


def packages(suite: SuiteSummary) -> dict[str, str]:
    """The versions of :data:`FRAMEWORKS` and of Python; several where runs differ."""
    found: dict[str, dict[str, None]] = {}
    for record in suite.records:
        versions = {
            "python": record.python,
            **{name: record.packages.get(name) for name in FRAMEWORKS},
        }
        for name, version in versions.items():
            if version:
                found.setdefault(name, {})[version] = None
    return {name: ", ".join(versions) for name, versions in found.items()}


def began(suite: SuiteSummary) -> str:
    """When the suite ran, by the clock of who reads it."""
    if suite.started is None:
        return ""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(suite.started))


def took(suite: SuiteSummary) -> str:
    """How long the suite ran."""
    if suite.started is None or suite.ended is None:
        return ""
    return duration(suite.ended - suite.started)
