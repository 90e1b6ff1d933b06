"""``inject suite report``: the results of a suite."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from urllib.parse import quote

from ...analysis.summary import summarise as summarise_run
from ...compat import milabench
from ...errors import UserError
from ...store.folder import is_run, open_run
from ...suite.config import load
from ...suite.results.points import DEVICES, THROUGHPUT, filtered
from ...suite.results.scaling import EXACT, Family
from ...suite.results.scores import total
from ...suite.results.suite_reader import summarise
from ...suite.results.suite_report import (
    Exploration,
    explored,
    render,
    render_exploration,
    render_scaling,
    scaling_of,
)
from ...suite.results.suite_summary import OURS, SuiteSummary, as_planned_by
from ...suite.run.suite_folder import find_suite_run
from ..ending import reports_errors
from ..forms import add_report, form_of, maker, recording_of, written
from ..opened import DAMAGED, collected
from .options import add_base, base_of
from .watched import time_series

RUNS = ".runs"
"""What the folder of the pages of a suite's runs is called after the suite's page."""


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
    add_report(made)
    return made


def rendered(suite: SuiteSummary, options: argparse.Namespace, form: str) -> Callable[[], str]:
    """What makes the report, or the tables that ``options`` ask for. Raises UserError."""
    rounding, target = options.rounding or EXACT, options.target
    scaled = ordered = None
    if options.scaling:
        over, target = options.over or DEVICES, target or THROUGHPUT
        scaled = scaling_of(suite, rounding, options.scaling, over, target)
    elif target:
        ordered = explored(suite, target)
    if form == "html":
        return _page(suite, options.output, rounding, scaled, ordered)
    if scaled is not None:
        return lambda: render_scaling(scaled, form, rounding)
    if ordered is not None:
        return lambda: render_exploration(ordered, form)
    return lambda: render(suite, form, rounding)


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Print the report; exit code 2 when there is nothing to report, 1 where records are damaged."""
    options = parser().parse_args(argv)
    found = find_suite_run(options.which, str(base_of(options.base)))
    return report_of(found, options, form_of(options))


def report_of(folder: str, options: argparse.Namespace, form: str) -> int:
    """Print the report of the suite's run in ``folder``. Raises UserError, OSError."""
    if options.price is not None:
        raise UserError("--price is for the report of one run, and this is a suite")
    suite = summarise(folder, [milabench])
    if options.suite:
        suite = as_planned_by(suite, load(options.suite))
    if options.query:
        suite = filtered(suite, options.query)
    if form == "csv" or options.scaling or options.target:  # no place for sentences
        for sentence in suite.missing:
            print(f"inject: {sentence}", file=sys.stderr)
    written(rendered(suite, options, form), form, options.output)
    return DAMAGED if suite.missing or (options.check and total(suite).fail) else 0


def _page(
    suite: SuiteSummary,
    output: str | None,
    rounding: str,
    scaled: Sequence[Family] | None,
    ordered: Exploration | None,
) -> Callable[[], str]:
    """What renders the page of ``suite`` with these tables, see :func:`.suite_page.of_suite`.

    The pages of its runs are written beside it, where it is a file.

    Raises UserError, OSError.
    """
    from ...report import page
    from ...suite.results import suite_page

    page.libraries()
    links = _pages_of_runs(suite, output) if output else {}
    series = time_series(suite.folder) if suite.origin == OURS else {}
    return lambda: page.whole(
        suite_page.TEMPLATE,
        suite_page.SCRIPTS,
        *suite_page.of_suite(suite, links, series, rounding, scaled, ordered),
    )


def _pages_of_runs(suite: SuiteSummary, output: str) -> dict[str, str]:
    """By the key of a process, the address of the page of its run from the page ``output``."""
    folder, links = os.path.splitext(output)[0] + RUNS, dict[str, str]()
    if suite.origin != OURS:
        return links
    if not os.path.isdir(folder):
        os.mkdir(folder)
    for process in suite.processes:
        if process.folder is None or not is_run(process.folder):
            continue
        name = f"{process.key.replace(os.sep, '_')}.html"
        try:
            with collected(open_run(process.folder)) as run:
                recording = recording_of(run, "html")
                summary = summarise_run(run, recording=recording)
                make = maker(run, summary, "html", True, recording)
                written(make, "html", os.path.join(folder, name))
        except (UserError, OSError) as error:
            print(f"inject: {process.key}: without a page: {error}", file=sys.stderr)
        else:
            links[process.key] = quote(f"{os.path.basename(folder)}/{name}")
    if not os.listdir(folder):
        os.rmdir(folder)
    return links
