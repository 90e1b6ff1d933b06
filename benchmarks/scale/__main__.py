"""``python -m benchmarks.scale live`` and ``python -m benchmarks.scale report``: a job of 8 000 ranks."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"
sys.path += [str(TESTS), str(TESTS / "report")]  # run folders are written as for tests


def main() -> None:
    """Measure one part, and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    for_live = parts.add_parser("live", help="watch a run that goes on, then collect it")
    for_live.add_argument("--seconds", type=int, default=60, help="of the run, simulated")
    for_live.add_argument("--monitors", action="store_true", help="a monitor on each node as well")
    for_report = parts.add_parser("report", help="the report of a run that is over")
    for_report.add_argument("--steps", type=int, default=10_000, help="of each rank")
    for part in (for_live, for_report):
        part.add_argument("--nodes", type=int, default=1000)
        part.add_argument("--ranks", type=int, default=8, help="of each node")
    options = parser.parse_args()
    from . import live, report

    if options.part == "live":
        live.main(options.nodes, options.ranks, options.seconds, options.monitors)
    else:
        report.main(options.nodes * options.ranks, options.steps)


if __name__ == "__main__":
    main()
