"""How a report fits where it goes: the width and the colours of a terminal, or a pipe, which has neither.

Code that writes to a stream lays out for it (:func:`laid_out`); a report takes from :func:`room` how long
a line may be. Colours come last, over lines that are whole, so that no width counts them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

WIDTH = 100
"""Columns of a line where there is no terminal, and the most that sentences take."""
NARROWEST, WIDEST = 40, 240
BARS = 80
"""Columns of a line from which there is room for bars."""
ENDLESS = 4096
"""Columns of a line in a pipe, where nothing is cut but what is absurd."""

_room: ContextVar[int] = ContextVar("injector-room", default=WIDTH)


def room() -> int:
    """Columns that a line may take."""
    return _room.get()


def prose() -> int:
    """Columns that a sentence may take before it is wrapped."""
    return min(room(), WIDTH)


def piped() -> bool:
    """Whether lines may be as long as what they say."""
    return room() >= ENDLESS


@contextmanager
def laid_out(width: int) -> Iterator[None]:
    """Lay out for lines of ``width`` columns meanwhile."""
    token = _room.set(width)
    try:
        yield
    finally:
        _room.reset(token)


def width_of(stream: TextIO) -> int:
    """Columns of the terminal that ``stream`` is; :data:`ENDLESS` of anything else."""
    try:
        if not stream.isatty():
            return ENDLESS
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):  # closed, replaced by an object of the program's
        return ENDLESS
    return max(NARROWEST, min(columns, WIDEST)) if columns else WIDTH


def colored(stream: TextIO) -> bool:
    """Whether ``stream`` is a terminal that shows colours, unless NO_COLOR is set (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") in ("", "dumb"):
        return False
    return width_of(stream) != ENDLESS


def show(make: Callable[[], str], stream: TextIO, colors: bool = True) -> None:
    """Write the text that ``make()`` returns to ``stream``, laid out, painted and encoded for it."""
    with laid_out(width_of(stream)):
        text = encodable(make(), stream.encoding)
    stream.write(painted(text) if colors and colored(stream) else text)


def encodable(text: str, encoding: str | None) -> str:
    """``text`` as far as a stream of ``encoding`` can show it, its signs as the nearest in ASCII."""
    try:
        text.encode(encoding or "ascii")
    except UnicodeError:
        text = text.translate(_ASCII).encode("ascii", "backslashreplace").decode()
    except LookupError:
        pass
    return text


_ASCII = str.maketrans(
    {"█": "#", "·": "-", "–": "-", "…": "~", "µ": "u", "├": "|", "└": "`", "│": "|", "─": "-"}
    | dict.fromkeys("▏▎▍▌▋▊▉", " ")
)

# --- colours --------------------------------------------------------------------------------------

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
