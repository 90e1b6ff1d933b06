"""The report of a suite as text, Markdown, CSV and JSON, made of its summary alone.

:func:`render` makes a whole report. The tables of a sweep, which ``inject suite report --scaling`` and
``--target`` print alone, have functions of their own in the last section. What the forms have in common, such
as the text of a table's cells, is in :mod:`.cells`; the HTML page is :mod:`.suite_page`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...errors import UserError
from ...metrics import shown
from ...report.formats import as_csv
from ...report.output import prose, room
from ...report.terminal import as_missing
from ...report.text import UNKNOWN, bullets, clean, escaped, figure, fit, labelled, table, wrap
from ..config.rules import FAILURE, WARNING
from . import cells, searches
from .points import Row as Point
from .points import checked, is_better_high, unit_of
from .points import row_of as point_of
from .scaling import EXACT, Family, families
from .scores import Row, row_of, rows, total
from .suite_summary import BenchmarkSummary, Finding, ProcessSummary, SuiteSummary

FORMATS = ("terminal", "json", "csv", "md")
SEVERITIES = (("failures", FAILURE), ("warnings", WARNING))
"""The titles of the sections of findings, in their order, with the severity of what they list."""


def render(suite: SuiteSummary, form: str = "terminal", rounding: str = EXACT) -> str:
    """The report of ``suite`` in one of :data:`FORMATS`.

    ``rounding`` is that of scaling tables: exact, or as the Deep Learning Benchmarking Suite truncates.
    """
    if form == "json":
        return json.dumps(as_data(suite, rounding), indent=1) + "\n"
    if form == "csv":
        return as_csv(columns(suite))
    if form == "md":
        return markdown(suite, rounding)
    return terminal(suite, rounding)


# --- for a terminal ---------------------------------------------------------------------------------


def terminal(suite: SuiteSummary, rounding: str = EXACT) -> str:
    """The report as text, as wide as its output (:mod:`...report.output`) is."""
    counted = ["a run of which something is missing counts as failed"] if suite.missing else []
    # What is missing comes first: it decides how far all other lines can be trusted.
    lines = as_missing(suite.missing, counted)
    whole = total(suite)
    first, *rest = [*cells.score(whole), cells.verdict(whole)]
    lines += [*_head(suite), "", *_benchmarks(suite), f"score  {first}"]
    lines += [*(f"       {line}" for line in rest), ""]
    lines += [*table("task", *cells.tasks(suite)), *_searches(suite)]
    for family in families(suite, rounding):
        lines += scaling_text(family, rounding)
    for title, severity in SEVERITIES:
        lines += _findings(suite, title, severity)
    texts = [f"{each.benchmark}: {each.reason}" for each in suite.left_out if not each.failure]
    if texts:
        lines += ["left out", *bullets(texts), ""]
    if suite.notes:
        lines += ["notes", *bullets(suite.notes), ""]
    lines.append(f"run: {clean(suite.folder)}")
    return "\n".join(lines) + "\n"


def _head(suite: SuiteSummary) -> list[str]:
    packages = (f"{name} {version}" for name, version in cells.packages(suite).items())
    lines = [fit(f"suite {suite.name}" + (f"  {suite.file}" if suite.file else ""), room())]
    for label, facts in (
        ("ran", (cells.began(suite), cells.took(suite))),
        ("machine", cells.machine(suite)),
        ("devices", cells.devices(suite)),
        ("packages", packages),
    ):
        if text := " · ".join(fact for fact in facts if fact):
            lines += labelled(label, [text])
    return lines


def _benchmarks(suite: SuiteSummary) -> list[str]:
    benchmarks = rows(suite)
    lines = table(
        "benchmark", cells.HEADS, [[row.benchmark, *cells.of_row(row)] for row in benchmarks]
    )
    units = [f"  {line}" for text in cells.units(benchmarks) for line in wrap(text, prose() - 4)]
    # The last line of a table is empty; notes on its units belong above that.
    return [*lines[:-1], *units, *lines[-1:]]


def _searches(suite: SuiteSummary) -> list[str]:
    lines: list[str] = []
    for title, best, heads, trials in searches.tables(suite):
        lines += [fit(title, room()), *labelled("best", [best])]
        lines += table("  trial", [*heads[1:-1], f"{heads[-1]}:"], trials, indent=4)
    compared = searches.compared_cells(searches.program_studies(suite))
    return [*lines, *table("study", searches.COMPARED, compared)]


def scaling_text(family: Family, rounding: str) -> list[str]:
    """The scaling table of ``family`` for a terminal."""
    body = [cells.of_scaled(column, rounding, family) for column in family.columns]
    first, *heads = cells.scaling_heads(family)
    return [cells.title(family), *table(f"  {first}", heads, body)]


def _findings(suite: SuiteSummary, title: str, severity: str) -> list[str]:
    lines: list[str] = []
    for benchmark in suite.benchmarks:
        lines += _findings_of(benchmark, severity)
    return [title, *lines, ""] if lines else []


def _findings_of(benchmark: BenchmarkSummary, severity: str) -> list[str]:
    findings = cells.shared_findings(benchmark, severity)
    lines = [f"  {fit(benchmark.name, room() - 2)}"] if findings else []
    for finding in findings:
        first, *rest = wrap(finding.sentence, prose() - 6)
        lines += [f"    {first}", *(f"      {line}" for line in rest)]
        if finding.keys and len(benchmark.processes) > 1:
            lines += [f"      in {line}" for line in wrap(", ".join(finding.keys), prose() - 10)]
        lines += [f"      | {fit(line, room() - 8)}" for line in finding.lines]
    return lines


# --- Markdown --------------------------------------------------------------------------------------


def markdown(suite: SuiteSummary, rounding: str = EXACT) -> str:
    """The report as sections of a Markdown document."""
    whole = total(suite)
    score, *more = cells.score(whole)
    benchmarks = rows(suite)
    lines = [line for text in suite.missing for line in (f"> missing: {escaped(text)}", "")]
    lines += [f"## {escaped(suite.name)}", "", f"**Score {score}** · {cells.verdict(whole)}", ""]
    lines += [line for text in more for line in (text[0].upper() + text[1:], "")]
    packages = [f"{name} {version}" for name, version in cells.packages(suite).items()]
    facts = (cells.machine(suite), cells.devices(suite), packages)
    lines += [f"- {escaped(' · '.join(part))}" for part in facts if part]
    figures = [(row.benchmark, *cells.of_row(row)) for row in benchmarks]
    lines += ["", *markdown_table(("benchmark", *cells.HEADS), figures)]
    lines += [line for text in cells.units(benchmarks) for line in (escaped(text), "")]
    heads, tasks = cells.tasks(suite)
    lines += ["### Tasks", "", *markdown_table(("benchmark", *heads), tasks)] if tasks else []
    for title, best, heads, trials in searches.tables(suite):
        lines += [f"### {escaped(title)}", "", f"**Best** {escaped(best)}", ""]
        lines += markdown_table(heads, trials)
    if compared := searches.program_studies(suite):
        lines += ["### Studies", ""]
        heads = ["benchmark", *searches.COMPARED]
        lines += markdown_table(heads, searches.compared_cells(compared))
    for family in families(suite, rounding):
        lines += scaling_markdown(family, rounding)
    for title, severity in SEVERITIES:
        lines += _markdown_findings(suite, title.capitalize(), severity)
    left_out = [each for each in suite.left_out if not each.failure]
    if left_out:
        lines += ["### Left out", ""]
        lines += [f"- {escaped(each.benchmark)}: {escaped(each.reason)}" for each in left_out]
        lines.append("")
    lines += [f"> {escaped(note)}\n" for note in suite.notes]
    return "\n".join(lines).rstrip() + "\n"


def scaling_markdown(family: Family, rounding: str) -> list[str]:
    """The scaling table of ``family`` for a Markdown document."""
    body = [cells.of_scaled(column, rounding, family) for column in family.columns]
    lines = markdown_table(cells.scaling_heads(family), body)
    return [f"### {escaped(cells.title(family))}", "", *lines]


def markdown_table(heads: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table whose first column is text, and whose others are aligned as numbers."""
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    return [*lines, *("| " + " | ".join(map(escaped, row)) + " |" for row in body), ""]


