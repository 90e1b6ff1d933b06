"""``inject query``: runs SQL on what a run, a suite, or all runs of a folder recorded."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from ..analysis.query import run_query
from ..analysis.views import VIEWS, views, views_of_all
from ..errors import UserError
from ..report.formats import FORMATS, write
from ..store.folder import Run, open_run
from ..suite.results.status import damage_of
from . import opened
from .ending import reports_errors


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = argparse.ArgumentParser(
        prog="inject query",
        description="Ask a run, all runs of a suite, or all there are, in SQL (DuckDB's). Views: "
        + ", ".join(VIEWS)
        + ".",
        epilog='Example: inject query LAST "select rank, median(seconds) from steps group by rank"',
    )
    opened.add_run(result, "?", default=False)
    opened.add_base(result)
    add = result.add_argument
    add("sql", help="the query, or - to read it from standard input")
    add(
        "--all",
        action="store_true",
        help="of all runs and suites; RUN may name the folder that they are in",
    )
    add("--format", choices=FORMATS, default="table")
    add("-o", "--output", metavar="FILE", help="write there instead of printing")
    return result


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Print the result. Returns 0, 1 if parts of the record are missing, 2 for bad input or SQL."""
    options = parser().parse_intermixed_args(argv)
    sql = sys.stdin.read() if options.sql == "-" else options.sql
    _check(options)
    paths = (
        list(opened.locate_all(options)) if options.all else [opened.locate(options.run, options)]
    )
    with ExitStack() as stack:
        runs, missing = _open_all(stack, paths, options.all)
        several = options.all or opened.is_suite(paths[0])
        tables = views_of_all(runs) if several else views(runs[0][1], options.runs)
        result = run_query(sql, tables)
        missing += [text for path in paths if opened.is_suite(path) for text in damage_of(path)]
        for sentence in missing:
            print(f"inject: {sentence}", file=sys.stderr)
        for labels, run in runs:
            opened.print_missing(run, labels.get("run") or "")
        write(result, options.format, options.output)
        return max((opened.exit_code(run) for _, run in runs), default=0) or int(bool(missing))


def _check(options: argparse.Namespace) -> None:
    """Raise UserError if no run is named, or after the query."""
    if options.run is None:
        if not options.all:
            raise UserError("name the run before the query (LAST for the newest), or --all of them")
    elif " " in options.run.strip() and not os.path.exists(options.run):
        raise UserError(f"the run comes before the query: inject query LAST {options.run!r}")


def _open_all(
    stack: ExitStack, paths: Sequence[str], all: bool
) -> tuple[list[tuple[Mapping[str, str | None], Run]], list[str]]:
    """Open the runs of ``paths`` until ``stack`` is closed.

    Returns each with its labels, and, with ``all``, sentences on those that cannot be read. Raises UserError
    if none can be read, or without ``all`` if one cannot.
    """
    runs: list[tuple[Mapping[str, str | None], Run]] = []
    unread = []
    for path in paths:
        name = os.path.basename(path.rstrip("/"))
        labels: Mapping[str, str | None]
        try:
            for labels, each in opened.runs_in(path):
                if all:  # labels are columns, so all runs need the same ones
                    own = {"suite": name if opened.is_suite(path) else None, "benchmark": None}
                    labels = {**own, "run": name, **labels}
                runs.append((labels, stack.enter_context(opened.collected(open_run(each)))))
        except UserError as error:
            if not all:
                raise
            unread.append(str(error))
    if not runs:
        nothing = "none of these suites has run anything yet"
        if not all:
            nothing = f"{paths[0]}: this suite has run nothing yet"
        raise UserError("; ".join(unread) or nothing)
    return runs, unread
