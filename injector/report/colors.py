"""Colours of a report on a terminal.

They are put over the finished text by patterns, so that code that makes lines need not know about them, and
no escape sequence is counted as columns.
"""

from __future__ import annotations

import re

_BOLD, _DIM, _RED, _YELLOW, _CYAN = "1", "2", "31", "33", "36"
_PAINTS = (
    (re.compile(r"^  (?:exit [1-9]\d*|exit not known|killed by \S+)"), _RED),
    (re.compile(r"^\d+ warnings?$"), _YELLOW),
    (re.compile(r"(?<=  )\d+ not finite"), _RED),
    (re.compile(r"^inject\b.*|^\S[^:]{0,40}?(?=:?  |: |$)"), _BOLD),
    (re.compile(r"[█▏▎▍▌▋▊▉]+"), _CYAN),
    (re.compile(r"(?<=^  )[│├└─ ]*[├└]─"), _DIM),
)
"""Patterns within a line, with the number of their colour. Where two overlap, the first one counts."""
_FIRST = re.compile(r"^(verdict|broken|missing|restarted)\b.*(?:\n {9,}\S.*)*", re.MULTILINE)
"""The sections at the beginning of a report, which are coloured as a whole, over all of their lines."""


def painted(text: str) -> str:
    """The text of a report with colours for the verdict, titles, bars, and what went wrong."""
    parts, at = [], 0
    for match in _FIRST.finditer(text):
        color = _color(match)
        if color:
            # Each line for itself: a pager may show it without the line before.
            lines = [f"\x1b[{color}m{line}\x1b[0m" for line in match[0].split("\n")]
            parts += [_lines(text[at : match.start()]), "\n".join(lines)]
            at = match.end()
    return "".join([*parts, _lines(text[at:])])


def _color(match: re.Match[str]) -> str:
    """The colour of a first section: a verdict's follows from its severity, which ends its sentence."""
    if match[1] != "verdict":
        return _YELLOW if match[1] == "restarted" else _RED
    colors = {"critical)": f"{_BOLD};{_RED}", "warning)": f"{_BOLD};{_YELLOW}"}
    return colors.get(match[0].rpartition("(")[2], "")


def _lines(text: str) -> str:
    return "\n".join(map(_painted, text.split("\n")))


def _painted(line: str) -> str:
    """One line with the colours of all patterns in it."""
    spans: list[tuple[int, int, str]] = []
    for pattern, color in _PAINTS:
        for match in pattern.finditer(line):
            start, end = match.span()
            if start < end and all(end <= first or start >= last for first, last, _ in spans):
                spans.append((start, end, color))
    # From the end of the line, so that offsets stay valid.
    for start, end, color in sorted(spans, reverse=True):
        line = f"{line[:start]}\x1b[{color}m{line[start:end]}\x1b[0m{line[end:]}"
    return line