def _markdown_findings(suite: SuiteSummary, title: str, severity: str) -> list[str]:
    lines: list[str] = []
    for benchmark in suite.benchmarks:
        for finding in cells.shared_findings(benchmark, severity):
            where = f" ({', '.join(finding.keys)})" if finding.keys else ""
            lines.append(f"- **{escaped(benchmark.name)}** {escaped(finding.sentence + where)}")
            if finding.lines:
                # Indented, so that the traceback stays a part of its item.
                lines += ["", "  ```", *(f"  {clean(line)}" for line in finding.lines), "  ```"]
    return [f"### {title}", "", *lines, ""] if lines else []


# --- for other programs -----------------------------------------------------------------------------


def columns(suite: SuiteSummary) -> dict[str, list[Any]]:
    """The columns of the table of benchmarks, by name, in bytes, joules and fractions."""
    benchmarks = rows(suite)
    return {name: [getattr(row, name) for row in benchmarks] for name in Row._fields}


def as_data(suite: SuiteSummary, rounding: str = EXACT) -> dict[str, Any]:
    """The report as JSON: all that the text has, and the findings of each run, those that are ok too."""
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
        "benchmarks": [_benchmark(benchmark, suite.ddof) for benchmark in suite.benchmarks],
        "searches": [searches.as_data(benchmark) for benchmark in searches.searches(suite)],
        "studies": [benchmark._asdict() for benchmark in searches.program_studies(suite)],
        "scaling": [scaling_data(benchmark, rounding) for benchmark in families(suite, rounding)],
        "left_out": [vars(benchmark) for benchmark in suite.left_out],
        "notes": list(suite.notes),
    }


