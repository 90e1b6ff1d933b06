"""The options of verbs that print: ``--format`` and ``--output``, and those of reports."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from ..errors import UserError
from ..report.formats import GZIP, write_file
from ..report.output import WIDTH, laid_out, show

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
