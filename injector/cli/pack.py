"""``inject pack``: a finished run in less room."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..errors import UserError
from ..report.machine import size
from ..store.folder import find
from ..store.packed import pack
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
        for which in options.run or [None]:
            folder = find(which, options.runs)
            before, after = pack(folder)
            print(f"{folder}: {size(before)} to {size(after)}")
    except (UserError, OSError) as error:
        print(f"inject: {error}", file=sys.stderr)
        return 2
    return 0
