"""Sampled stacks, ``HOST.PID.stacks`` beside the log of a process: the layout and the reader.

A sampler writes the file when the process has ended, in the collapsed form of flame graphs: a line for each
distinct stack, outermost frame first, and the number of samples in which it was seen::

    thread (140): MainThread;<module> (/home/me/train.py:40);train (/home/me/train.py:31) 112

Functions of compiled code have the path of their library in place of a file of Python, or the line of their
source if the library has that. Functions whose library has no names are addresses::

    …;train (/home/me/train.py:31);LightGBM::GBDT::TrainOneIter (/lib/lightgbm.so);0x7fc6 (/lib/libgomp.so) 3

The samples per second are in ``run.json`` (``sampling``). There is one version of this form.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..named_tuple import NamedTuple

SUFFIX = ".stacks"
LONGEST = 1 << 20
"""The most characters of a line. A longer one is left out."""
UNNAMED = "[unnamed]"
"""The name for a function of compiled code whose library has no names."""
# Compiled, and `re` imported, where they are used: every run imports this module, and few have stacks.
_ADDRESS = r"0x[0-9a-f]+"
_SOURCE = r"(?i)\.(?:[ch](?:c|h|pp|xx|\+\+)?|inl|tcc|cuh?|rs|s|f\d*|p(?:yx|xd|xi))"
_FRAME = r"(?P<function>.+) \((?P<file>.*?)(?::(?P<line>\d+))?\)"


class Frame(NamedTuple):
    """A function on the stack, with the line that it was at."""

    function: str
    """Its qualified name; before Python 3.11 its name alone."""
    file: str
    line: int
    """0 if it is not known."""

    @property
    def compiled(self) -> bool:
        """Whether it is a function of compiled code, not of Python."""
        if self.file.endswith(".py") or self.file[:1] in ("<", "~"):
            return False
        import re

        source = re.fullmatch(_SOURCE, os.path.splitext(self.file)[1])
        return not self.line or source is not None or "::" in self.function


class Stack(NamedTuple):
    """A stack of one thread, and the number of samples in which it was seen."""

    frames: tuple[Frame, ...]
    """The frames, the outermost first; none if the interpreter was ending."""
    samples: int


def stacks(path: str) -> Iterator[Stack]:
    """The stacks in the file ``path``. Lines of another form are left out. Raises OSError."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            text, _, number = line.rstrip("\n").rpartition(" ")
            if text and number.isdecimal() and len(line) <= LONGEST:
                yield Stack(tuple(_frames(text)), int(number))


def _frames(text: str) -> Iterator[Frame]:
    """The frames in a line. The parts before the first of them name the thread."""
    import re

    before = None
    for part in text.split(";"):
        match = re.fullmatch(_FRAME, part)
        if match is None or part.startswith("thread ("):
            continue
        frame = Frame(match["function"], match["file"], int(match["line"] or 0))
        # An address differs from process to process, so that stacks of several could not be added up.
        if re.fullmatch(_ADDRESS, frame.function):
            frame = Frame(UNNAMED, frame.file, 0)
            if frame == before:
                continue
        before = frame
        yield frame
