"""The texts of a suite's tables as people read them: figures are rounded, and what is not known is a dash.

The report in a terminal, the one in Markdown and the page are made of these.
"""

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
from .suite_summary import BenchmarkSummary, SuiteSummary, seconds_run

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
"""Targets whose tables have both columns of :data:`SCALING`."""
TASKS = (
    *("time_data_generation", "time_data_loading", "time_training"),
    *("time_inferencing", "time_inferencing_per_query"),
    *("prediction_latency_p50_usecs", "prediction_latency_p99_usecs"),
)
"""The figures of tasks, under the names of lightgbm-benchmark; they have a table of their own."""
FRAMEWORKS = (
    "torch", "jax", "tensorflow", "lightning", "transformers", "accelerate", "deepspeed", "lightgbm",
    "xgboost", "catboost", "scikit-learn", "numpy", "overlay-injector", "milabench",
)  # fmt: skip
"""The packages whose versions a report names."""


def _head(field: str, title: str) -> str:
    """``title``, with the unit that ``field`` is shown in if it is kept in another one."""
    unit, factor = shown(unit_of(f"suite {field}"))
    return title if factor == 1 else f"{title} %" if unit == "%" else f"{title}, {unit}"


HEADS = tuple(_head(*column) for column in COLUMNS.items())
"""The heads of the cells of :func:`of_row`."""


def of_row(row: Row) -> list[str]:
    """The cells of a benchmark, without its name."""
    return [_cell(field, getattr(row, field)) for field in COLUMNS]


def _cell(field: str, value: float | None) -> str:
    unit, factor = shown(unit_of(f"suite {field}"))
    if value is None:
        return UNKNOWN
    if unit in ("%", "GB"):
        return f"{value * factor:.2f}"
    return f"{value:g}" if unit == "count" else figure(value * factor)


def verdict(total: Total) -> str:
    """Whether the suite has passed, as a sentence."""
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
    sentences = [f"{figure(total.score)}, over a weight of {total.weight:g}"]
    if total.left_out and total.score_of_run is not None:
        rest = total.weight - total.left_out
        sentences.append(
            f"what was left out counts 0 with a weight of {total.left_out:g}: "
            f"{figure(total.score_of_run)} without it, over a weight of {rest:g}"
        )
    return sentences


def has_rate(family: Family) -> bool:
    """Whether the table of ``family`` has both the time of a step and the items per second."""
    return family.has_items and family.target in SCALED_TIMES


def scaling_heads(family: Family) -> tuple[str, ...]:
    """The heads of the cells of :func:`of_scaled`."""
    unit = "ms" if unit_of_figure(family.target) == "s" else unit_of_figure(family.target)
    measured = SCALING if has_rate(family) else (f"{family.target}, {unit}",)
    return (family.over, *measured, "speedup", "efficiency %")


def of_scaled(column: Scaled, rounding: str, family: Family) -> list[str]:
    """The cells of one number of devices; DLBS shows fewer digits than ours (:data:`.scaling.DLBS`)."""
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
    """The title of a scaling table: ``resnet50 (framework mxnet), weak scaling``."""
    values = ", ".join(f"{name} {value}" for name, value in family.values.items())
    first = family.columns[0].number
    base = f", compared with {first:g} {family.over}" if first > 1 else ""
    return f"{family.name}{f' ({values})' if values else ''}, {family.kind} scaling{base}"


def tasks(suite: SuiteSummary) -> tuple[list[str], list[list[str]]]:
    """The tasks that any benchmark has figures of, and rows of a benchmark's name and its times for them."""
    rows = {benchmark.name: row_of(suite, benchmark) for benchmark in suite.benchmarks}
    times = {name: {task: row.get(task) for task in TASKS} for name, row in rows.items()}
    heads = [task for task in TASKS if any(row[task] is not None for row in times.values())]
    table = [
        [benchmark, *(_time(task, row[task]) for task in heads)]
        for benchmark, row in times.items()
        if any(value is not None for value in row.values())
    ]
    return heads, table


