"""``inject plot``: draws a figure of runs and suites over another."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ..analysis.runs import UNCOLLECTED
from ..compat import milabench
from ..errors import UserError
from ..plot.chart import AGGREGATIONS, ERRORS, chart, labelled
from ..plot.drawing import FORMATS, render
from ..report.formats import write_file
from ..report.output import WIDTH, laid_out, show
from ..store.run_json import NAME as RUN_JSON
from ..suite.results import points, run_record
from ..suite.results.suite_reader import summarise
from .ending import reports_errors
from .forms import add_format, form_of
from .opened import add_base, add_runs, is_suite, locate_all


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = argparse.ArgumentParser(
        prog="inject plot",
        description="Plot a figure of runs over another: each repeat of each benchmark of suites, and each "
        "run, is one row; inject metrics lists figures. Swept keys, devices, benchmark, tag.KEY and "
        "param.KEY are known as well, and what the program recorded by its name.",
        epilog="Example: inject plot SUITE --x devices --y throughput --series exp.framework -o chart.svg",
    )
    add = result.add_argument
    add(
        "runs_named",
        nargs="*",
        metavar="RUN",
        help="runs, suites or folders of them, by path or name; LAST for the newest, which is the default",
    )
    add_runs(result)
    add_base(result)
    add("--x", required=True, metavar="KEY", help="devices, a swept key, a figure, …")
    add("--y", required=True, metavar="METRIC", help="throughput, step_time, …")
    add(
        "--series", action="append", default=[], metavar="KEY",
        help="a line for each value of it; may be repeated, or several with commas",
    )  # fmt: skip
    add(
        "--agg",
        choices=tuple(AGGREGATIONS),
        default="mean",
        help="of rows at the same place (mean)",
    )
    add("--error", choices=ERRORS, default="std", help="what error bars are of these rows (std)")
    add("--where", metavar="EXPRESSION", help='only rows for which it holds: "devices > 1"')
    add("--title", default="", help="of the chart")
    add("--xlabel", default="", metavar="TEXT", help="at the axis of x")
    add("--ylabel", default="", metavar="TEXT", help="at the axis of y")
    add(
        "--legend", action="append", default=[], metavar="LINE=TEXT",
        help="what a line is called; may be repeated, or several with commas",
    )  # fmt: skip
    add("--log", choices=("x", "y", "xy"), default="", help="logarithmic axes")
    add_format(result, FORMATS)
    return result


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Draw the chart. Returns 0, 1 if parts of a record are missing, 2 if there is nothing to draw."""
    options = parser().parse_args(argv)
    form = form_of(options)
    if form == "png" and options.output is None:
        raise UserError("--format png needs a file to write: --output FILE")
    unread: list[str] = []
    rows = list(_rows(options, unread))
    for sentence in unread:
        print(f"inject: {sentence}", file=sys.stderr)
    if options.where:
        kept = points.chosen(rows, options.where, "--where")
        if rows and not any(kept):
            raise UserError(
                f"nothing to plot: --where {options.where} holds for none of {len(rows)} rows"
            )
        rows = [row for row, yes in zip(rows, kept, strict=True) if yes]
    series = [name for text in options.series for name in text.split(",") if name]
    for name in series if rows else ():
        points.checked(rows, name, "--series")
    drawn = chart(
        rows,
        options.x,
        options.y,
        series,
        options.agg,
        options.error,
        options.title,
        options.log,
        points.DLBS_UNITS,
    )
    drawn = labelled(drawn, options.xlabel, options.ylabel, _legend(options.legend))
    if options.output is None:
        show(lambda: render(drawn, form).decode(), sys.stdout, colors=False)
    else:
        with laid_out(WIDTH):
            write_file(options.output, render(drawn, form))
    return int(bool(unread))


def _legend(given: Sequence[str]) -> dict[str, str]:
    """By the name of a line, its text in the legend. Raises UserError."""
    pairs = [pair.partition("=") for text in given for pair in text.split(",")]
    for line, equals, text in pairs:
        if not (line and equals and text):
            raise UserError(f"--legend {line}{equals}{text}: should be LINE=TEXT, mxnet=MXNet")
    return {line: text for line, _, text in pairs}


def _rows(options: argparse.Namespace, unread: list[str]) -> Iterator[dict[str, Any]]:
    """A row for each repeat of a benchmark, and for each run.

    Sentences on what cannot be read are added to ``unread``. Raises UserError.
    """
    for which in options.runs_named or ["LAST"]:
        for path in locate_all(argparse.Namespace(**vars(options), run=which)):
            if is_suite(path):
                yield from points.rows_of(summarise(path, [milabench]))
                continue
            record = run_record.read(path)
            name = os.path.basename(os.path.abspath(path))
            if record is None or record.error.startswith("its record cannot be read"):
                unread.append(f"{name}: {record.error if record else 'no record of a run'}")
            else:
                goes_on = record.schema is None and not os.path.exists(os.path.join(path, RUN_JSON))
                missing = (UNCOLLECTED,) * goes_on + record.missing
                unread += [f"{name}: {text}" for text in missing]
                yield points.row_of_run(record, name)
