"""Colours of a report on a terminal, put over lines that are whole."""

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
"""What is painted of a line, with the number of its colour; the first that covers a place has it."""
_FIRST = re.compile(r"^(verdict|broken|missing|restarted)\b.*(?:\n {9,}\S.*)*", re.MULTILINE)
"""Sentences that stand first, painted whole: they may be wrapped."""


def painted(text: str) -> str:
    """``text`` of a report with colours: verdict, titles, bars, what went wrong."""
    parts, at = [], 0
    for match in _FIRST.finditer(text):
        color = _color(match)
        if color:
            lines = [f"\x1b[{color}m{line}\x1b[0m" for line in match[0].split("\n")]
            parts += [_lines(text[at : match.start()]), "\n".join(lines)]
            at = match.end()
    return "".join([*parts, _lines(text[at:])])


def _color(match: re.Match[str]) -> str:
    if match[1] != "verdict":
        return _YELLOW if match[1] == "restarted" else _RED
    colors = {"critical)": f"{_BOLD};{_RED}", "warning)": f"{_BOLD};{_YELLOW}"}
    return colors.get(match[0].rpartition("(")[2], "")


def _lines(text: str) -> str:
    return "\n".join(map(_painted, text.split("\n")))


def _painted(line: str) -> str:
    found: list[tuple[int, int, str]] = []
    for pattern, color in _PAINTS:
        for match in pattern.finditer(line):
            start, end = match.span()
            if start < end and all(end <= begun or start >= over for begun, over, _ in found):
                found.append((start, end, color))
    for start, end, color in sorted(found, reverse=True):
        line = f"{line[:start]}\x1b[{color}m{line[start:end]}\x1b[0m{line[end:]}"
    return line
