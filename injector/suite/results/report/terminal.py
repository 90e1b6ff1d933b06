"""The report of a suite, for a terminal."""

from __future__ import annotations

import time

from ....report.layout import prose, room
from ....report.terminal import as_missing
from ....report.text import bullets, clean, fit, labelled, table, wrap
from ...config.rules import FAILURE, WARNING
from ..outcome import BenchmarkResult, SuiteResult
from ..scaling import EXACT, families
from ..table import rows, total
from . import cells


def render(suite: SuiteResult, rounding: str = EXACT) -> str:
    """Everything, in lines."""
    counted = ["a run of which something is missing counts as failed"] if suite.missing else []
    lines = as_missing(suite.missing, counted)
    lines += [*_head(suite), "", *_benchmarks(suite), *_total(suite), *_scaling(suite, rounding)]
    for title, severity in (("failures", FAILURE), ("warnings", WARNING)):
        lines += _findings(suite, title, severity)
    texts = [f"{each.benchmark}: {each.reason}" for each in suite.left_out if not each.failure]
    if texts:
        lines += ["left out", *bullets(texts), ""]
    if suite.notes:
        lines += ["notes", *bullets(suite.notes), ""]
    lines.append(f"run: {clean(suite.folder)}")
    return "\n".join(lines) + "\n"


def _head(suite: SuiteResult) -> list[str]:
    when = ""
    if suite.started is not None:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(suite.started))
    told = " · ".join(part for part in (when, cells.took(suite)) if part)
    named = " · ".join(f"{name} {version}" for name, version in cells.packages(suite).items())
    lines = [fit(f"suite {suite.name}" + (f"  {suite.file}" if suite.file else ""), room())]
    for label, text in (
        ("ran", told),
        ("machine", " · ".join(cells.machine(suite))),
        ("devices", " · ".join(cells.devices(suite))),
        ("packages", named),
    ):
        if text:
            lines += labelled(label, [text])
    return lines


def _benchmarks(suite: SuiteResult) -> list[str]:
    found = rows(suite)
    lines = table(
        "benchmark",
        cells.HEADS,
        [[row.benchmark, *cells.of_row(row)] for row in found],
    )
    told = cells.units(found)
    return [
        *lines[:-1],
        *(f"  {line}" for text in told for line in wrap(text, prose() - 4)),
        *lines[-1:],
    ]


def _total(suite: SuiteResult) -> list[str]:
    whole = total(suite)
    first, *rest = cells.score(whole)
    return [f"score  {first}", *(f"       {line}" for line in [*rest, cells.verdict(whole)]), ""]


def _scaling(suite: SuiteResult, rounding: str) -> list[str]:
    lines: list[str] = []
    for family in families(suite, rounding):
        found = [cells.of_scaled(column, rounding) for column in family.columns]
        heads = cells.SCALING[1:]
        lines += [cells.title(family), *table("  " + cells.SCALING[0], heads, found)]
    return lines


def _findings(suite: SuiteResult, title: str, severity: str) -> list[str]:
    lines: list[str] = []
    for benchmark in suite.benchmarks:
        lines += _of_benchmark(benchmark, severity)
    return [title, *lines, ""] if lines else []


def _of_benchmark(benchmark: BenchmarkResult, severity: str) -> list[str]:
    found = cells.said(benchmark, severity)
    lines = [f"  {fit(benchmark.name, room() - 2)}"] if found else []
    for each in found:
        first, *rest = wrap(each.sentence, prose() - 6)
        lines += [f"    {first}", *(f"      {line}" for line in rest)]
        if each.keys and len(benchmark.processes) > 1:
            lines += [f"      in {line}" for line in wrap(", ".join(each.keys), prose() - 10)]
        lines += [f"      | {fit(line, room() - 8)}" for line in each.lines]
    return lines
