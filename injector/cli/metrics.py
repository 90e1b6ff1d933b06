"""``inject metrics``: lists every metric with its unit, its definition and where it comes from."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence

from ..errors import UserError
from ..metrics import UNITS, Metric, as_markdown, matching
from ..report.formats import as_csv
from ..report.output import room
from ..report.text import wrap
from .ending import reports_errors
from .forms import add_format, form_of, print_or_write


def parser() -> argparse.ArgumentParser:
    """The parser of the verb's options."""
    result = argparse.ArgumentParser(
        prog="inject metrics",
        description="List every metric that is recorded, derived or exported: unit, definition, and where it "
        "comes from.",
    )
    result.add_argument(
        "regex", nargs="?", default="", metavar="REGEX", help="those in whose words it occurs"
    )
    add_format(result, ("terminal", "json", "md", "csv"))
    return result


@reports_errors()
def main(argv: Sequence[str]) -> int:
    """Print the list. Returns 0, or 2 if nothing matches."""
    options = parser().parse_args(argv)
    form = form_of(options)
    metrics = list(matching(options.regex))
    if not metrics:
        raise UserError(f"no metric matches {options.regex!r}; inject metrics lists all")
    if form == "md" and options.regex:
        raise UserError("--format md is the whole page: leave REGEX out")
    renderers: dict[str, Callable[[Sequence[Metric]], str]] = {
        "terminal": as_text,
        "json": as_json,
        "csv": as_table,
        "md": lambda _: as_markdown(),
    }
    print_or_write(lambda: renderers[form](metrics), form, options.output)
    return 0


def as_text(metrics: Sequence[Metric]) -> str:
    """A paragraph for each metric."""
    lines: list[str] = []
    width = max(len(each.name) for each in metrics) + 2
    for each in metrics:
        lines.append(f"{each.name:<{width}}{UNITS[each.unit].name}")
        texts = (each.definition, f"from: {each.source}", f"in: {', '.join(each.places)}")
        lines += [f"  {line}" for text in texts for line in wrap(text, min(room(), 100) - 2)]
    return "\n".join(lines) + "\n"


def as_json(metrics: Sequence[Metric]) -> str:
    """A JSON object for each metric, in a list."""
    return json.dumps([{**each._asdict(), "unit_name": UNITS[each.unit].name} for each in metrics],
                      indent=1) + "\n"  # fmt: skip


def as_table(metrics: Sequence[Metric]) -> str:
    """A line of CSV for each metric."""
    columns = {name: [getattr(each, name) for each in metrics] for name in Metric._fields[:-1]}
    return as_csv({**columns, "places": [", ".join(each.places) for each in metrics]})
