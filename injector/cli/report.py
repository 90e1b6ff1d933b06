"""``inject report``: the report of a run, or of a suite."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..analysis.summary import summarise
from ..errors import UserError
from ..report import formats, terminal
from ..report.output import show
from ..store.folder import open_run
from .ending import failed
from .opened import add_base, add_run, collected, exit_code, is_suite, located


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    result = argparse.ArgumentParser(
        prog="inject report",
        description="Print the report of a run, or of a suite. Run folders of milabench are read as well.",
    )
    add_run(result, "?")
    add_base(result)
    result.add_argument("--json", action="store_true", help="print data, for other programs")
    return result


def main(argv: Sequence[str]) -> int:
    """Print the report of a run; exit code 2 when there is none, 1 where parts of its record are missing."""
    options = parser().parse_args(argv)
    try:
        path = located(options.run, options)
        if is_suite(path):
            from .suite import report

            return report.main([path, *(["--format", "json"] if options.json else [])])
        with collected(open_run(path)) as run:
            summary = summarise(run)
            if options.json:
                sys.stdout.write(formats.summary_as_json(summary))
            else:
                show(lambda: terminal.render(summary), sys.stdout)
            return exit_code(run)
    except (UserError, OSError) as error:
        return failed(error)
