"""The report of a suite in Markdown, to paste where people read."""

from __future__ import annotations

from collections.abc import Sequence

from ....report.text import clean
from ...config.rules import FAILURE, WARNING
from ..outcome import SuiteResult
from ..scaling import EXACT, families
from ..table import rows, total
from . import cells


def render(suite: SuiteResult, rounding: str = EXACT) -> str:
    """Everything, as sections of a document."""
    whole = total(suite)
    score, *more = cells.score(whole)
    found = rows(suite)
    lines = [line for text in suite.missing for line in (f"> missing: {_plain(text)}", "")]
    lines += [f"## {_plain(suite.name)}", "", f"**Score {score}** · {cells.verdict(whole)}", ""]
    lines += [line for text in more for line in (text[0].upper() + text[1:], "")]
    lines += [f"- {_plain(' · '.join(part))}" for part in _told(suite) if part]
    lines += ["", *_table(("benchmark", *cells.HEADS),
                          [(row.benchmark, *cells.of_row(row)) for row in found])]  # fmt: skip
    lines += [line for text in cells.units(found) for line in (_plain(text), "")]
    for family in families(suite, rounding):
        columns = [cells.of_scaled(column, rounding) for column in family.columns]
        lines += [f"### {_plain(cells.title(family))}", "", *_table(cells.SCALING, columns)]
    for title, severity in (("Failures", FAILURE), ("Warnings", WARNING)):
        lines += _findings(suite, title, severity)
    left_out = [each for each in suite.left_out if not each.failure]
    if left_out:
        lines += ["### Left out", ""]
        lines += [f"- {_plain(each.benchmark)}: {_plain(each.reason)}" for each in left_out]
        lines.append("")
    lines += [f"> {_plain(note)}\n" for note in suite.notes]
    return "\n".join(lines).rstrip() + "\n"


def _told(suite: SuiteResult) -> list[list[str]]:
    packages = [f"{name} {version}" for name, version in cells.packages(suite).items()]
    return [cells.machine(suite), cells.devices(suite), packages]


def _table(heads: Sequence[str], found: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    return [*lines, *("| " + " | ".join(map(_plain, row)) + " |" for row in found), ""]


def _findings(suite: SuiteResult, title: str, severity: str) -> list[str]:
    lines: list[str] = []
    for benchmark in suite.benchmarks:
        for each in cells.said(benchmark, severity):
            where = f" ({', '.join(each.keys)})" if each.keys else ""
            lines.append(f"- **{_plain(benchmark.name)}** {_plain(each.sentence + where)}")
            if each.lines:
                lines += ["", "  ```", *(f"  {clean(line)}" for line in each.lines), "  ```"]
    return [f"### {title}", "", *lines, ""] if lines else []


def _plain(text: str) -> str:
    """``text`` without what Markdown would take for its own."""
    return "".join(f"\\{c}" if c in "|`*_<>[]\\" else c for c in clean(text))
