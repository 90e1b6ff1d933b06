"""``inject runs``: lists the runs and suites of a folder."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..analysis.runs import Listed, listed
from ..report import formats
from ..report.formats import FORMATS, write
from ..report.output import show
from ..store.folder import began, runs_folder
from ..store.place import default_runs
from .ending import reports_errors
from .opened import add_base, add_runs, is_suite, suites_in


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = argparse.ArgumentParser(
        prog="inject runs",
        description="List the runs of a folder and the suites that were run, the oldest first.",
    )
    add_runs(result)
    add_base(result)
    result.add_argument("--format", choices=FORMATS, default="table")
    result.add_argument("-o", "--output", metavar="FILE", help="write there instead of printing")
    return result


def _runs_and_suites(options: argparse.Namespace) -> list[Listed]:
    """The runs and suites of a folder, or the runs of a suite's processes if ``--runs`` names a suite.

    The oldest comes first. Raises UserError if there is no such folder.
    """
    from ..suite.results import status

    suites = [suites_in(options)] if options.runs is None else []
    if options.runs is not None and is_suite(options.runs):
        return listed(os.path.join(options.runs, "jobs"))
    folder = default_runs(options.runs)
    found = {
        os.path.join(path, each.run): each
        for path in dict.fromkeys([folder, *suites])
        for each in status.listed(path)
    }
    # A folder of runs that is missing is an error only if there is nothing else.
    if not found or os.path.isdir(folder):
        runs = {os.path.join(folder, each.run): each for each in listed(runs_folder(options.runs))}
        found |= {path: each for path, each in runs.items() if not is_suite(path)}
    return [found[path] for path in sorted(found, key=began)]


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Print the list. Returns 0, or 2 if there is no such folder."""
    options = parser().parse_args(argv)
    runs = _runs_and_suites(options)
    if options.format == "table" and options.output is None:
        show(lambda: "\n".join([*formats.runs(runs), ""]), sys.stdout)
    else:
        columns = {name: [getattr(run, name) for run in runs] for name in Listed._fields}
        write(columns, options.format, options.output)
    return 0
