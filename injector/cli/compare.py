"""``inject compare``: runs beside each other, and whether one is worse."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..compare import comparison, rendering, sides, thresholds
from ..compare.sides import RunFigures, Side
from ..compare.work import PACKAGE
from ..compat import milabench
from ..errors import UserError
from ..store.folder import is_run
from ..suite.results.status import damage_of
from .ending import reports_errors
from .forms import add_format, form_of, written
from .opened import (
    DAMAGED,
    add_base,
    add_runs,
    is_suite,
    located,
    runs_in,
)

NOTHING = 3
"""The exit code where nothing can be compared, or a threshold not be judged."""


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    made = argparse.ArgumentParser(
        prog="inject compare",
        description="Compare runs, suites, or folders of several runs of the same: first what differs in the "
        "work, then by loop and region what changed, with an interval. Each is compared with the first.",
        epilog="Exit codes: 0 within the thresholds, 4 confidently worse, 3 cannot tell or nothing in "
        "common, 2 bad input, "
        "1 where a record is damaged and no threshold is given.",
    )
    made.add_argument(
        "sides",
        nargs="+",
        metavar="RUN",
        help="run folder, suite, folder of runs (repeats of one program), name, LAST, or a baseline's file",
    )
    add_runs(made)
    add_base(made)
    made.add_argument(
        "--baseline", metavar="FILE", help="compare with what --save-baseline wrote there"
    )
    made.add_argument(
        "--save-baseline", metavar="FILE", help="write the figures of the last RUN there"
    )
    made.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="FIGURE>N%",
        help="exit with 4 if it is surely worse by more: step_time, throughput, memory, device_memory, "
        "energy, duration, a region, or a recorded value (f1<-1%%); may be repeated",
    )
    add_format(made, ("terminal", "md", "json"))
    return made


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Print the comparison; the exit code is that of the thresholds."""
    options = parser().parse_args(argv)
    limits = [thresholds.threshold(text) for text in options.fail_on]
    form = form_of(options)
    read = [sides.load(options.baseline)] if options.baseline is not None else []
    read += [_side(which, options) for which in options.sides]
    if options.save_baseline is not None:
        sides.save(options.save_baseline, read[-1])
    if len(read) < 2:
        if options.save_baseline is not None and not limits:
            return 0
        raise UserError("one run alone: name another to compare it with, or --baseline FILE")
    found = [comparison.compare(read[0], each) for each in read[1:]]
    nothing = list(dict.fromkeys(one.nothing for one in found if one.nothing))
    outcomes = [each for one in found if not one.nothing for each in thresholds.judged(one, limits)]
    written(lambda: rendering.render(found, outcomes, form), form, options.output)
    if nothing:
        why = "; ".join(nothing)
        print(f"inject: they have nothing in common to compare: {why}", file=sys.stderr)
    if nothing or limits:
        worst = max((each.code for each in outcomes), default=NOTHING)
        return worst or (NOTHING if nothing else 0)
    runs = [run for side in read for each in side.benchmarks.values() for run in each]
    return DAMAGED if any(run.missing for run in runs) else 0


def _side(which: str, options: argparse.Namespace) -> Side:
    """What ``which`` names. Raises UserError, OSError."""
    if os.path.isfile(which) and not is_run(which):
        return sides.load(which)
    if os.path.isdir(which) and not is_suite(which) and milabench.is_folder(which):
        return _of_milabench(which)
    if os.path.isdir(which) and not is_run(which) and not is_suite(which):
        return sides.of_folder(which)
    path = located(which, options)
    label = os.path.basename(os.path.abspath(path))
    found = runs_in(path)
    if not found:
        raise UserError(f"{path}: nothing of this suite has run yet")
    lost = [f"{label}: {text}" for text in damage_of(path)] if is_suite(path) else []
    named = [(labels.get("benchmark", ""), each) for labels, each in found]
    return sides.of_runs(label, named, lost)


def _of_milabench(folder: str) -> Side:
    """The benchmarks in a folder that milabench wrote. Raises OSError."""
    found = []
    for process in milabench.read(folder).processes:
        if (record := process.record) is None:
            continue
        known = {"host": record.host, "system": record.platform}
        work = {name: text for name, text in known.items() if text}
        work |= {PACKAGE + name: version for name, version in record.packages.items()}
        why = next((each.sentence for each in process.findings if each.fails), "")
        figures = RunFigures((), {}, work, process.missing, why)
        found.append((process.benchmark, process.rates, figures))
    return sides.of_rates(os.path.basename(os.path.abspath(folder)), found)
