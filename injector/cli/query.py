"""``inject query``: SQL over what a run, or a suite, recorded."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..analysis.query import View, run_query
from ..analysis.views import VIEWS, views, views_of_all
from ..errors import UserError
from ..report.formats import FORMATS, write
from .ending import failed
from .opened import add_base, add_run, is_suite, located


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
    """Print the result; exit code 2 for a run that is none and for SQL that does not work."""
    options = parser().parse_args(argv)
    try:
        sql = sys.stdin.read() if options.sql == "-" else options.sql
        if " " in options.run.strip() and not os.path.exists(options.run):
            raise UserError(f"the run comes before the query: inject query LAST {options.run!r}")
        path = located(options)
        result = run_query(sql, _views(path, options.runs))
        write(result, options.format, options.output)
    except (UserError, OSError) as error:
        return failed(error)
    return 0


def _views(path: str, runs: str | None) -> dict[str, View]:
    """What a query of the folder ``path`` sees."""
    if not is_suite(path):
        return views(path, runs)
    from ..suite.watching import runs_of

    return views_of_all(runs_of(path))