def _time(task: str, value: float | None) -> str:
    if value is None:
        return UNKNOWN
    unit, factor = shown(unit_of_figure(task))
    return short(value) if unit == "s" else f"{figure(value * factor)} {unit}"


def units(rows: Iterable[Row]) -> list[str]:
    """A sentence for each unit of perf that is not items per second."""
    other: dict[str, list[str]] = {}
    for row in rows:
        if row.perf is not None and row.unit != "items/s":
            other.setdefault(row.unit, []).append(row.benchmark)
    return [f"perf is in {unit}: {', '.join(names)}" for unit, names in other.items()]


_NUMBER = re.compile(r"\d+(\.\d+)?")


@dataclass
class SharedFinding:
    """A finding that one or more runs of a benchmark have."""

    sentence: str
    lines: tuple[str, ...]
    keys: list[str] = field(default_factory=list)
    """The keys of the runs; none if it is about all of them together."""


def shared_findings(benchmark: BenchmarkSummary, severity: str) -> list[SharedFinding]:
    """The findings of ``severity`` that are not ok, each once, with the runs that have it."""
    shared: dict[str, SharedFinding] = {}
    findings = [(finding, p.key) for p in benchmark.processes for finding in p.findings]
    findings += [(finding, "") for finding in benchmark.findings]
    for finding, key in findings:
        if finding.ok or finding.severity != severity:
            continue
        text = f"{finding.layer}: {finding.sentence}"
        # Exceptions that differ only in their numbers (bytes, addresses, ids) are one.
        identity = _NUMBER.sub("0", text) if finding.layer == "error" else text
        one = shared.setdefault(identity, SharedFinding(text, finding.lines))
        one.lines = one.lines or finding.lines
        if key:
            one.keys.append(key)
    return list(shared.values())


# --- what it ran on -------------------------------------------------------------------------------


def machine(suite: SuiteSummary) -> list[str]:
    """The hosts, the processor, its cores, the memory and the operating system, as far as they are known.

    What the plan does not know is taken from the runs.
    """
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
    """How many devices of each model there are (``4 × NVIDIA L40S, 48.3 GB``), then the drivers."""
    counted: dict[str, int] = {}
    for device in suite.machine.get("devices") or ():
        name = str(device.get("name") or device.get("key", "").partition(":")[0])
        memory = _gigabytes(device.get("memory"))
        text = f"{name}, {memory}" if memory else name
        counted[text] = counted.get(text, 0) + 1
    models = [f"{number} × {text}" for text, number in counted.items()]
    drivers = [suite.machine.get("driver"), *(record.driver for record in suite.records)]
    return [*models, *(f"driver {version}" for version in dict.fromkeys(drivers) if version)]


def _gigabytes(size: float | None) -> str:
    return f"{size / 1e9:.1f} GB" if size else ""


def packages(suite: SuiteSummary) -> dict[str, str]:
    """The versions of :data:`FRAMEWORKS` and of Python; several if runs differ."""
    seen: dict[str, dict[str, None]] = {}
    for record in suite.records:
        versions = {
            "python": record.python,
            **{name: record.packages.get(name) for name in FRAMEWORKS},
        }
        for name, version in versions.items():
            if version:
                seen.setdefault(name, {})[version] = None
    return {name: ", ".join(versions) for name, versions in seen.items()}


def began(suite: SuiteSummary) -> str:
    """When the suite began, in the time zone of this machine; empty if that is not known."""
    if suite.started is None:
        return ""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(suite.started))


def took(suite: SuiteSummary) -> str:
    """How long the suite ran, without the pauses before it was resumed; empty if that is not known."""
    if suite.started is None or suite.ended is None:
        return ""
    return duration(seconds_run(suite.started, suite.pauses, suite.ended))
