"""Iterators of the program's own that give the batches of a loop: classes with a ``__next__``.

Which of them a loop draws from, the text does not tell. So each class of the program that has a ``__next__``
is a candidate, whose calls count from the first one on that came from a line where the loop draws a batch.
"""

from __future__ import annotations

import os
import sys
from types import FunctionType, ModuleType

from ..origin import PROGRAM, origin

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

MOST = 8
"""A program with more such classes than these is no plain one: none of them is recorded."""
DEPTH = 32
"""How many frames outwards from a call the line of the loop is looked for: ``tqdm`` may lie between."""
PATIENCE = 64
"""After so many calls from elsewhere, a class is not what the loop draws from."""


def candidates() -> list[FunctionType]:
    """The ``__next__`` of each class that a loaded module of the program has; none if there are too many."""
    found = dict.fromkeys(method for module in _program_modules() for method in _methods_of(module))
    return [*found] if len(found) <= MOST else []


def _program_modules() -> Iterator[ModuleType]:
    for module in list(sys.modules.values()):
        file = vars(module).get("__file__") if type(module) is ModuleType else None
        if isinstance(file, str) and origin(os.path.abspath(file)) == PROGRAM:
            yield module


def _methods_of(module: ModuleType) -> Iterator[FunctionType]:
    """The ``__next__`` of each class in a module. No code of the program runs."""
    for value in list(vars(module).values()):
        if issubclass(type(value), type):
            method = vars(value).get("__next__")
            if type(method) is FunctionType and not method.__code__.co_flags & 0x20:  # CO_GENERATOR
                file = os.path.abspath(method.__code__.co_filename)
                if origin(file) == PROGRAM:
                    yield method


class DrawnFrom:
    """Whether a loop draws its batches from a class: a function to be called where its ``__next__`` is."""

    __slots__ = ("_file", "_left", "_lines", "known")

    def __init__(self, file: str, lines: set[int]) -> None:
        """``lines`` of ``file`` draw the batch."""
        self._file, self._lines = file, lines
        self._left = PATIENCE
        self.known: bool | None = None
        """Whether it is; None as long as that is open."""

    def also(self, file: str, lines: set[int]) -> None:
        """Have another loop count that draws from ``lines`` of ``file``."""
        if self.known:
            return
        self._lines = self._lines | lines if file == self._file else lines
        self._file, self._left, self.known = file, PATIENCE, None

    def __call__(self) -> bool:
        known = self.known
        return self._look(sys._getframe(1)) if known is None else known

    def _look(self, frame: FrameType | None) -> bool:
        self._left -= 1
        for _ in range(DEPTH):
            if frame is None:
                break
            if frame.f_lineno in self._lines and (
                os.path.abspath(frame.f_code.co_filename) == self._file
            ):
                self.known = True
                return True
            frame = frame.f_back
        if self._left <= 0:
            self.known = False
        return False
