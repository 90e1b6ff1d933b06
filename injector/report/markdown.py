"""The report of one run as Markdown, for a pull request or an issue."""

from __future__ import annotations

from collections.abc import Iterator

from ..analysis.summary import Summary
from .sections import heading, sections, tiles, verdict
from .tables import NUMBER, SHARE, Table, plain_cell, shown_columns
from .text import command_line, escaped

INDENT = "\u2003"
"""The indentation of a cell by one level. Markdown would remove ordinary blanks where a cell begins."""


def render(summary: Summary) -> str:
    """``summary`` as a document."""
    sentence, below = verdict(summary)
    lines = [f"## {escaped(summary.title)}", ""]
    lines += [f"> missing: {escaped(text)}\n" for text in summary.missing]
    if summary.command:
        lines += [f"`{command_line(summary.command).replace('`', ' ')}`", ""]
    lines += [escaped(" · ".join(heading(summary))), ""]
    lines += [f"> {escaped(text)}\n" for text in summary.outcomes]
    if sentence:
        lines += [f"**{escaped(sentence)}**", ""]
    lines += [f"- {label}: {escaped(text)}" for label, texts in below for text in texts]
    figures = [f"{value} {label}" for label, value in tiles(summary)]
    lines += ["", *([escaped(" · ".join(figures)), ""] if figures else [])]
    for section in sections(summary):
        lines += [f"### {escaped(section.title)}", ""]
        lines += [line for text in section.texts for line in (f"- {escaped(text)}",)]
        lines += [""] if section.texts else []
        for table in section.tables:
            lines += [*_table(table), ""] if table.rows else []
    return "\n".join(lines).rstrip() + "\n"


def _table(table: Table) -> Iterator[str]:
    """The lines of a table."""
    shown = shown_columns(table)
    yield "| " + " | ".join(escaped(table.heads[at]) for at in shown) + " |"
    to_the_right = [table.kinds[at] in (NUMBER, SHARE) for at in shown]
    yield "|" + "|".join("---:" if right else "---" for right in to_the_right) + "|"
    depths = table.depths or (0,) * len(table.rows)
    for row, depth in zip(table.rows, depths, strict=True):
        cells = [escaped(plain_cell(table.kinds[at], row[at])) for at in shown]
        cells[0] = INDENT * depth + cells[0]
        yield "| " + " | ".join(cells) + " |"
