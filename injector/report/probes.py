"""What became of the probes, and what a reader has to be warned of."""

from __future__ import annotations

import os
from typing import Any

from ..analysis.summary import RANKS, Summary
from .layout import room
from .text import LIMIT, bullets, count, fit

AUTO_MISSED = "auto-missed"
"""The kind of warning that is nobody's mistake: a library that looks different."""
_ELSEWHERE = (AUTO_MISSED, RANKS, "lost")
"""What the report says at another place."""


def probes(summary: Summary) -> list[str]:
    """What each probe fired, and where it stands."""
    found = summary.probes
    if not found:
        return []
    lines = ["probes"]
    for probe in found:
        fired = f"fired {probe['fired']}" if probe["exact"] else f"fired at least {probe['fired']}"
        if not probe["fired"] and not probe["places"]:
            fired = "attached nowhere"
        elif not probe["fired"] and not probe["exact"]:
            fired = "fired: not known"
        lines.append(f"  {fit(probe['selector'], room() - 4 - len(fired))}  {fired}")
        # The two ends of a call are one line of the program.
        places = list(dict.fromkeys(_place(place) for place in probe["places"]))
        lines += [_indented(place) for place in places[:LIMIT]]
        if len(places) > LIMIT:
            lines.append(f"      … and {len(places) - LIMIT} more places")
    return [*lines, ""]


def _indented(text: str) -> str:
    return "      " + fit(text, room() - 6)


def _place(place: dict[str, Any]) -> str:
    where = place.get("function") or place.get("module") or ""
    file = os.path.basename(str(place.get("file") or ""))
    source = place.get("source") or place.get("kind") or ""
    at = f"{file}:{place.get('line')}" if file else str(place.get("module"))
    return f"{at} ({where})  {source}" if where else f"{at}  {source}"


def auto_missed(summary: Summary) -> list[str]:
    """What the shipped voirfiles looked for in their libraries and did not find."""
    found = summary.warnings
    return [str(each.get("text")) for each in found if each.get("kind") == AUTO_MISSED]


def warnings(summary: Summary) -> list[str]:
    """What run.json warns of, and lines that could not be read."""
    found = summary.warnings
    texts = [str(each.get("text")) for each in found if each.get("kind") not in _ELSEWHERE]
    if summary.summary.torn:
        texts.append(f"{count(summary.summary.torn, 'torn line')} of .data files left out")
    if not texts:
        return []
    return [count(len(texts), "warning"), *bullets(texts), ""]
