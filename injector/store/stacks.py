"""Sampled stacks, ``HOST.PID.stacks`` beside the log of a process: the layout and the reader.

A sampler writes them when the process has ended, in the collapsed form of flame graphs: a line for each
stack that was met, outermost frame first, and how often it was::

    thread (140): MainThread;<module> (/home/me/train.py:40);train (/home/me/train.py:31) 112

Functions of compiled code stand between them with their library, or with the line of their source where the
library has it; those without a name are addresses::

    …;train (/home/me/train.py:31);LightGBM::GBDT::TrainOneIter (/lib/lightgbm.so);0x7fc6 (/lib/libgomp.so) 3

The rate is in ``run.json`` (``sampling``). There is one version of this form.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..named_tuple import NamedTuple

SUFFIX = ".stacks"
LONGEST = 1 << 20
"""Characters of a line; a longer one is no stack."""
UNNAMED = "[unnamed]"
"""What a function of compiled code is called whose name its library does not have."""
# Compiled, and `re` imported, where they are used: every run imports this module, and few have stacks.
_ADDRESS = r"0x[0-9a-f]+"
_SOURCE = r"(?i)\.(?:[ch](?:c|h|pp|xx|\+\+)?|inl|tcc|cuh?|rs|s|f\d*|p(?:yx|xd|xi))"
_FRAME = r"(?P<function>.+) \((?P<file>.*?)(?::(?P<line>\d+))?\)"


class Frame(NamedTuple):
    """A function that was running, and where it was."""

    function: str
    """Its qualified name; before Python 3.11 its name alone."""
    file: str
    line: int
    """0 where it is not known."""

    @property
    def compiled(self) -> bool:
        """Whether it is a function of compiled code, not of Python."""
        if self.file.endswith(".py") or self.file[:1] in ("<", "~"):
            return False
        import re

        source = re.fullmatch(_SOURCE, os.path.splitext(self.file)[1])
        return not self.line or source is not None or "::" in self.function


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
    import re

    before = None
    for part in text.split(";"):
        found = re.fullmatch(_FRAME, part)
        if found is None or part.startswith("thread ("):
            continue
        frame = Frame(found["function"], found["file"], int(found["line"] or 0))
        if re.fullmatch(_ADDRESS, frame.function):  # it differs from process to process
            frame = Frame(UNNAMED, frame.file, 0)
            if frame == before:
                continue
        before = frame
        yield frame
