"""The formats of what verbs print: ``--format``, ``--output``, and what renders a report in each."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..analysis.summary import Summary, uncommitted
from ..errors import UserError
from ..report import formats, terminal
from ..report.formats import GZIP, write_file
from ..report.output import WIDTH, laid_out, show
from ..store.folder import Run

if TYPE_CHECKING:
    from ..analysis.traces import Recording

REPORT = ("terminal", "json", "md", "csv", "html")
"""The formats of the reports of a run and of a suite."""
SUFFIXES = {
    "": "terminal",
    ".txt": "terminal",
    ".json": "json",
    ".md": "md",
    ".markdown": "md",
    ".csv": "csv",
    ".html": "html",
    ".htm": "html",
    ".png": "png",
    ".svg": "svg",
}


OF_SUITES = ("suite", "query", "scaling", "over", "target", "rounding", "check")
"""Options of reports that are for suites alone."""


def add_format(parser: argparse.ArgumentParser, forms: Sequence[str]) -> None:
    """Add ``--format``, one of ``forms``, ``--json`` and ``--output``."""
    parser.set_defaults(forms=forms)
    add = parser.add_argument
    add("--format", choices=forms, help="terminal, or what the suffix of -o says")
    suffixes = ", ".join(f".{form}" for form in forms if form != "terminal")
    add(
        "-o",
        "--output",
        metavar="FILE",
        help=f"write there; its suffix says the format ({suffixes}), and .gz after it compresses",
    )
    add(
        "--json",
        dest="format",
        action="store_const",
        const="json",
        help="the same as --format json",
    )


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add the options of reports, which those of runs and of suites share as far as they apply."""
    add_format(parser, REPORT)
    parser.add_argument(
        "--price",
        metavar="P",
        help="of a run: what an hour of it costs (2.5, '2.5 EUR'); it and its epochs have a cost",
    )
    add = parser.add_argument_group("of suites").add_argument
    add(
        "--suite",
        metavar="SUITE.yaml",
        help="what should have run, and its weights: for folders that do not say it (milabench's)",
    )
    add(
        "--query",
        metavar="EXPRESSION",
        help="only benchmarks for which it holds: \"exp.framework == 'mxnet' and devices > 1\"; "
        'or that have these values, as a JSON object: \'{"exp.framework": "mxnet"}\'',
    )
    add(
        "--scaling",
        choices=("weak", "strong"),
        help="print scaling tables instead of the report; a page has them beside it",
    )
    add("--over", metavar="KEY", help="what they scale over (devices)")
    add(
        "--target",
        metavar="METRIC",
        help="what they are of (throughput); without --scaling, print all benchmarks sorted by it",
    )
    add("--rounding", choices=("exact", "dlbs"), help="of the scaling tables (exact)")
    add("--check", action="store_true", help="exit with 1 if anything failed")


def form_of(options: argparse.Namespace) -> str:
    """The format that ``--format`` names, else the suffix of ``--output``. Raises UserError for any other."""
    if options.format or options.output is None:
        return options.format or "terminal"
    stem = options.output.lower().removesuffix(GZIP)
    form = SUFFIXES.get(os.path.splitext(stem)[1])
    if form is None or form not in options.forms:
        raise UserError(f"--output {options.output}: no format of that suffix; --format names one")
    return form


def print_or_write(render: Callable[[], str], form: str, output: str | None) -> None:
    """Print what ``render()`` returns, or write it to the file ``output``. Raises UserError, OSError."""
    if output is None:
        show(render, sys.stdout, colors=form == "terminal")
        return
    with laid_out(WIDTH):
        text = render()
    write_file(output, text.encode("utf-8", "surrogateescape"))


def recording_of(run: Run, form: str) -> Recording | None:
    """The recording of ``run`` for a format whose summary and charts both read its spans; None for others.

    Raises UserError if what pages are made with is not installed, OSError.
    """
    if form != "html":
        return None
    from ..analysis.traces import Recording
    from ..report import page

    page.libraries()
    return Recording(run)


def renderer(
    run: Run, summary: Summary, form: str, own: bool = False, recording: Recording | None = None
) -> Callable[[], str]:
    """A function that renders ``summary`` in the format ``form``.

    ``own``: a page shows the program's uncommitted changes, too. ``recording``: that of the summary, whose
    spans need not be read again. Raises UserError if what pages are made with is not installed, OSError.
    """
    if form == "html":
        # Here, as it imports NumPy, which a report without spans does not need.
        from ..analysis.charts import charts_of
        from ..report import page

        page.libraries()
        charts = charts_of(run, int(summary.limits.get("skip") or 0), recording)
        changes = page.changes_of(uncommitted(run)) if own else None
        return lambda: page.render(summary, charts, changes)
    if form == "md":
        from ..report import markdown

        return lambda: markdown.render(summary)
    render = {
        "terminal": terminal.render,
        "json": formats.summary_as_json,
        "csv": formats.summary_as_csv,
    }[form]
    return lambda: render(summary)
