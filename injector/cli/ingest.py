"""``inject ingest``: turns logs of the Deep Learning Benchmarking Suite into runs."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence

from ..compat import dlbs
from ..errors import UserError
from ..report.text import count
from ..store.place import clean_name, create_unique
from ..suite.environments.folders import base_of
from .ending import reports_errors
from .opened import DAMAGED
from .suite.options import add_base

SHOWN = 20
"""The most problems that are printed."""


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = argparse.ArgumentParser(
        prog="inject ingest",
        description="Read logs with lines __key__=value, such as those of the Deep Learning Benchmarking "
        "Suite, into a folder of runs, which suite report, plot and query read as they read a suite's.",
        epilog="Example: inject ingest logs, then inject suite report dlbs --scaling weak "
        "--over exp.num_gpus --query \"exp.framework == 'mxnet'\" --rounding dlbs",
    )
    add = result.add_argument
    add(
        "logs",
        nargs="+",
        metavar="LOG",
        help="logs (.log, .log.gz), or folders that are searched for them with all that lies below",
    )
    add("--name", default="dlbs", metavar="NAME", help="of the folder of runs (dlbs)")
    add("--into", metavar="DIR", help="the folder itself, which must not exist yet")
    add_base(result)
    return result


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Write the runs, and print their folder. Returns 0, 1 if a log is damaged, 2 if none can be read."""
    options = parser().parse_args(argv)
    logs = [dlbs.read_log(path) for path in dlbs.logs_in(options.logs)]
    readable = [log for log in logs if log.parameters]
    problems = [problem for log in logs for problem in log.problems]
    if not readable:
        raise UserError(problems[0])
    folder = _write_runs(readable, options)
    for problem in problems[:SHOWN]:
        print(f"inject: {problem}", file=sys.stderr)
    if len(problems) > SHOWN:
        print(f"inject: … and {len(problems) - SHOWN} more problems", file=sys.stderr)
    print(folder)
    return DAMAGED if problems else 0


def _write_runs(logs: Sequence[dlbs.BenchmarkLog], options: argparse.Namespace) -> str:
    """Write the runs into a hidden folder, and rename it at the end, so that all of them appear or none.

    Returns the folder. Raises UserError, OSError.
    """
    into = options.into and os.path.abspath(options.into)
    if into and os.path.exists(into):
        raise UserError(f"--into {options.into}: it exists already")
    runs = os.path.dirname(into) if into else str(base_of(options.base) / "runs")
    draft = create_unique(runs, f".{clean_name(options.name)}")
    try:
        benchmarks = dlbs.ingest(logs, draft, options.name)
        folder = into or os.path.join(runs, os.path.basename(draft)[1:])
        os.rename(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    failures = sum(log.code != 0 for log in logs)
    failed = f", {failures} failed or without a result" if failures else ""
    runs, kinds = count(len(logs), "run"), count(len(benchmarks), "benchmark")
    print(f"{runs} of {kinds}{failed}", file=sys.stderr)
    return folder
