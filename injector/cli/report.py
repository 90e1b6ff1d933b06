"""``inject report``: what a run folder has to tell."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from ..errors import UserError
from ..report.plain import as_data
from ..report.terminal import render
from ..report.text import encodable
from ..store.folder import Run, find, open_run
from .opened import add_run, collected


def parser() -> argparse.ArgumentParser:
    """The verb's own options."""
    result = argparse.ArgumentParser(
        prog="inject report",
        description="Print what a run has to tell. Run folders of milabench are read as well.",
    )
    add_run(result, "?")
    result.add_argument("--json", action="store_true", help="print data, for other programs")
    return result


def main(argv: Sequence[str]) -> int:
    """Print the report of a run; exit code 2 when there is none."""
    options = parser().parse_args(argv)
    shown = _json if options.json else _card
    try:
        with collected(open_run(find(options.run, options.runs))) as run:
            sys.stdout.write(shown(run))
    except (UserError, OSError) as error:
        print(f"inject: {error}", file=sys.stderr)
        return 2
    return 0


def _card(run: Run) -> str:
    return encodable(render(run), sys.stdout.encoding)


def _json(run: Run) -> str:
    return json.dumps(as_data(run), indent=1) + "\n"
