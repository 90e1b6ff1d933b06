"""``inject pack``: a finished run in less room."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..errors import UserError
from ..report.machine import size
from ..store.folder import find
from ..store.packed import pack
from .ending import failed
from .opened import add_run


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    result = argparse.ArgumentParser(
        prog="inject pack",
        description="Turn the spans of finished runs into Parquet. Everything reads them as before.",
    )
    add_run(result, "*")
    return result


def main(argv: Sequence[str]) -> int:
    """Pack each run; exit code 2 for one that is none or goes on."""
    options = parser().parse_args(argv)
    try:
        folders = [find(which, options.runs) for which in options.run or [None]]
        for folder in dict.fromkeys(folders):
            before, after = pack(folder)
            done = f"{size(before)} to {size(after)}" if before else "there are no spans to pack"
            print(f"{folder}: {done}")
    except (UserError, OSError) as error:
        return failed(error)
    return 0
