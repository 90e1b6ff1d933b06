"""Tracebacks in what programs print: which of them names the cause, and how much of it to show."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from ...store.exceptions import HEAD, in_a_line, reported_in

LINES = 12
"""Of a traceback that are shown, the last."""
MESSAGE = 200
"""Characters of an exception's message."""
TAIL = 1 << 16
"""Bytes of a program's stderr that are looked at."""

_RANK = re.compile(r"^\[[\w ]{1,20}\]: ?")
"""What PyTorch puts before the lines of a rank."""
_WORD = re.compile(r"\w")
_LAUNCHERS = ("ChildFailedError", "ProcessRaisedException", "ProcessExitedException")
"""Exceptions by which a launcher reports that another process failed."""


class Traceback(NamedTuple):
    """The end of a traceback."""

    exception: str
    """``"ValueError: its message"``; empty where no traceback was found."""
    lines: tuple[str, ...]


def find(lines: Sequence[str]) -> Traceback:
    """The last traceback in ``lines`` that is not a launcher's; else their last lines."""
    plain = [_RANK.sub("", line.rstrip()) for line in lines if line.strip()]
    begins = [at for at, line in enumerate(plain) if HEAD in line]
    found = [_cut(plain[at:]) for at in reversed(begins)]
    own = [each for each in found if not is_launchers(each[-1])]
    for each in own or found:
        # What follows the last one are lines of its message, or what was printed after it.
        reported = reported_in(plain[begins[-1] + len(each) :]) if each is found[0] else ""
        return Traceback(short(reported or each[-1]), tuple(each[-LINES:]))
    return Traceback("", tuple(plain[-LINES:]))


def is_launchers(exception: str) -> bool:
    """Whether an exception only reports that another process failed."""
    return any(name in exception for name in _LAUNCHERS)


def _cut(lines: list[str]) -> list[str]:
    """A traceback without what was printed after it: it ends with its first line that is not indented."""
    for at, line in enumerate(lines[1:], 2):
        if not line.startswith((" ", "\t")):
            return lines[:at]
    return lines


def of_file(path: str) -> Traceback:
    """What the end of a file of captured output shows; nothing where there is none."""
    return find(tail_of(path))


def tail_of(path: str) -> list[str]:
    """The last lines of a file of captured output; none where there is no file."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - TAIL, 0))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []


def last_line(path: str) -> str:
    """The last line with a word in it of a file of captured output; empty if there is none."""
    lines = (short(line) for line in reversed(tail_of(path)))
    return next(filter(None, lines), "")


def of_event(kind: object, message: object, trace: object) -> Traceback:
    """The traceback that an ``error`` event holds."""
    lines = str(trace or "").rstrip().splitlines()
    return Traceback(short(in_a_line(kind, message, trace)), tuple(lines[-LINES:]))


def short(message: str) -> str:
    """The first line of ``message`` that has a word in it, with an end where it is long."""
    line = next((each.strip() for each in message.splitlines() if _WORD.search(each)), "")
    return line if len(line) <= MESSAGE else f"{line[: MESSAGE - 1]}…"
