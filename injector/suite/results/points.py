"""Benchmarks and runs as rows of named values: ``--query`` chooses among them, tables and charts show them.

A row has labels (``benchmark``, ``host``, swept values), figures (``throughput``, ``energy``) and what the
program recorded under names of its own. Names of the Deep Learning Benchmarking Suite stand beside ours, so
that its queries and charts work here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Any, NamedTuple, NoReturn

from ...analysis.statistics import mean_of_known, sum_of_known
from ...errors import UserError
from ...metrics import METRICS
from ..config.expressions import Expression, Reference, compiled
from ..config.problems import Mistake, meant
from . import scores
from .run_record import RunRecord
from .suite_summary import BenchmarkSummary, SuiteSummary

DEVICES, THROUGHPUT, STEP_TIME = "devices", "throughput", "step_time"
Row = Mapping[str, Any]
"""Labels and figures by name. What is not known is None, or absent."""


class _Names(NamedTuple):
    """A row as the names that an expression is evaluated with: see :class:`.expressions.Names`."""

    row: Row

    def find(self, reference: Reference) -> Any:
        return self.row.get(reference.name)

    def call(self, name: str, values: list[Any]) -> NoReturn:
        raise Mistake(f"{name}() is of suites' files")


def chosen(rows: Sequence[Row], text: str, option: str = "--query") -> list[bool]:
    """Whether the query ``text`` holds, for each of ``rows``. It does not hold for a row that lacks a value.

    ``text`` is an expression, or a JSON object as queries of DLBS are, which maps names to a value or to
    several. Raises UserError if it is neither, or names what no row has.
    """
    try:
        if text.lstrip().startswith("{"):
            return _matching(rows, text)
        expression = compiled(text)
        for reference in expression.references:
            _check_known(rows, reference.name)
        return [_holds(expression, row) for row in rows]
    except Mistake as error:
        raise UserError(f"{option} {text}: {error}") from None


def _matching(rows: Sequence[Row], text: str) -> list[bool]:
    """Whether each of ``rows`` has the values that the JSON object ``text`` names. Raises Mistake."""
    try:
        wanted = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Mistake(f"cannot be read as a JSON object: {error}") from None
    for name in wanted:
        _check_known(rows, name)
    several = {name: each if isinstance(each, list) else [each] for name, each in wanted.items()}
    return [
        all(row.get(name) is not None and row[name] in values for name, values in several.items())
        for row in rows
    ]


def _check_known(rows: Sequence[Row], name: str) -> None:
    """Raise Mistake if no row has ``name``; without rows nothing is known."""
    known = {other for row in rows for other in row}
    if rows and name not in known:
        raise Mistake(f"there is no {name}{meant(name, sorted(known))}")


def _holds(expression: Expression, row: Row) -> bool:
    try:
        return bool(expression.value(_Names(row)))
    except Mistake:
        # A comparison with None is a mistake. Here it means only that this row lacks a value.
        if any(row.get(reference.name) is None for reference in expression.references):
            return False
        raise


def filtered(suite: SuiteSummary, text: str) -> SuiteSummary:
    """``suite`` with the benchmarks for which the query ``text`` holds. Raises UserError if there is none."""
    rows = [row_of(suite, benchmark) for benchmark in suite.benchmarks]
    kept = [
        benchmark
        for benchmark, holds in zip(suite.benchmarks, chosen(rows, text), strict=True)
        if holds
    ]
    if not kept:
        raise UserError(f"--query {text}: holds for none of {len(rows)} benchmarks")
    return replace(suite, benchmarks=tuple(kept), left_out=())


def row_of(suite: SuiteSummary, benchmark: BenchmarkSummary) -> dict[str, Any]:
    """The row of one benchmark; its figures are the means over the repeats in which no process failed."""
    repeats = [figures for _, figures in _repeats(benchmark)]
    names = dict.fromkeys(name for figures in repeats for name in figures)
    means = {name: mean_of_known(figures.get(name) for figures in repeats) for name in names}
    failed = benchmark.failures > 0
    return with_dlbs({**_labels(suite, benchmark), **means, "failed": failed})


def rows_of(suite: SuiteSummary) -> Iterator[dict[str, Any]]:
    """A row for every repeat of every benchmark in which no process failed."""
    for benchmark in suite.benchmarks:
        labels = _labels(suite, benchmark)
        for repeat, figures in _repeats(benchmark):
            yield with_dlbs({**labels, "repeat": repeat, **figures})


def row_of_run(record: RunRecord, name: str) -> dict[str, Any]:
    """The row of a run that belongs to no suite."""
    labels = {"run": name, "benchmark": record.name or name, "devices": len(record.devices)}
    return with_dlbs({**labels, **_description([record]), **figures_of([record])})


def _labels(suite: SuiteSummary, benchmark: BenchmarkSummary) -> dict[str, Any]:
    records = [process.record for process in benchmark.processes if process.record]
    return {
        "suite": suite.name,
        "benchmark": benchmark.name,
        "entry": benchmark.family or benchmark.name,
        "group": benchmark.group,
        "tags": list(benchmark.tags),
        "devices": benchmark.devices,
        "weight": benchmark.weight,
        "score": scores.row_of(benchmark, suite.ddof).score,
        **_description(records),
        **benchmark.parameters,
        **benchmark.values,
    }


def _description(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Host, tags and parameters of the first run."""
    for first in records[:1]:
        return {
            "host": first.host,
            **{f"tag.{key}": text for key, text in first.tags.items()},
            **{f"param.{key}": text for key, text in first.params.items()},
            # A name with a dot, such as exp.model of DLBS, cannot be confused with a figure of ours.
            **{key: value for key, value in first.params.items() if "." in key},
        }
    return {}


