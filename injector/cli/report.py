"""``inject report``: prints the report of a run, or of a suite."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..analysis.summary import summarise
from ..errors import UserError
from ..limits import price_of
from ..run.renderers import recording_of, renderer
from ..store.folder import open_run
from .ending import reports_errors
from .forms import OF_SUITES, add_report, form_of, print_or_write
from .opened import add_base, add_run, collected, exit_code, is_suite, locate


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = argparse.ArgumentParser(
        prog="inject report",
        description="Print the report of a run, or of a suite. Run folders of milabench are read as well.",
    )
    add_run(result, "?")
    add_base(result)
    add_report(result)
    return result


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Print the report. Returns 0, 1 if parts of the record are missing, 2 if there is no such run."""
    options = parser().parse_args(argv)
    form = form_of(options)
    path = locate(options.run, options)
    if is_suite(path):
        from .suite.report import print_report

        return print_report(path, options, form)
    for name in OF_SUITES:
        if getattr(options, name):
            raise UserError(f"--{name} is for the report of a suite, and {path} is one run")
    price = None if options.price is None else price_of(options.price)
    with collected(open_run(path)) as run:
        recording = recording_of(run, form)
        summary = summarise(run, price=price, recording=recording)
        print_or_write(renderer(run, summary, form, True, recording), form, options.output)
        return exit_code(run)
