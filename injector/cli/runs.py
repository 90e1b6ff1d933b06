"""``inject runs``: the runs of a folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..analysis.runs import Listed, listed
from ..errors import UserError
from ..report import listing
from ..report.formats import FORMATS, write
from ..report.layout import show
from ..store.folder import runs_folder
from .ending import failed
from .opened import add_runs


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    result = argparse.ArgumentParser(
        prog="inject runs", description="List the runs of a folder, the oldest first."
    )
    add_runs(result)
    result.add_argument("--format", choices=FORMATS, default="table")
    result.add_argument("--output", metavar="FILE", help="write there instead of printing")
    return result


def main(argv: Sequence[str]) -> int:
    """Print the list; exit code 2 when there is no such folder."""
    options = parser().parse_args(argv)
    try:
        found = listed(runs_folder(options.runs))
        if options.format == "table" and options.output is None:
            show(lambda: "\n".join([*listing.lines(found), ""]), sys.stdout)
        else:
            columns = {name: [getattr(run, name) for run in found] for name in Listed._fields}
            write(columns, options.format, options.output)
    except (UserError, OSError) as error:
        return failed(error)
    return 0
