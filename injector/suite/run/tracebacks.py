"""Tracebacks in what programs print: choosing the one that names the cause, and cutting it to what is shown.

When one rank of several fails, its launcher ends with a traceback of its own, which only reports that a
process failed. The cause is then the last traceback before that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from ...store.exceptions import HEAD, in_a_line, reported_in

LINES = 12
"""How many lines of a traceback are shown, the last ones."""
MESSAGE = 200
"""How many characters of an exception's message are shown."""
TAIL = 1 << 16
"""How many bytes of a program's stderr are read, the last ones."""

_RANK = re.compile(r"^\[[\w ]{1,20}\]: ?")
"""What PyTorch puts before each line of a rank: ``[rank0]: ``."""
_WORD = re.compile(r"\w")
_LAUNCHERS = ("ChildFailedError", "ProcessRaisedException", "ProcessExitedException")
"""Exceptions by which a launcher reports that another process failed."""


class Traceback(NamedTuple):
    """A traceback as it is shown."""

    exception: str
    """``"ValueError: its message"``; empty if no traceback was found."""
    lines: tuple[str, ...]
    """The last lines of the traceback, or of the output if no traceback was found."""


def find(lines: Sequence[str]) -> Traceback:
    """The last traceback in ``lines`` that is not a launcher's; if there is none, their last lines."""
    plain = [_RANK.sub("", line.rstrip()) for line in lines if line.strip()]
    begins = [at for at, line in enumerate(plain) if HEAD in line]
    if not begins:
        return Traceback("", tuple(plain[-LINES:]))
    last_first = [_cut(plain[at:]) for at in reversed(begins)]
    programs = [each for each in last_first if not is_launchers(each[-1])]
    chosen = (programs or last_first)[0]
    # What follows the last traceback is the rest of its message, or was printed later. If it has the frames
    # of another process, the exception there is the cause.
    reported = ""
    if chosen is last_first[0]:
        reported = reported_in(plain[begins[-1] + len(chosen) :])
    return Traceback(short(reported or chosen[-1]), tuple(chosen[-LINES:]))


def is_launchers(exception: str) -> bool:
    """Whether an exception only reports that another process failed."""
    return any(name in exception for name in _LAUNCHERS)


def _cut(lines: list[str]) -> list[str]:
    """The traceback that ``lines`` begin with: up to its first line that is not indented, the exception."""
    for at, line in enumerate(lines[1:], 2):
        if not line.startswith((" ", "\t")):
            return lines[:at]
    return lines


def tail_of(path: str) -> list[str]:
    """The last lines of a file of captured output, about :data:`TAIL` bytes; none if there is no file."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - TAIL, 0))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []


def last_line(path: str) -> str:
    """What a file of captured output ends with, in a line, shortened; empty if there is nothing.

    That is the last line with a word; after an exception, whose message may have several lines, both. An
    indented line belongs to the message above it: it is taken only where all lines are indented.
    """
    lines = tail_of(path)
    words = [line for line in reversed(lines) if short(line)]
    last = short(next((line for line in words if not line[0].isspace()), words[0] if words else ""))
    raised = find(lines).exception
    if raised and (last.endswith(raised) or any(map(is_launchers, lines))):
        return raised
    return short(f"{raised} … {last}") if raised else last


def last_printed(path: str) -> str:
    """The last line of a file of output, as it is; empty if there is none."""
    return next((line.rstrip() for line in reversed(tail_of(path)) if line.strip()), "")


def of_event(kind: object, message: object, trace: object) -> Traceback:
    """The traceback of an ``error`` event: its type, message and formatted traceback."""
    lines = str(trace or "").rstrip().splitlines()
    return Traceback(short(in_a_line(kind, message, trace)), tuple(lines[-LINES:]))


def short(message: str) -> str:
    """The first line of ``message`` with a word in it, cut to :data:`MESSAGE` characters."""
    line = next((line.strip() for line in message.splitlines() if _WORD.search(line)), "")
    return line if len(line) <= MESSAGE else f"{line[: MESSAGE - 1]}…"
