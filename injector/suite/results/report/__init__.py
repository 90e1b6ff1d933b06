"""The report of a suite: as text, as Markdown, as CSV, as data."""

from __future__ import annotations

import json

from ....report.formats import as_csv
from ..outcome import SuiteResult
from ..scaling import EXACT
from . import data, markdown, terminal

FORMATS = ("terminal", "json", "csv", "md")


def render(suite: SuiteResult, form: str = "terminal", rounding: str = EXACT) -> str:
    """``suite`` in one of :data:`FORMATS`."""
    if form == "json":
        return json.dumps(data.of_suite(suite, rounding), indent=1) + "\n"
    if form == "csv":
        return as_csv(data.columns(suite))
    if form == "md":
        return markdown.render(suite, rounding)
    return terminal.render(suite, rounding)
