"""Sampled stacks, ``HOST.PID.stacks`` beside the log of a process: the layout and the reader.

A sampler writes them when the process has ended, in the collapsed form of flame graphs: a line for each
stack that was met, outermost frame first, and how often it was::

    thread (140): MainThread;<module> (/home/me/train.py:40);train (/home/me/train.py:31) 112

The rate is in ``run.json`` (``sampling``). There is one version of this form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

SUFFIX = ".stacks"
LONGEST = 1 << 20
"""Characters of a line; a longer one is no stack."""
_FRAME = re.compile(r"(?P<function>.+) \((?P<file>.*?)(?::(?P<line>\d+))?\)")


class Frame(NamedTuple):
    """A function that was running, and where it was."""

    function: str
    """Its qualified name; before Python 3.11 its name alone."""
    file: str
    line: int
    """0 where it is not known."""


class Stack(NamedTuple):
    """What one thread was doing in a number of samples."""

    frames: tuple[Frame, ...]
    """The outermost first; none where the interpreter was ending."""
    samples: int


def stacks(path: str) -> Iterator[Stack]:
    """The stacks of a process; lines that are none are left out. Raises OSError."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            text, _, number = line.rstrip("\n").rpartition(" ")
            if text and number.isdecimal() and len(line) <= LONGEST:
                yield Stack(tuple(_frames(text)), int(number))


def _frames(text: str) -> Iterator[Frame]:
    """The frames of a line; what comes before the first of them says which thread it is."""
    for part in text.split(";"):
        found = _FRAME.fullmatch(part)
        if found is not None and not part.startswith("thread ("):
            yield Frame(found["function"], found["file"], int(found["line"] or 0))
