"""The report of a suite in each of its forms: text, Markdown, CSV, JSON; all from its summary alone."""

from __future__ import annotations

import json
from typing import Any

from ...report.formats import as_csv
from . import cells, text_report
from .scaling import EXACT, families
from .summary import (
    BenchmarkSummary,
    Finding,
    ProcessSummary,
    Row,
    SuiteSummary,
    row_of,
    rows,
    total,
)

FORMATS = ("terminal", "json", "csv", "md")


def render(suite: SuiteSummary, form: str = "terminal", rounding: str = EXACT) -> str:
    """``suite`` in one of :data:`FORMATS`."""
    if form == "json":
        return json.dumps(as_data(suite, rounding), indent=1) + "\n"
    if form == "csv":
        return as_csv(columns(suite))
    if form == "md":
        return text_report.markdown(suite, rounding)
    return text_report.terminal(suite, rounding)


def columns(suite: SuiteSummary) -> dict[str, list[Any]]:
    """The table of benchmarks, by column; units are bytes, joules, fractions."""
    found = rows(suite)
    return {name: [getattr(row, name) for row in found] for name in Row._fields}


def as_data(suite: SuiteSummary, rounding: str = EXACT) -> dict[str, Any]:
    """Everything that the text has, and every finding."""
    whole = total(suite)
    return {
        "missing": suite.missing,
        "suite": suite.name,
        "file": suite.file,
        "run": suite.folder,
        "written_by": suite.origin,
        "started": suite.started,
        "ended": suite.ended,
        "machine": dict(suite.machine),
        "packages": cells.packages(suite),
        "score": whole.score,
        "score_of_run": whole.score_of_run,
        "weight": whole.weight,
        "fail": whole.fail,
        "n": whole.n,
        "passed": whole.fail == 0,
        "benchmarks": [_benchmark(each, suite.ddof) for each in suite.benchmarks],
        "scaling": [
            {
                "family": family.name,
                "values": dict(family.values),
                "kind": family.kind,
                "rounding": rounding,
                "points": [column._asdict() for column in family.columns],
            }
            for family in families(suite, rounding)
        ],
        "left_out": [vars(each) for each in suite.left_out],
        "notes": list(suite.notes),
    }


def _benchmark(benchmark: BenchmarkSummary, ddof: int) -> dict[str, Any]:
    return {
        **row_of(benchmark, ddof)._asdict(),
        "group": benchmark.group,
        "tags": list(benchmark.tags),
        "findings": [_finding(each) for each in benchmark.findings],
        "runs": [_process(each) for each in benchmark.processes],
    }


def _process(process: ProcessSummary) -> dict[str, Any]:
    record = process.record
    return {
        "key": process.key,
        "repeat": process.repeat,
        "devices": list(process.devices),
        "failed": process.failed,
        "run": process.folder,
        "duration": record.duration if record else None,
        "rates": list(process.rates),
        "unit": record.unit if record else None,
        "peak_memory": record.memory if record else None,
        "energy": record.energy if record else None,
        "load": [device.load for device in record.devices] if record else [],
        "findings": [_finding(each) for each in process.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {**finding._asdict(), "lines": list(finding.lines)}
