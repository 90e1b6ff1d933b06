"""Classes of the program's own that give the batches of a loop: with a ``__next__``, or a ``__getitem__``.

Which of them a loop draws from, the text does not tell. So each class of the program that has such a method
is a candidate. Calls of a ``__next__`` count from the first one on that came from a line where the loop draws
a batch; of a ``__getitem__``, which a loader may call for each example, only those that such a line makes.
"""

from __future__ import annotations

import os
import sys
from types import FunctionType, ModuleType

from ..origin import PROGRAM, origin

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

MOST = 8
"""A program with more such classes than these is no plain one: none of them is recorded."""
DEPTH = 32
"""How many frames outwards from a call the line of the loop is looked for: ``tqdm`` may lie between."""
PATIENCE = 64
"""After so many calls from elsewhere, a class is not what the loop draws from."""


SITES = 64
"""Of so many places that call a ``__getitem__`` it is known whether they draw a batch; of no others."""


def candidates(name: str) -> list[FunctionType]:
    """The method ``name`` of each class in a loaded module of the program; none if there are too many."""
    modules = _program_modules()
    found = dict.fromkeys(method for module in modules for method in _methods_of(module, name))
    return [*found] if len(found) <= MOST else []


def _program_modules() -> Iterator[ModuleType]:
    for module in list(sys.modules.values()):
        file = vars(module).get("__file__") if type(module) is ModuleType else None
        if isinstance(file, str) and origin(os.path.abspath(file)) == PROGRAM:
            yield module


def _methods_of(module: ModuleType, name: str) -> Iterator[FunctionType]:
    """The method ``name`` of each class in a module. No code of the program runs."""
    for value in list(vars(module).values()):
        if issubclass(type(value), type):
            method = vars(value).get(name)
            if type(method) is FunctionType and not method.__code__.co_flags & 0x20:  # CO_GENERATOR
                file = method.__code__.co_filename
                # A module that is built into the interpreter is of no file: "<frozen …>".
                if not file.startswith("<frozen ") and origin(os.path.abspath(file)) == PROGRAM:
                    yield method


class DrawnFrom:
    """Whether a loop draws its batches from a class: a function to be called where its ``__next__`` is."""

    __slots__ = ("_file", "_left", "_lines", "known")

    def __init__(self, file: str, lines: frozenset[int]) -> None:
        """``lines`` of ``file`` draw the batch."""
        self._file, self._lines = file, lines
        self._left = PATIENCE
        self.known: bool | None = None
        """Whether it is; None as long as that is open."""

    def also(self, file: str, lines: frozenset[int]) -> None:
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


class IndexedFrom:
    """Whether a loop draws a batch by an index: a function to be called where a ``__getitem__`` is.

    Each place of the program's code that calls it is looked at once.
    """

    __slots__ = ("_codes", "_lines", "_places")

    def __init__(self, file: str, lines: frozenset[int]) -> None:
        """``lines`` of ``file`` draw the batch."""
        self._lines = {file: lines}
        self._forget()

    def also(self, file: str, lines: frozenset[int]) -> None:
        """Have another loop count that draws from ``lines`` of ``file``."""
        self._lines[file] = self._lines.get(file, frozenset()) | lines
        self._forget()

    def _forget(self) -> None:
        self._places: dict[tuple[int, int], bool] = {}
        """By the ``id`` of a code object and an instruction of it."""
        self._codes: list[CodeType] = []
        """What keeps these alive: an ``id`` may be another object's afterwards."""

    def __call__(self) -> bool:
        frame = sys._getframe(1).f_back
        if frame is None:
            return False
        draws = self._places.get((id(frame.f_code), frame.f_lasti))
        return self._look(frame) if draws is None else draws

    def _look(self, frame: FrameType) -> bool:
        if len(self._codes) >= SITES:
            return False
        lines = self._lines.get(os.path.abspath(frame.f_code.co_filename), frozenset())
        # A comprehension draws examples, many for one batch: it has a frame of its own up to Python 3.11.
        draws = frame.f_lineno in lines and frame.f_code.co_name not in _COMPREHENSIONS
        self._places[id(frame.f_code), frame.f_lasti] = draws
        self._codes.append(frame.f_code)
        return draws


_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
