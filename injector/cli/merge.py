"""``inject merge``: makes one run of runs that the nodes of one job recorded apart."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..analysis.summary import summarise
from ..bus.joining import join
from ..errors import UserError
from ..run.renderers import renderer
from ..store.folder import find, open_run
from .ending import reports_errors
from .forms import print_or_write
from .opened import add_runs, collected, exit_code


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = argparse.ArgumentParser(
        prog="inject merge",
        description="Make one run folder of runs that an inject run on each node recorded of one job, and "
        "print its report. The folders stay as they are.",
    )
    result.add_argument("run", nargs="+", help="run folder, its name or how that begins")
    result.add_argument(
        "-o", "--output", metavar="RUN", required=True, help="the run folder that is to be made"
    )
    add_runs(result)
    return result


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Merge the runs. Returns 0, 1 if parts of their record are missing, 2 if they cannot be merged."""
    options = parser().parse_args(argv)
    folders = [find(which, options.runs) for which in options.run]
    if len(folders) < 2:
        raise UserError("one run is whole already: name two or more that are to be merged")
    join(folders, options.output)
    with collected(open_run(options.output), check=False) as run:
        summary = summarise(run, keep=True)
        print_or_write(renderer(run, summary, "terminal", True), "terminal", None)
        return exit_code(run)
