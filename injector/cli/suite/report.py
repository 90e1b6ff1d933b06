"""``inject suite report``: the results of a suite."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ...compat import milabench
from ...errors import UserError
from ...suite.config import load
from ...suite.results.scaling import DLBS, EXACT
from ...suite.results.scores import total
from ...suite.results.suite_reader import summarise
from ...suite.results.suite_report import FORMATS, render
from ...suite.results.suite_summary import as_planned_by
from ...suite.run.suite_folder import find_suite_run
from ..ending import failed
from ..forms import add_format, form_of, written
from ..opened import DAMAGED
from .options import add_base, base


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    made = argparse.ArgumentParser(
        prog="inject suite report",
        description="Print the results of a suite. Run folders of milabench are read as well.",
    )
    made.add_argument(
        "which",
        nargs="?",
        metavar="RUN",
        help="run folder, its name, or a suite (its newest run); the newest of all if left out",
    )
    add_base(made)
    made.add_argument(
        "--suite",
        metavar="SUITE.yaml",
        help="what should have run, and its weights: for folders that do not say it (milabench's)",
    )
    add_format(made, FORMATS)
    made.add_argument(
        "--rounding", choices=(EXACT, DLBS), default=EXACT, help="of the scaling tables"
    )
    made.add_argument("--check", action="store_true", help="exit with 1 if anything failed")
    return made


def main(argv: Sequence[str]) -> int:
    """Print the report; exit code 2 when there is nothing to report, 1 where records are damaged."""
    options = parser().parse_args(argv)
    try:
        form = form_of(options)
        suite = summarise(find_suite_run(options.which, str(base(options.base))), [milabench])
        if options.suite:
            suite = as_planned_by(suite, load(options.suite))

        if form == "csv":  # which has no place for sentences
            for sentence in suite.missing:
                print(f"inject: {sentence}", file=sys.stderr)

        written(lambda: render(suite, form, options.rounding), form, options.output)
    except (UserError, OSError) as error:
        return failed(error)
    return DAMAGED if suite.missing or (options.check and total(suite).fail) else 0
