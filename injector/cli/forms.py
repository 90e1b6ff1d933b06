"""In which form a verb gives what it has, and where to: ``--format`` and ``--output``."""

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
    ".png": "png",
    ".svg": "svg",
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
        help=f"write there; its suffix says the format ({suffixes}), and .gz after it compresses",
    )
    parser.add_argument(
        "--json",
        dest="format",
        action="store_const",
        const="json",
        help="the same as --format json",
    )


OF_SUITES = ("suite", "query", "scaling", "over", "target", "rounding", "check")
"""Options of reports that are for suites alone."""


def add_report(made: argparse.ArgumentParser) -> None:
    """What the reports of runs and of suites take alike, beside what names them."""
    add_format(made, REPORT)
    made.add_argument(
        "--price",
        metavar="P",
        help="of a run: what an hour of it costs (2.5, '2.5 EUR'); it and its epochs have a cost",
    )
    of = made.add_argument_group("of suites")
    of.add_argument(
        "--suite",
        metavar="SUITE.yaml",
        help="what should have run, and its weights: for folders that do not say it (milabench's)",
    )
    of.add_argument(
        "--query",
        metavar="EXPRESSION",
        help="only benchmarks for which it holds: \"exp.framework == 'mxnet' and devices > 1\"; "
        'or that have these values, as a JSON object: \'{"exp.framework": "mxnet"}\'',
    )
    of.add_argument(
        "--scaling",
        choices=("weak", "strong"),
        help="print scaling tables instead of the report; a page has them beside it",
    )
    of.add_argument("--over", metavar="KEY", help="what they scale over (devices)")
    of.add_argument(
        "--target",
        metavar="METRIC",
        help="what they are of (throughput); without --scaling, print all benchmarks sorted by it",
    )
    of.add_argument("--rounding", choices=("exact", "dlbs"), help="of the scaling tables (exact)")
    of.add_argument("--check", action="store_true", help="exit with 1 if anything failed")


def form_of(options: argparse.Namespace) -> str:
    """That of ``--format``, else of the suffix of ``--output``. Raises UserError."""
    if options.format or options.output is None:
        return options.format or "terminal"
    stem = options.output.lower().removesuffix(GZIP)
    found = SUFFIXES.get(os.path.splitext(stem)[1])
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


def recording_of(run: Run, form: str) -> Recording | None:
    """Where to keep what is found in the spans of ``run``, for a format that is made of them twice.

    Raises UserError, OSError.
    """
    if form != "html":
        return None
    from ..analysis.traces import Recording
    from ..report import page

    page.libraries()
    return Recording(run)


def maker(
    run: Run, summary: Summary, form: str, own: bool = False, recording: Recording | None = None
) -> Callable[[], str]:
    """What renders ``summary`` in the format ``form``; ``own``: with the program's uncommitted changes.

    ``recording``: what was found in its spans already.
    """
    if form == "html":
        from ..analysis.charts import charts_of  # numpy, which a report without spans does without
        from ..report import page

        page.libraries()
        charts = charts_of(run, int(summary.limits.get("skip") or 0), recording)
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
