"""``inject ingest``: logs of the Deep Learning Benchmarking Suite as runs."""

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
from .ending import reports_errors
from .opened import DAMAGED
from .suite.options import add_base, base_of

SHOWN = 20
"""Problems that are printed one by one."""


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    made = argparse.ArgumentParser(
        prog="inject ingest",
        description="Read logs with lines __key__=value, such as those of the Deep Learning Benchmarking "
        "Suite, into a folder of runs, which suite report, plot and query read as they read a suite's.",
        epilog="Example: inject ingest logs, then inject suite report dlbs --scaling weak "
        "--over exp.num_gpus --query \"exp.framework == 'mxnet'\" --rounding dlbs",
    )
    made.add_argument(
        "logs",
        nargs="+",
        metavar="LOG",
        help="logs (.log, .log.gz), or folders that are searched for them with all that lies below",
    )
    made.add_argument("--name", default="dlbs", metavar="NAME", help="of the folder of runs (dlbs)")
    made.add_argument("--into", metavar="DIR", help="the folder itself, which must not exist yet")
    add_base(made)
    return made


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Write the runs; exit code 2 where no log can be read, 1 where one is damaged."""
    options = parser().parse_args(argv)
    logs = [dlbs.read_log(path) for path in dlbs.logs_in(options.logs)]
    kept = [log for log in logs if log.parameters]
    problems = [problem for log in logs for problem in log.problems]
    if not kept:
        raise UserError(problems[0])
    folder = _written(kept, options)
    for problem in problems[:SHOWN]:
        print(f"inject: {problem}", file=sys.stderr)
    if len(problems) > SHOWN:
        print(f"inject: … and {len(problems) - SHOWN} more problems", file=sys.stderr)
    print(folder)
    return DAMAGED if problems else 0


def _written(logs: Sequence[dlbs.BenchmarkLog], options: argparse.Namespace) -> str:
    """Write the runs beside their place, then move them there: all of them or none."""
    into = options.into and os.path.abspath(options.into)
    if into and os.path.exists(into):
        raise UserError(f"--into {options.into}: it exists already")
    runs = os.path.dirname(into) if into else str(base_of(options.base) / "runs")
    draft = create_unique(runs, f".{clean_name(options.name)}")
    try:
        found = dlbs.ingest(logs, draft, options.name)
        folder = into or os.path.join(runs, os.path.basename(draft)[1:])
        os.rename(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    ran = sum(log.code == 0 for log in logs)
    results = f", {len(logs) - ran} failed or without a result" if ran < len(logs) else ""
    print(
        f"{count(len(logs), 'run')} of {count(len(found), 'benchmark')}{results}", file=sys.stderr
    )
    return folder
