"""How a report fits the stream it is written to: width and colours of a terminal, or a pipe without either.

Code that writes to a stream sets the width for it (:class:`laid_out`), which is then the same for every
function that makes lines, without being passed through all of them (:func:`room`). Colours are put over the
finished text, so that they need not be left out when columns are counted. :func:`show` does all of this.
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
"""Columns of a line if nothing else is known, and the most that sentences take."""
NARROWEST, WIDEST = 40, 240
"""Limits to the columns of a terminal that are used."""
BARS = 80
"""Columns of a line from which on there is room for bars."""
ENDLESS = 4096
"""Columns of a line in a pipe, where only absurdly long ones are cut."""

_room: ContextVar[int] = ContextVar("injector-room", default=WIDTH)


def room() -> int:
    """The columns that a line may take."""
    return _room.get()


def prose() -> int:
    """The columns that a line of a sentence may take: longer ones are hard to read on any terminal."""
    return min(room(), WIDTH)


def piped() -> bool:
    """Whether the text is for a pipe, where a program may search it: lines are as long as their content."""
    return room() >= ENDLESS


class laid_out:
    """A context in which lines may take ``width`` columns."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._tokens: list[Token[int]] = []

    def __enter__(self) -> None:
        self._tokens.append(_room.set(self._width))

    def __exit__(self, *_: object) -> None:
        _room.reset(self._tokens.pop())


def width_of(stream: TextIO) -> int:
    """The columns of the terminal that ``stream`` writes to; :data:`ENDLESS` if it is no terminal."""
    try:
        if not stream.isatty():
            return ENDLESS
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):  # closed, or an object of the program
        return ENDLESS
    # Some terminals, over serial lines for instance, give their size as 0.
    return max(NARROWEST, min(columns, WIDEST)) if columns else WIDTH


def colored(stream: TextIO) -> bool:
    """Whether ``stream`` is a terminal that shows colours, unless NO_COLOR is set (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") in ("", "dumb"):
        return False
    return width_of(stream) != ENDLESS


def show(make: Callable[[], str], stream: TextIO, colors: bool = True) -> None:
    """Write the text that ``make()`` returns to ``stream``, with its width, colours and encoding."""
    with laid_out(width_of(stream)):
        text = encodable(make(), stream.encoding)
    if colors and colored(stream):
        from .colors import painted

        text = painted(text)
    stream.write(text)


def encodable(text: str, encoding: str | None) -> str:
    """``text`` itself if it can be written in ``encoding``, else in ASCII, with similar signs for ours."""
    try:
        text.encode(encoding or "ascii")
    except UnicodeError:
        text = text.translate(_ASCII).encode("ascii", "backslashreplace").decode()
    except LookupError:
        pass  # Python does not know the encoding, and the stream will do as it can
    return text


_ASCII = str.maketrans(
    {"█": "#", "·": "-", "–": "-", "…": "~", "µ": "u", "├": "|", "└": "`", "│": "|", "─": "-"}
    | {"×": "x", "→": "->", "▒": ":", "°": "", "±": "+-"}
    | dict.fromkeys("▏▎▍▌▋▊▉", " ")
    | dict.fromkeys("┌┐┘┤┬┴┼╰╯", "+")
)