def scaling_data(family: Family, rounding: str) -> dict[str, Any]:
    """The scaling table of ``family`` as JSON, in seconds, items per second and percent."""
    both = cells.has_rate(family)
    figures = ("seconds", "throughput") if both else ()
    points = []
    for column in family.columns:
        is_time = unit_of(family.target) == "s"
        # A target that is neither the time of a step nor its rate is given under its own name, since the
        # other of the two does not exist.
        point = {} if both else {family.target: column.seconds if is_time else column.throughput}
        point |= {name: getattr(column, name) for name in (*figures, "speedup", "efficiency")}
        points.append({family.over: column.number, **point})
    return {
        "family": family.name,
        "values": dict(family.values),
        "kind": family.kind,
        "over": family.over,
        "target": family.target,
        "rounding": rounding,
        "points": points,
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
        "values": dict(record.values) if record else {},
        "latencies": list(record.latencies) if record else [],
        "findings": [_finding(each) for each in process.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {**finding._asdict(), "lines": list(finding.lines)}


# --- the tables of a sweep --------------------------------------------------------------------------


class Exploration(NamedTuple):
    """All benchmarks of a suite ordered by one figure, the best first."""

    target: str
    names: tuple[str, ...]
    """What the benchmarks differ in: the swept names that have several values."""
    rows: tuple[Point, ...]


def explored(suite: SuiteSummary, target: str) -> Exploration:
    """The benchmarks of ``suite`` ordered by ``target``; those without that figure come last.

    Raises UserError if no benchmark has it.
    """
    rows = [point_of(suite, each) for each in suite.benchmarks]
    checked(rows, target, "--target")
    swept = dict.fromkeys(name for each in suite.benchmarks for name in each.values)
    varied = (name for name in swept if len({str(row.get(name)) for row in rows}) > 1)
    sign = -1 if is_better_high(target) else 1
    known = [row for row in rows if row.get(target) is not None]
    unknown = [row for row in rows if row.get(target) is None]
    known.sort(key=lambda row: sign * row[target])
    return Exploration(target, tuple(varied), (*known, *unknown))


def render_exploration(exploration: Exploration, form: str) -> str:
    """The table of ``exploration`` in one of ``terminal json csv md``.

    JSON and CSV have seconds and bytes, as they are measured; the other forms have units for readers.
    """
    names = ("benchmark", "devices", *exploration.names)
    target = exploration.target
    if form in ("json", "csv"):
        columns = {name: [row.get(name) for row in exploration.rows] for name in (*names, target)}
        if form == "csv":
            return as_csv(columns)
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        data = {"target": target, "unit": unit_of(target), "benchmarks": rows}
        return json.dumps(data, indent=1, default=str) + "\n"
    heads, body = exploration_cells(exploration)
    lines = table(heads[0], heads[1:], body) if form == "terminal" else markdown_table(heads, body)
    return "\n".join(lines).rstrip() + "\n"


def exploration_cells(exploration: Exploration) -> tuple[tuple[str, ...], list[list[str]]]:
    """The heads of the table of ``exploration``, and a row for each benchmark.

    The last head names the target and the unit that its cells are in.
    """
    names = ("benchmark", "devices", *exploration.names)
    measured = unit_of(exploration.target)
    unit, factor = (
        ("ms", 1e3) if measured == "s" else (measured, 1.0) if measured == "ms" else shown(measured)
    )
    heads = (*names, f"{exploration.target}, {unit}" if unit else exploration.target)
    rows = []
    for row in exploration.rows:
        value = row.get(exploration.target)
        unknown = "failed" if row["failed"] else UNKNOWN
        texts = ("" if row.get(name) is None else str(row[name]) for name in names)
        rows.append([*texts, unknown if value is None else figure(value * factor)])
    return heads, rows


def render_scaling(tables: list[Family], form: str, rounding: str = EXACT) -> str:
    """Scaling tables in one of ``terminal json csv md``."""
    data = [scaling_data(family, rounding) for family in tables]
    if form == "json":
        return json.dumps({"scaling": data}, indent=1, default=str) + "\n"
    if form == "csv":
        rows = [{"family": each["family"], **each["values"], **point} for each in data
                for point in each["points"]]  # fmt: skip
        names = dict.fromkeys(name for row in rows for name in row)
        return as_csv({name: [row.get(name) for row in rows] for name in names})
    make = scaling_text if form == "terminal" else scaling_markdown
    return "\n".join(line for family in tables for line in make(family, rounding)).rstrip() + "\n"


def scaling_of(
    suite: SuiteSummary, rounding: str, kind: str, over: str, target: str
) -> list[Family]:
    """The scaling tables of a sweep: of ``target``, over the values of ``over``, ``kind`` weak or strong.

    Raises UserError if no benchmarks differ in ``over`` and have ``target``.
    """
    tables = families(suite, rounding, kind, over, target)
    if not tables:
        raise UserError(
            f"--over {over}: no benchmarks that did not fail differ in it and have {target}"
        )
    return tables
