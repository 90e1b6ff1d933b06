"""``inject query``: SQL over what a run, or a suite, recorded."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from ..analysis.query import run_query
from ..analysis.views import VIEWS, views, views_of_all
from ..errors import UserError
from ..report.formats import FORMATS, write
from ..store.folder import open_run
from ..suite.results.status import damage_of
from .ending import failed
from .opened import (
    add_base,
    add_run,
    collected,
    exit_code,
    is_suite,
    located,
    runs_in,
    say_missing,
)


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    result = argparse.ArgumentParser(
        prog="inject query",
        description="Ask a run, or all runs of a suite, in SQL (DuckDB's). Views: "
        + ", ".join(VIEWS)
        + ".",
        epilog='Example: inject query LAST "select rank, median(seconds) from steps group by rank"',
    )
    add_run(result, None)
    add_base(result)
    result.add_argument("sql", help="the query, or - to read it from standard input")
    result.add_argument("--format", choices=FORMATS, default="table")
    result.add_argument("--output", metavar="FILE", help="write there instead of printing")
    return result


def main(argv: Sequence[str]) -> int:
    """Print the result; exit code 2 for a run that is none and for SQL that does not work, 1 where
    parts of the record are missing.
    """
    options = parser().parse_args(argv)
    try:
        sql = sys.stdin.read() if options.sql == "-" else options.sql
        if " " in options.run.strip() and not os.path.exists(options.run):
            raise UserError(f"the run comes before the query: inject query LAST {options.run!r}")
        path = located(options.run, options)
        with ExitStack() as opened:
            found = [
                (labels, opened.enter_context(collected(open_run(each))))
                for labels, each in runs_in(path)
            ]
            made = views_of_all(found) if is_suite(path) else views(found[0][1], options.runs)
            result = run_query(sql, made)
            damage = damage_of(path) if is_suite(path) else []
            for sentence in damage:
                print(f"inject: {sentence}", file=sys.stderr)
            for labels, run in found:
                say_missing(run, labels.get("run", ""))
            write(result, options.format, options.output)
            return max((exit_code(run) for _, run in found), default=0) or int(bool(damage))
    except (UserError, OSError) as error:
        return failed(error)
