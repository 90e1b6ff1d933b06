"""``inject pack``: turns the spans of finished runs into smaller files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..report.text import size
from ..store.seal import pack
from .ending import reports_errors
from .opened import add_base, add_run, locate, runs_in


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
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
    """Pack each run. Returns 0, or 2 for one that still runs or does not exist."""
    options = parser().parse_args(argv)
    folders = []
    for which in options.run or [None]:
        folders += [each for _, each in runs_in(locate(which, options))]
    for folder in dict.fromkeys(folders):
        before, after = pack(folder)
        done = f"{size(before)} to {size(after)}" if before else "there are no spans to pack"
        print(f"{folder}: {done}")
    return 0