def _repeats(benchmark: BenchmarkSummary) -> Iterator[tuple[int, dict[str, float]]]:
    """Number and figures of each repeat in which no process failed, and each has a record."""
    for repeat, processes in benchmark.repeats():
        records = [process.record for process in processes if process.record is not None]
        if len(records) == len(processes):
            yield repeat, figures_of(records)


def figures_of(records: Sequence[RunRecord]) -> dict[str, float]:
    """The figures of processes that ran side by side, as far as they are known.

    Rates, energy and power are added up; of memory and duration the most counts. Values that the program
    recorded stand beside these, unless they have a name of ours.
    """
    figures = {**(records[0].values if records else {}), **_measured(records)}
    return {name: value for name, value in figures.items() if value is not None}


def _measured(records: Sequence[RunRecord]) -> dict[str, float | None]:
    """The figures of ours, None for those that are not known."""
    perfs = [scores.perf(record.rates) for record in records]
    perf = fsum(one.mean for one in perfs if one) if any(perfs) else None
    timed = [record for record in records if record.step > 0]
    speeds = [record.items / record.step for record in timed if record.items]
    power = sum_of_known(record.power for record in records)
    figures: dict[str, float | None] = {
        # A sum that lacks a process would look like a slow benchmark.
        "throughput": fsum(speeds) if speeds and len(speeds) == len(records) else None,
        "step_time": mean_of_known(record.step for record in timed),
        "step_items": sum_of_known(record.items for record in timed),
        "perf": perf,
        "peak_memory": max((record.memory for record in records if record.memory), default=None),
        "energy": sum_of_known(record.energy for record in records),
        "device_power": power,
        "perf_per_watt": perf / power if perf and power else None,
        "duration": max((record.duration for record in records if record.duration), default=None),
        "cores": sum_of_known(record.cores for record in records),
    }
    for record in records[:1]:
        for latency in record.latencies[:1]:
            figures["query_latency_mean"] = latency["mean"]
            for kind in ("batch", "query"):
                for name, value in (latency[kind] or {}).items():
                    figures[f"{kind}_latency_{name}"] = value
    return figures


def is_recorded(benchmarks: Iterable[BenchmarkSummary], name: str) -> bool:
    """Whether ``name`` in the rows of ``benchmarks`` is a value that programs recorded, which has no unit."""
    if name in _measured(()) or name.startswith(("query_latency_", "batch_latency_")):
        return False
    return any(
        name in process.record.values
        for benchmark in benchmarks
        for process in benchmark.processes
        if process.record is not None
    )


DLBS_NAMES = {
    "results.time": (STEP_TIME, 1e3),
    "results.throughput": (THROUGHPUT, 1.0),
    "exp.effective_batch": ("step_items", 1.0),
    "exp.num_gpus": ("devices", 1.0),
}
"""The names of the Deep Learning Benchmarking Suite (DLBS): which figure of ours each is, and by which factor
they differ. Its times are milliseconds."""
DLBS_UNITS = {"results.time": "ms", "results.throughput": "items/s"}


def with_dlbs(row: dict[str, Any]) -> dict[str, Any]:
    """``row`` with its figures under the names of DLBS too; values that it has under these names stay."""
    added = {
        name: row[figure] * factor
        for name, (figure, factor) in DLBS_NAMES.items()
        if row.get(figure) is not None
    }
    if "exp.replica_batch" not in row and added.get("exp.effective_batch"):
        added["exp.replica_batch"] = added["exp.effective_batch"] / max(row.get("devices") or 1, 1)
    return {**added, **row}


def unit_of(name: str) -> str:
    """The unit of a figure; empty for a value that the program recorded."""
    return METRICS[name].unit if name in METRICS else DLBS_UNITS.get(name, "")


def is_better_high(name: str) -> bool:
    """Whether more of a figure is better. A value that the program recorded is taken to be so."""
    return unit_of(name) not in ("s", "ms", "us", "B", "J", "W")


def checked(rows: Sequence[Row], name: str, option: str) -> None:
    """Raise UserError unless some row has ``name``; for ``--target``, also if it is no number."""
    known = sorted({key for row in rows for key, value in row.items() if value is not None})
    if name not in known:
        if option == "--target":
            known = sorted(
                {key for row in rows for key, value in row.items() if type(value) in (int, float)}
            )
        raise UserError(f"{option} {name}: no benchmark or run has it{meant(name, known)}")
    values = [row[name] for row in rows if row.get(name) is not None]
    if option == "--target" and (texts := [v for v in values if type(v) not in (int, float)]):
        raise UserError(
            f"{option} {name}: a number is ordered, such as throughput, not {texts[0]!r}"
        )
