"""In which form a verb gives what it has, and where to: ``--format`` and ``--output``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from ..analysis.summary import Summary, uncommitted
from ..errors import UserError
from ..report import formats, terminal
from ..report.formats import write_file
from ..report.output import WIDTH, laid_out, show
from ..store.folder import Run

REPORT = ("terminal", "json", "md", "csv", "html")
"""What the reports of a run and of a suite can be had as."""
SUFFIXES = {
    "": "terminal",
    ".txt": "terminal",
    ".json": "json",
    ".md": "md",
    ".markdown": "md",
    ".csv": "csv",
    ".html": "html",
    ".htm": "html",
}


def add_format(parser: argparse.ArgumentParser, forms: Sequence[str]) -> None:
    """``--format`` and ``--output``; ``--json`` is short for a format."""
    parser.set_defaults(forms=forms)
    parser.add_argument("--format", choices=forms, help="terminal, or what the suffix of -o says")
    suffixes = ", ".join(f".{form}" for form in forms if form != "terminal")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=f"write there; its suffix says the format ({suffixes})",
    )
    parser.add_argument(
        "--json",
        dest="format",
        action="store_const",
        const="json",
        help="the same as --format json",
    )


def form_of(options: argparse.Namespace, suffixes: Mapping[str, str] = SUFFIXES) -> str:
    """That of ``--format``, else of the suffix of ``--output``. Raises UserError."""
    if options.format or options.output is None:
        return options.format or "terminal"
    found = suffixes.get(os.path.splitext(options.output)[1].lower())
    if found is None or found not in options.forms:
        raise UserError(f"--output {options.output}: no format of that suffix; --format names one")
    return found


def written(make: Callable[[], str], form: str, output: str | None) -> None:
    """Show what ``make()`` returns, or write it to the file ``output``. Raises UserError, OSError."""
    if output is None:
        show(make, sys.stdout, colors=form == "terminal")
        return
    with laid_out(WIDTH):
        text = make()
    write_file(output, text.encode("utf-8", "surrogateescape"))


def maker(run: Run, summary: Summary, form: str, own: bool = False) -> Callable[[], str]:
    """What renders ``summary`` in the format ``form``; ``own``: with the program's uncommitted changes."""
    if form == "html":
        from ..analysis.charts import charts_of  # numpy, which a report without spans does without
        from ..report import page

        page.libraries()
        charts = charts_of(run, int(summary.limits.get("skip") or 0))
        changes = page.changes_of(uncommitted(run)) if own else None
        return lambda: page.render(summary, charts, changes)
    if form == "md":
        from ..report import markdown

        return lambda: markdown.render(summary)
    renderers = {
        "terminal": terminal.render,
        "json": formats.summary_as_json,
        "csv": formats.summary_as_csv,
    }
    return lambda: renderers[form](summary)
