"""``inject compare``: shows runs beside each other, and judges whether one is worse."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

from ..compare import comparison, rendering, sides, thresholds
from ..compare.sides import RunFigures, Side
from ..compare.work import PACKAGE
from ..compat import milabench
from ..errors import UserError
from ..store.folder import is_run
from ..suite.results.status import damage_of
from .ending import reports_errors
from .forms import add_format, form_of, print_or_write
from .opened import DAMAGED, add_base, add_runs, is_suite, locate, runs_in

NOTHING = 3
"""The exit code if nothing can be compared, or a threshold cannot be judged."""


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = argparse.ArgumentParser(
        prog="inject compare",
        description="Compare runs, suites, or folders of several runs of the same: first what differs in the "
        "work, then by loop and region what changed, with an interval. Each is compared with the first.",
        epilog="Exit codes: 0 within the thresholds, 4 confidently worse, 3 cannot tell or nothing in "
        "common, 2 bad input, "
        "1 where a record is damaged and no threshold is given.",
    )
    add = result.add_argument
    add(
        "sides",
        nargs="+",
        metavar="RUN",
        help="run folder, suite, folder of runs (repeats of one program), name, LAST, or a baseline's file",
    )
    add_runs(result)
    add_base(result)
    add("--baseline", metavar="FILE", help="compare with what --save-baseline wrote there")
    add("--save-baseline", metavar="FILE", help="write the figures of the last RUN there")
    add(
        "--fail-on",
        action="append",
        default=[],
        metavar="FIGURE>N%",
        help="exit with 4 if it is surely worse by more: step_time, throughput, memory, device_memory, "
        "energy, duration, a region, or a recorded value (f1<-1%%); may be repeated",
    )
    add_format(result, ("terminal", "md", "json"))
    return result


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Print the comparison. Returns one of the exit codes that the help explains."""
    options = parser().parse_args(argv)
    limits = [thresholds.threshold(text) for text in options.fail_on]
    form = form_of(options)
    compared = [sides.load(options.baseline)] if options.baseline is not None else []
    compared += [_side(which, options) for which in options.sides]
    if options.save_baseline is not None:
        sides.save(options.save_baseline, compared[-1])
    if len(compared) < 2:
        if options.save_baseline is not None and not limits:
            [side] = compared
            own = [f"{side.label}: {text}" for run in _runs(compared) for text in run.missing]
            missing = [*side.problems, *own]
            for text in dict.fromkeys(missing):
                print(f"inject: {text}", file=sys.stderr)
            return DAMAGED if missing else 0
        raise UserError("one run alone: name another to compare it with, or --baseline FILE")
    comparisons = [comparison.compare(compared[0], side) for side in compared[1:]]
    reasons = list(dict.fromkeys(one.why_nothing for one in comparisons if one.why_nothing))
    comparable = [one for one in comparisons if not one.why_nothing]
    outcomes = [each for one in comparable for each in thresholds.judged(one, limits)]
    print_or_write(lambda: rendering.render(comparisons, outcomes, form), form, options.output)
    if reasons:
        why = "; ".join(reasons)
        print(f"inject: they have nothing in common to compare: {why}", file=sys.stderr)
    if reasons or limits:
        worst = max((each.code for each in outcomes), default=NOTHING)
        return worst or (NOTHING if reasons else 0)
    is_damaged = any(run.missing for run in _runs(compared))
    return DAMAGED if is_damaged or any(side.problems for side in compared) else 0


def _runs(compared: Sequence[Side]) -> Iterator[RunFigures]:
    return (run for side in compared for each in side.benchmarks.values() for run in each)


def _side(which: str, options: argparse.Namespace) -> Side:
    """The side of the comparison that ``which`` names. Raises UserError, OSError."""
    if os.path.isfile(which) and not is_run(which):
        return sides.load(which)
    if os.path.isdir(which) and not is_suite(which) and milabench.is_folder(which):
        return _of_milabench(which)
    if os.path.isdir(which) and not is_run(which) and not is_suite(which):
        return sides.of_folder(which)
    path = locate(which, options)
    label = os.path.basename(os.path.abspath(path))
    folders = runs_in(path)
    damage = damage_of(path) if is_suite(path) else []
    if not folders:
        raise UserError(f"{path}: {'; '.join(damage) or 'nothing of this suite has run yet'}")
    missing = [f"{label}: {text}" for text in damage]
    # The key of a process is its job's, and .D with its number.
    named = [
        (labels.get("benchmark", ""), labels.get("run", "").rpartition(".")[0], each)
        for labels, each in folders
    ]
    return sides.of_runs(label, named, missing)


def _of_milabench(folder: str) -> Side:
    """The benchmarks in a folder that milabench wrote. Raises OSError."""
    benchmarks = []
    for process in milabench.read(folder).processes:
        if (record := process.record) is None:
            continue
        work = {"host": record.host, "system": record.platform}
        work = {name: text for name, text in work.items() if text}
        work |= {PACKAGE + name: version for name, version in record.packages.items()}
        why = next((each.sentence for each in process.findings if each.fails), "")
        figures = RunFigures((), {}, work, process.missing, why)
        benchmarks.append((process.benchmark, process.rates, figures))
    return sides.of_rates(os.path.basename(os.path.abspath(folder)), benchmarks)
