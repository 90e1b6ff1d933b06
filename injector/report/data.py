"""The report as JSON, for other programs: what ``inject report --json`` prints."""

from __future__ import annotations

import json

from ..analysis.summary import Summary, plain


def render(summary: Summary) -> str:
    """``summary`` as it is: seconds, bytes, fractions, per second.

    What JSON has no number for is ``"NaN"``, ``"Infinity"`` or ``"-Infinity"``, as in ``.data`` files.
    """
    return json.dumps(plain(summary), indent=1) + "\n"
