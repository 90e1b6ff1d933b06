"""``inject merge``: the runs that the nodes of one job recorded apart become one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..analysis.summary import summarise
from ..bus.joining import join
from ..errors import UserError
from ..store.folder import find, open_run
from .ending import reports_errors
from .forms import maker, written
from .opened import add_runs, collected, exit_code


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
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
    """Merge the runs; exit code 2 where that cannot be, 1 where parts of their record are missing."""
    options = parser().parse_args(argv)
    folders = [find(which, options.runs) for which in options.run]
    if len(folders) < 2:
        raise UserError("one run is whole already: name two or more that are to be merged")
    join(folders, options.output)
    with collected(open_run(options.output), check=False) as run:
        summary = summarise(run, keep=True)
        written(maker(run, summary, "terminal", True), "terminal", None)
        return exit_code(run)
