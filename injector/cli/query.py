"""``inject query``: SQL over what a run recorded."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..analysis.query import run_query
from ..analysis.views import VIEWS, views
from ..errors import UserError
from ..report.formats import FORMATS, write
from ..store.folder import find
from .ending import failed
from .opened import add_run


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    result = argparse.ArgumentParser(
        prog="inject query",
        description="Ask a run in SQL (DuckDB's). Views: " + ", ".join(VIEWS) + ".",
        epilog='Example: inject query LAST "select rank, median(seconds) from steps group by rank"',
    )
    add_run(result, None)
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
        result = run_query(sql, views(find(options.run, options.runs), options.runs))
        write(result, options.format, options.output)
    except (UserError, OSError) as error:
        return failed(error)
    return 0
