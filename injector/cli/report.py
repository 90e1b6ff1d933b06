"""``inject report``: the report of a run, or of a suite."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..analysis.summary import summarise
from ..errors import UserError
from ..launch.limits import price_of
from ..store.folder import open_run
from .ending import failed
from .forms import REPORT, add_format, form_of, maker, written
from .opened import add_base, add_run, collected, exit_code, is_suite, located


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    result = argparse.ArgumentParser(
        prog="inject report",
        description="Print the report of a run, or of a suite. Run folders of milabench are read as well.",
    )
    add_run(result, "?")
    add_base(result)
    result.add_argument(
        "--price",
        metavar="P",
        help="what an hour of the run costs (2.5, '2.5 EUR'): the run and its epochs have a cost",
    )
    add_format(result, REPORT)
    return result


def main(argv: Sequence[str]) -> int:
    """Print the report of a run; exit code 2 when there is none, 1 where parts of its record are missing."""
    options = parser().parse_args(argv)
    try:
        form = form_of(options)
        price = None if options.price is None else price_of(options.price)
        path = located(options.run, options)
        if is_suite(path):
            from .suite import report

            if price is not None:
                raise UserError("--price is for the report of one run, and this is a suite")

            output = [] if options.output is None else ["--output", options.output]
            return report.main([path, "--format", form, *output])
        with collected(open_run(path)) as run:
            summary = summarise(run, price=price)
            written(maker(run, summary, form, own=True), form, options.output)
            return exit_code(run)
    except (UserError, OSError) as error:
        return failed(error)
