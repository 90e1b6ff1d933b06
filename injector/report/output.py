"""How a report fits where it goes: the width and the colours of a terminal, or a pipe, which has neither.

Code that writes to a stream lays out for it (:func:`laid_out`); a report takes from :func:`room` how long
a line may be. Colours come last, over lines that are whole, so that no width counts them.
"""

from __future__ import annotations

import os
from contextvars import ContextVar

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token
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


class laid_out:
    """Lay out for lines of ``width`` columns meanwhile."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._tokens: list[Token[int]] = []

    def __enter__(self) -> None:
        self._tokens.append(_room.set(self._width))

    def __exit__(self, *_: object) -> None:
        _room.reset(self._tokens.pop())


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
    if colors and colored(stream):
        from .colors import painted

        text = painted(text)
    stream.write(text)


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
