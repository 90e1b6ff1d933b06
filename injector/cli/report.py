"""``inject report``: what a run folder has to tell."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence

from ..bus import collector
from ..errors import UserError
from ..report.terminal import render
from ..store.folder import find, open_run

HELP = "print the report of a run that was recorded"


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    result = argparse.ArgumentParser(
        prog="inject report",
        description="Print what a run has to tell. Run folders of milabench are read as well.",
    )
    result.add_argument("run", nargs="?", help="run folder, or its name; the newest if left out")
    result.add_argument("--runs", metavar="DIR", help="folder of runs ($INJECT_RUNS, .inject/runs)")
    return result


def main(argv: Sequence[str]) -> int:
    """Print the report of a run; exit code 2 when there is none."""
    options = parser().parse_args(argv)
    try:
        run = open_run(find(options.run, options.runs))
        if run.info or run.data_files:
            sys.stdout.write(render(run))
            return 0
        with tempfile.TemporaryDirectory() as folder:
            collector.repair(run.path, folder)
            sys.stdout.write(render(open_run(folder)._replace(path=run.path)))
    except (UserError, OSError) as error:
        print(f"inject: {error}", file=sys.stderr)
        return 2
    return 0
