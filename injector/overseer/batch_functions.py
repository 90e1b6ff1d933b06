"""The functions of the program that make the batches of a loop that no loader drives.

Such a loop shows itself at its first backward: a model was called in training mode, and nothing that
fetches drives the loop around the call. From the source of the loop follows which functions make what
the model was called with.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FunctionType, ModuleType

from ..gc_padding import UncountedAllocations
from ..origin import PROGRAM, origin

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..rewrite.batches import Making

    Site = dict[str, Any]
    """What is recorded of a call site (:mod:`injector.measure.sites`)."""

MOST = 32
"""Lines of backward and optimizers up to which is looked: a program with more is no plain loop."""
TRAINING = ("backward", "optimizer")
MAKING = frozenset(("h2d", "wait"))
"""Regions that a function may hold that makes a batch. One that runs a model, or steps an environment, makes
more than that, and one that fetches is io already."""
_GENERATES = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR
MOST_CALLED = 200
"""Functions called by one that is looked at."""


class _Line:
    """The line of a call site."""

    def __init__(self, site: Site) -> None:
        place = site["place"]
        self.file: str = place["file"]
        self.line: int = place["line"]
        self.function: str = place["function"]
        self.text: str = place["text"]
        self.region: str = site["region"]
        self.phase: str | None = site["phase"]
        self.key = (self.region, self.phase, self.file, self.line, self.function)


class BatchFunctions:
    """Calls ``found`` with each function of the program that makes batches, once."""

    def __init__(self, found: Callable[[FunctionType], None]) -> None:
        self._found = found
        self._lines: list[_Line] = []
        self._seen: set[tuple[object, ...]] = set()
        self._looks = 0
        self._known: set[tuple[str, int]] = set()

    def note(self, site: Site) -> None:
        """A call site of this process, before its first span."""
        if self._looks >= MOST or site["place"] is None or site["clock"] != "host":
            return
        line = _Line(site)
        # Models that are made anew for each task are sites of their own, at the same line.
        if line.key in self._seen:
            return
        self._seen.add(line.key)
        self._lines.append(line)
        # Later loops may update in the same lines as the first: then the call of a model is what is new.
        if line.region in TRAINING or (line.region == "forward" and self._looks):
            self._looks += line.region in TRAINING
            with UncountedAllocations():
                self._look(line)
        if self._looks >= MOST:
            self._lines.clear()

    def _look(self, update: _Line) -> None:
        """Look for what makes the batches of the loop that goes from the call of a model to ``update``;
        which may be the call of one that is new, and then is looked at by itself."""
        from ..rewrite import batches

        models = [each for each in self._lines if each.region == "forward"]
        fetches = [each for each in self._lines if each.region == "io"]
        called = [update] if update in models else models
        for model in [each for each in called if each.phase == "train"]:
            if origin(model.file) != PROGRAM or self._is_fetched(model):
                continue
            for begin in (model, update):
                made = batches.making(begin, model, models)
                if made is None or not (made.functions or made.others):
                    continue
                fed = batches.is_fed(begin, made.lines, fetches)
                if not fed and not self._is_named(model.file, made.lines):
                    self._find_all(model.file, made)
                break
        batches.forget()

    def _is_fetched(self, model: _Line) -> bool:
        """Whether a loader is read before the call in its function: the usual loop, whose file need not be
        parsed."""
        return any(
            each.region == "io"
            and (each.file, each.function) == (model.file, model.function)
            and each.line <= model.line
            for each in self._lines
        )

    def _is_named(self, file: str, lines: tuple[int, ...]) -> bool:
        """Whether something is known of these lines: a voirfile says what they are."""
        mine = [each for each in self._lines if each.file == file and each.line in lines]
        return any(each.region not in MAKING for each in mine)

    def _find_all(self, file: str, made: Making) -> None:
        paths = [path.split("/") for path in made.functions]
        paths += [call.split(".") for call in made.others]
        for module in _modules(file):
            for path in paths:
                self._take(_resolved(module, path))

    def _take(self, function: FunctionType | None) -> None:
        if function is None:
            return
        code = function.__code__
        key = (code.co_filename, code.co_firstlineno)
        if key in self._known or code.co_flags & _GENERATES or not self._only_makes(function):
            return
        if _may_be_compiled(function.__name__):
            return  # another code of it would have Dynamo compile once more
        self._known.add(key)
        self._found(function)

    def _only_makes(self, function: FunctionType) -> bool:
        """Whether no call site lies in ``function``, or in what it calls, of more than making a batch."""
        todo, seen = [function], {function}
        while todo:
            one = todo.pop()
            if any(each.region not in MAKING for each in self._within(one)):
                return False
            called = {each for each in _called(one) if each is not None} - seen
            seen |= called
            todo += called if len(seen) <= MOST_CALLED else ()
        return True

    def _within(self, function: FunctionType) -> Iterator[_Line]:
        """The call sites in a function."""
        first, last = _span(function.__code__)
        file = os.path.abspath(function.__code__.co_filename)
        return (each for each in self._lines if each.file == file and first <= each.line <= last)


def _may_be_compiled(name: str) -> bool:
    """Whether what torch.compile was given, or what that calls as far as names tell, calls a ``name``."""
    dynamo = sys.modules.get("torch._dynamo.convert_frame")
    if dynamo is None:
        return False
    try:
        references = list(vars(dynamo)["input_codes"].seen)
        codes = [code for each in references if type(code := each()) is CodeType]
    except (KeyError, AttributeError, TypeError):
        return True  # another version: who knows
    codes = [each for each in codes if origin(os.path.abspath(each.co_filename)) == PROGRAM]
    todo = [inner for each in codes for inner in _codes(each)]
    seen = set(todo)
    while todo and len(seen) <= MOST_CALLED:
        code = todo.pop()
        if name in code.co_names:
            return True
        for module in _modules(os.path.abspath(code.co_filename)):
            found = [_resolved(module, [each]) for each in code.co_names]
            new = {c for each in found if each is not None for c in _codes(each.__code__)} - seen
            seen |= new
            todo += new
    return bool(todo)


def _called(function: FunctionType) -> Iterator[FunctionType | None]:
    """The functions of the program that ``function`` may call, as far as names tell."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    for above in _above(function):
        for name in names:
            yield _resolved(function, [*above, name])


