"""Benchmarks and runs as rows of named values, which ``--query`` chooses from and tables and charts show."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Any, NoReturn

from ...analysis.recorded import mean_of_known, sum_of_known
from ...errors import UserError
from ...metrics import METRICS
from ..config.expressions import Expression, Reference, compiled
from ..config.problems import Mistake, meant
from . import scores
from .run_record import RunRecord
from .suite_summary import BenchmarkSummary, SuiteSummary

DEVICES, THROUGHPUT, STEP_TIME = "devices", "throughput", "step_time"
Row = Mapping[str, Any]
"""By name, labels and figures; None, or nothing, for what is not known."""


class _Names:
    """A row as what an expression is evaluated in."""

    def __init__(self, row: Row) -> None:
        self.row = row

    def find(self, reference: Reference) -> Any:
        return self.row.get(reference.name)

    def call(self, name: str, values: list[Any]) -> NoReturn:
        raise Mistake(f"{name}() is of suites' files")


def chosen(rows: Sequence[Row], text: str, option: str = "--query") -> list[bool]:
    """Of each of ``rows`` whether ``text`` holds. What a row has no value of does not hold.

    ``text`` is an expression, or a JSON object as queries of DLBS are: of each name the value, or several.
    Raises UserError where it is neither, or names what no row has.
    """
    try:
        if text.lstrip().startswith("{"):
            return _matching(rows, text)
        expression = compiled(text)
        for reference in expression.references:
            _known(rows, reference.name)
        return [_holds(expression, row) for row in rows]
    except Mistake as error:
        raise UserError(f"{option} {text}: {error}") from None


def _matching(rows: Sequence[Row], text: str) -> list[bool]:
    """Of each of ``rows`` whether it has the values that the JSON object ``text`` names. Raises Mistake."""
    try:
        wanted = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Mistake(f"cannot be read as a JSON object: {error}") from None
    for name in wanted:
        _known(rows, name)
    return [all(_is_one(row.get(name), value) for name, value in wanted.items()) for row in rows]


def _known(rows: Sequence[Row], name: str) -> None:
    """Raise Mistake if no row has ``name``; without rows nothing is known."""
    known = {each for row in rows for each in row}
    if rows and name not in known:
        raise Mistake(f"there is no {name}{meant(name, sorted(known))}")


def _is_one(found: Any, wanted: Any) -> bool:
    return found is not None and (found in wanted if isinstance(wanted, list) else found == wanted)


def _holds(expression: Expression, row: Row) -> bool:
    try:
        return bool(expression.value(_Names(row)))
    except Mistake:
        if any(row.get(reference.name) is None for reference in expression.references):
            return False
        raise


def filtered(suite: SuiteSummary, text: str) -> SuiteSummary:
    """``suite`` with the benchmarks for which ``text`` holds. Raises UserError where there is none."""
    rows = [row_of(suite, each) for each in suite.benchmarks]
    kept = [each for each, yes in zip(suite.benchmarks, chosen(rows, text), strict=True) if yes]
    if not kept:
        raise UserError(f"--query {text}: holds for none of {len(rows)} benchmarks")
    return replace(suite, benchmarks=tuple(kept), left_out=())


def row_of(suite: SuiteSummary, benchmark: BenchmarkSummary) -> dict[str, Any]:
    """One benchmark, with the means over its repeats."""
    repeats = [figures for _, figures in _repeats(benchmark)]
    names = dict.fromkeys(name for each in repeats for name in each)
    means = {name: mean_of_known(each.get(name) for each in repeats) for name in names}
    failed = benchmark.failures > 0
    return with_dlbs({**_labels(suite, benchmark), **means, "failed": failed})


def rows_of(suite: SuiteSummary) -> Iterator[dict[str, Any]]:
    """Every repeat of every benchmark in which no process failed."""
    for benchmark in suite.benchmarks:
        labels = _labels(suite, benchmark)
        for repeat, figures in _repeats(benchmark):
            yield with_dlbs({**labels, "repeat": repeat, **figures})


def row_of_run(record: RunRecord, name: str) -> dict[str, Any]:
    """A run of no suite."""
    labels = {"run": name, "benchmark": record.name or name, "devices": len(record.devices)}
    return with_dlbs({**labels, **_description([record]), **figures_of([record])})


def _labels(suite: SuiteSummary, benchmark: BenchmarkSummary) -> dict[str, Any]:
    records = [each.record for each in benchmark.processes if each.record]
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
    """Host, tags and parameters: those of the first run."""
    for first in records[:1]:
        return {
            "host": first.host,
            **{f"tag.{key}": text for key, text in first.tags.items()},
            **{f"param.{key}": text for key, text in first.params.items()},
            # A name with a dot is nothing else's: exp.model of the Deep Learning Benchmarking Suite.
            **{key: value for key, value in first.params.items() if "." in key},
        }
    return {}


def _repeats(benchmark: BenchmarkSummary) -> Iterator[tuple[int, dict[str, float]]]:
    for repeat, mine in benchmark.repeats():
        records = [each.record for each in mine if each.record is not None]
        if len(records) == len(mine):
            yield repeat, figures_of(records)


def figures_of(records: Sequence[RunRecord]) -> dict[str, float]:
    """Of processes side by side: rates, energy and power add up; of memory it is the most.

    Values that the program recorded stand beside these, but for those of the same names.
    """
    found = {**(records[0].values if records else {}), **_measured(records)}
    return {name: value for name, value in found.items() if value is not None}


def _measured(records: Sequence[RunRecord]) -> dict[str, float | None]:
    perfs = [scores.perf(each.rates) for each in records]
    perf = fsum(each.mean for each in perfs if each) if any(perfs) else None
    timed = [each for each in records if each.step > 0]
    speeds = [each.items / each.step for each in timed if each.items]
    power = sum_of_known(each.power for each in records)
    found: dict[str, float | None] = {
        "throughput": fsum(speeds) if speeds and len(speeds) == len(records) else None,
        "step_time": mean_of_known(each.step for each in timed),
        "step_items": sum_of_known(each.items for each in timed),
        "perf": perf,
        "peak_memory": max((each.memory for each in records if each.memory), default=None),
        "energy": sum_of_known(each.energy for each in records),
        "device_power": power,
        "perf_per_watt": perf / power if perf and power else None,
        "duration": max((each.duration for each in records if each.duration), default=None),
        "cores": sum_of_known(each.cores for each in records),
    }
    for record in records[:1]:
        for latency in record.latencies[:1]:
            found["query_latency_mean"] = latency["mean"]
            for kind in ("batch", "query"):
                for name, value in (latency[kind] or {}).items():
                    found[f"{kind}_latency_{name}"] = value
    return found


def is_recorded(benchmarks: Iterable[BenchmarkSummary], name: str) -> bool:
    """Whether ``name`` in the rows of ``benchmarks`` is a value that programs recorded, which has no unit."""
    if name in _measured(()) or name.startswith(("query_latency_", "batch_latency_")):
        return False
    return any(
        name in each.record.values
        for benchmark in benchmarks
        for each in benchmark.processes
        if each.record is not None
    )


DLBS_NAMES = {
    "results.time": (STEP_TIME, 1e3),
    "results.throughput": (THROUGHPUT, 1.0),
    "exp.effective_batch": ("step_items", 1.0),
    "exp.num_gpus": ("devices", 1.0),
}
"""The names that the Deep Learning Benchmarking Suite has for figures of ours, and by what they differ:
its times are milliseconds."""
DLBS_UNITS = {"results.time": "ms", "results.throughput": "items/s"}


def with_dlbs(row: dict[str, Any]) -> dict[str, Any]:
    """``row`` with figures under the names of DLBS, unless it has these of its own."""
    found = {
        name: row[figure] * factor
        for name, (figure, factor) in DLBS_NAMES.items()
        if row.get(figure) is not None
    }
    if "exp.replica_batch" not in row and found.get("exp.effective_batch"):
        found["exp.replica_batch"] = found["exp.effective_batch"] / max(row.get("devices") or 1, 1)
    return {**found, **row}


def unit_of(name: str) -> str:
    """The unit of a figure; empty for a value of the program's own."""
    return METRICS[name].unit if name in METRICS else DLBS_UNITS.get(name, "")


def is_better_high(name: str) -> bool:
    """Whether more of a figure is better; of a value of the program's own that is taken to be so."""
    return unit_of(name) not in ("s", "ms", "us", "B", "J", "W")


def checked(rows: Sequence[Row], name: str, option: str) -> None:
    """Raise UserError unless some row has ``name``."""
    known = sorted({key for row in rows for key, value in row.items() if value is not None})
    if name not in known:
        if option == "--target":
            known = sorted(
                {key for row in rows for key, value in row.items() if type(value) in (int, float)}
            )
        raise UserError(f"{option} {name}: no benchmark or run has it{meant(name, known)}")
