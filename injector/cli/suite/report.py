"""``inject suite report``: prints the results of a suite."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from urllib.parse import quote

from ...analysis.summary import summarise as summarise_run
from ...compat import milabench
from ...errors import UserError
from ...run.renderers import recording_of, renderer
from ...store.folder import is_run, open_run
from ...suite.config import load
from ...suite.environments.folders import base_of
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
from ..forms import add_report, form_of, print_or_write
from ..opened import DAMAGED, collected
from .options import add_base
from .watched import time_series

RUNS = ".runs"
"""Appended to the name of a suite's page: the folder with the pages of its runs."""


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = argparse.ArgumentParser(
        prog="inject suite report",
        description="Print the results of a suite. Run folders of milabench are read as well.",
    )
    result.add_argument(
        "which",
        nargs="?",
        metavar="RUN",
        help="run folder, its name, or a suite (its newest run); the newest of all if left out",
    )
    add_base(result)
    add_report(result)
    return result


def rendered(suite: SuiteSummary, options: argparse.Namespace, form: str) -> Callable[[], str]:
    """A function that renders the report, or the tables that ``options`` ask for. Raises UserError."""
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
    """Print the report. Returns 0, 1 for damage, or failures with ``--check``, 2 if there is no such run."""
    options = parser().parse_args(argv)
    folder = find_suite_run(options.which, str(base_of(options.base)))
    return print_report(folder, options, form_of(options))


def print_report(folder: str, options: argparse.Namespace, form: str) -> int:
    """Print the report of the suite's run in ``folder``. Returns the exit code. Raises UserError, OSError."""
    if options.price is not None:
        raise UserError("--price is for the report of one run, and this is a suite")
    suite = summarise(folder, [milabench])
    if options.suite:
        suite = as_planned_by(suite, load(options.suite))
    if options.query:
        suite = filtered(suite, options.query)
    if form == "csv" or options.scaling or options.target:  # these have no place for sentences
        for sentence in suite.missing:
            print(f"inject: {sentence}", file=sys.stderr)
    print_or_write(rendered(suite, options, form), form, options.output)
    return DAMAGED if suite.missing or (options.check and total(suite).fail) else 0


def _page(
    suite: SuiteSummary,
    output: str | None,
    rounding: str,
    scaled: Sequence[Family] | None,
    ordered: Exploration | None,
) -> Callable[[], str]:
    """A function that renders the page of ``suite`` with the tables of :func:`.suite_page.of_suite`.

    If the page goes to a file, the pages of the runs are written beside it. Raises UserError, OSError.
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
    """Write the pages of the runs. Returns their addresses as seen from ``output``, by keys of processes."""
    from ...export.series import unused

    folder, links, names = os.path.splitext(output)[0] + RUNS, dict[str, str](), set[str]()
    if suite.origin != OURS:
        return links
    if not os.path.isdir(folder):
        os.mkdir(folder)
    for process in suite.processes:
        if process.folder is None or not is_run(process.folder):
            continue
        name = unused(process.key.replace(os.sep, "_"), names) + ".html"
        try:
            with collected(open_run(process.folder)) as run:
                recording = recording_of(run, "html")
                summary = summarise_run(run, recording=recording)
                render_run = renderer(run, summary, "html", True, recording)
                print_or_write(render_run, "html", os.path.join(folder, name))
        except (UserError, OSError) as error:
            print(f"inject: {process.key}: its page is left out: {error}", file=sys.stderr)
        else:
            links[process.key] = quote(f"{os.path.basename(folder)}/{name}")
    if not os.listdir(folder):
        os.rmdir(folder)
    return links
