"""``inject pack``: a finished run in less room."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..report.segments import size
from ..store.seal import pack
from .ending import reports_errors
from .opened import add_base, add_run, located, runs_in


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    result = argparse.ArgumentParser(
        prog="inject pack",
        description="Turn the spans of finished runs, or of a suite's, into Parquet. Everything reads "
        "them as before.",
    )
    add_run(result, "*")
    add_base(result)
    return result


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Pack each run; exit code 2 for one that is none or goes on."""
    options = parser().parse_args(argv)
    folders = []
    for which in options.run or [None]:
        folders += [each for _, each in runs_in(located(which, options))]
    for folder in dict.fromkeys(folders):
        before, after = pack(folder)
        done = f"{size(before)} to {size(after)}" if before else "there are no spans to pack"
        print(f"{folder}: {done}")
    return 0
