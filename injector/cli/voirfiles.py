"""``inject voirfiles``: lists the voirfiles that act by themselves when a program imports a library."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from ..voirfiles import shipped


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = argparse.ArgumentParser(
        prog="inject voirfiles",
        description="List the shipped voirfiles: each acts in a process that imports its library, "
        "unless `inject run --no-auto` says otherwise.",
    )
    result.add_argument("--json", action="store_true", help="the same as JSON")
    return result


def main(argv: Sequence[str]) -> int:
    """Print the list. Returns 0."""
    options = parser().parse_args(argv)
    voirfiles = shipped()
    if options.json:
        print(json.dumps([vars(one) for one in voirfiles], indent=2))
        return 0
    rows = [("name", "library", "tested", "records")]
    for one in voirfiles:
        tested = " – ".join(dict.fromkeys(one.tested))
        rows.append((one.name, ", ".join(one.libraries), tested, one.about))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        print("  ".join([*cells, row[3]]).rstrip())
    return 0