def _above(function: FunctionType) -> list[list[str]]:
    """Where what a function calls may be: its module, and the class whose method it is."""
    parents = function.__qualname__.split(".")[:-1]
    return [[], parents] if parents else [[]]


def _modules(file: str) -> list[ModuleType]:
    """The modules that ``file`` was loaded as."""
    return [
        module
        for module in list(sys.modules.values())
        if type(module) is ModuleType and _is_from(module, file)
    ]


def _is_from(module: ModuleType, file: str) -> bool:
    known = vars(module).get("__file__")
    return isinstance(known, str) and os.path.abspath(known) == file


def _resolved(start: ModuleType | FunctionType, path: list[str]) -> FunctionType | None:
    """The function of the program at ``path`` in a module, or in that of a function. No code of the
    program runs: attributes are looked up where they are stored."""
    scope = start.__globals__ if type(start) is FunctionType else vars(start)
    found: Any = scope.get(path[0])
    for name in path[1:]:
        found = _attribute(found, name)
    # Not isinstance: it asks the object for its class, and that may be the program's code.
    function = found.__func__ if type(found) in (staticmethod, classmethod) else found
    while type(function) is FunctionType and "__wrapped__" in vars(function):
        function = vars(function)["__wrapped__"]
    if type(function) is not FunctionType:
        return None
    file = function.__code__.co_filename
    return function if file[:1] != "<" and origin(os.path.abspath(file)) == PROGRAM else None


def _attribute(holder: object, name: str) -> Any:
    if type(holder) is ModuleType:
        return vars(holder).get(name)
    kind: Any = holder if issubclass(type(holder), type) else type(holder)
    for base in type.mro(kind):
        if name in vars(base):
            return vars(base)[name]
    return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _span(code: CodeType) -> tuple[int, int]:
    """The first and the last line of a function."""
    lines = [line for each in _codes(code) for _, _, line in each.co_lines() if line]
    return code.co_firstlineno, max(lines, default=code.co_firstlineno)
