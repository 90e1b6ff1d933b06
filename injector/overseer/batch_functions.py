"""The functions and iterators of the program that make the batches of a loop that no loader drives.

Such a loop shows itself at its first backward: a model was called in training mode, and nothing that fetches
drives the loop around that call. The source of the loop (:mod:`injector.rewrite.batches`) tells which
functions make the arguments of the model. They are looked up in the loaded modules, and passed on to be
recorded as ``io``, unless they may be compiled or do more than to make batches. So is the ``__next__`` of a
class of the program (:mod:`.iterators`) where the loop draws from an iterator, and the ``__getitem__`` where
it draws by an index.

Only what is found by name is looked at, and no code of the program runs for it.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FunctionType, ModuleType

from ..gc_padding import UncountedAllocations
from ..origin import PROGRAM, origin
from . import iterators

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..rewrite.batches import BatchCode
    from .iterators import DrawnFrom, IndexedFrom

    Site = dict[str, Any]
    """The data of a call site (:mod:`injector.measure.sites`)."""

MOST = 32
"""After so many lines with a backward or an optimizer nothing more is looked for: it is no plain loop."""
TRAINING = ("backward", "optimizer")
MAKING = frozenset(("h2d", "wait"))
"""The regions that a function that makes a batch may hold. One that runs a model, or steps an environment,
does more than that, and one that fetches is recorded as ``io`` already."""
_GENERATES = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR
MOST_CALLED = 200
"""How many functions that one function calls, directly or not, are looked at."""


class _Line:
    """The line of a call site, with its region and phase."""

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
    """Calls ``found`` with each function of the program that makes batches, once for each.

    ``drawn`` is called with each ``__next__`` and ``__getitem__`` that may give them, and with the condition
    on which it does.
    """

    def __init__(
        self,
        found: Callable[[FunctionType], None],
        drawn: Callable[[FunctionType, DrawnFrom | IndexedFrom], None] = lambda *_: None,
    ) -> None:
        self._found, self._drawn = found, drawn
        self._classes: dict[tuple[str, int], DrawnFrom | IndexedFrom] = {}
        """By the file and line of its method, when what loops draw from such a class counts."""
        self._lines: list[_Line] = []
        self._seen: set[tuple[object, ...]] = set()
        self._looks = 0
        self._known: set[tuple[str, int]] = set()

    def note(self, site: Site) -> None:
        """Take note of a call site of this process, before its first span."""
        if self._looks >= MOST or site["place"] is None or site["clock"] != "host":
            return
        line = _Line(site)
        # Models that are created anew for each task are sites of their own, at the same line.
        if line.key in self._seen:
            return
        self._seen.add(line.key)
        self._lines.append(line)
        # A later loop may update in the same lines as the first one: then only its call of a model is new.
        if line.region in TRAINING or (line.region == "forward" and self._looks):
            self._looks += line.region in TRAINING
            with UncountedAllocations():
                self._look(line)
        if self._looks >= MOST:
            self._lines.clear()

    def _look(self, update: _Line) -> None:
        """Look for what makes the batches of the loop that goes from the call of a model to ``update``.

        ``update`` may also be a new call of a model, which is then the only one that is looked at.
        """
        from ..rewrite import batches, parsed_file

        models = [line for line in self._lines if line.region == "forward"]
        fetches = [line for line in self._lines if line.region == "io"]
        called = [update] if update in models else models
        for model in [line for line in called if line.phase == "train"]:
            if origin(model.file) != PROGRAM or self._is_fetched(model):
                continue
            # The model may be called in a function that the loop calls, or the update be made in one: the
            # loop is around either.
            for begin in (model, update):
                drawing = batches.drawing_lines(begin, model, models)
                if any(drawing) and not batches.is_fed(begin, (), fetches):
                    self._take_classes(model.file, drawing.iterated, drawing.indexed)
                made = batches.batch_code(begin, model, models)
                if made is None or not (made.functions or made.others):
                    continue
                fed = batches.is_fed(begin, made.lines, fetches)
                if not fed and not self._is_named(model.file, made.lines):
                    self._find_all(model.file, made)
                break
        parsed_file.forget()  # a parsed file is large

    def _is_fetched(self, model: _Line) -> bool:
        """Whether a loader is read before the call in its function.

        That is the usual loop, whose file need not be parsed.
        """
        return any(
            line.region == "io"
            and (line.file, line.function) == (model.file, model.function)
            and line.line <= model.line
            for line in self._lines
        )

    def _is_named(self, file: str, lines: tuple[int, ...]) -> bool:
        """Whether some of these lines hold a region already, which a voirfile has named."""
        inside = [line for line in self._lines if line.file == file and line.line in lines]
        return any(line.region not in MAKING for line in inside)

    def _find_all(self, file: str, made: BatchCode) -> None:
        """Look up the functions that make batches in the modules that ``file`` was loaded as."""
        paths = [path.split("/") for path in made.functions]
        paths += [call.split(".") for call in made.others]
        for module in _modules(file):
            for path in paths:
                self._take(_resolved(module, path))

    def _take(self, function: FunctionType | None) -> None:
        """Pass a function on, if it does nothing but make batches."""
        if function is None:
            return
        code = function.__code__
        key = (code.co_filename, code.co_firstlineno)
        # A generator is iterated, so what drives its loop is a fetch from it and not a call. A region needs a
        # statement to begin at, which a lambda has not.
        if code.co_flags & _GENERATES or code.co_name == "<lambda>":
            return
        if key in self._known or not self._only_makes(function):
            return
        # Hooks give a function new code, for which Dynamo would compile what calls it once more.
        if _may_be_compiled(function.__name__):
            return
        self._known.add(key)
        self._found(function)

    def _take_classes(self, file: str, iterated: frozenset[int], indexed: frozenset[int]) -> None:
        """Pass on each method of a class that may be what these lines of ``file`` draw from."""
        if iterated:
            self._take_methods("__next__", iterators.DrawnFrom, file, iterated)
        # A `for` over an object without `__iter__` indexes into it as well.
        self._take_methods("__getitem__", iterators.IndexedFrom, file, iterated | indexed)

    def _take_methods(
        self,
        name: str,
        condition: type[DrawnFrom] | type[IndexedFrom],
        file: str,
        lines: frozenset[int],
    ) -> None:
        for method in iterators.candidates(name):
            code = method.__code__
            key = (code.co_filename, code.co_firstlineno)
            if key in self._classes:
                self._classes[key].also(file, lines)
            elif self._only_makes(method) and not _is_called_compiled(method):
                self._classes[key] = condition(file, lines)
                self._drawn(method, self._classes[key])

    def _only_makes(self, function: FunctionType) -> bool:
        """Whether ``function`` and what it calls hold no call site that is about more than making batches."""
        todo, seen = [function], {function}
        while todo:
            caller = todo.pop()
            if any(line.region not in MAKING for line in self._lines_of(caller)):
                return False
            called = {callee for callee in _called(caller) if callee is not None} - seen
            seen |= called
            todo += called if len(seen) <= MOST_CALLED else ()
        return True

    def _lines_of(self, function: FunctionType) -> Iterator[_Line]:
        """The call sites that lie in a function."""
        first, last = _line_range(function.__code__)
        file = os.path.abspath(function.__code__.co_filename)
        return (line for line in self._lines if line.file == file and first <= line.line <= last)


def _is_called_compiled(method: FunctionType) -> bool:
    """Whether compiled code may draw a batch by ``method``, a ``__next__`` or ``__getitem__``."""
    if method.__name__ == "__getitem__":
        return _compiled_codes() != []  # an index names no method
    return any(map(_may_be_compiled, ("next", *method.__qualname__.split(".")[-2:])))


def _may_be_compiled(name: str) -> bool:
    """Whether compiled code may call a function called ``name``, as far as names tell.

    That is code that was passed to torch.compile, and functions of the program that such code names.
    """
    codes = _compiled_codes()
    if codes is None:
        return True
    todo = [inner for code in codes for inner in _nested_codes(code)]
    seen = set(todo)
    while todo and len(seen) <= MOST_CALLED:
        code = todo.pop()
        if name in code.co_names:
            return True
        for module in _modules(os.path.abspath(code.co_filename)):
            named = [_resolved(module, [called]) for called in code.co_names]
            new = {c for f in named if f is not None for c in _nested_codes(f.__code__)} - seen
            seen |= new
            todo += new
    return bool(todo)  # too many to look at: it may be


def _compiled_codes() -> list[CodeType] | None:
    """The code of the program that was passed to torch.compile; None if that is not known."""
    dynamo = sys.modules.get("torch._dynamo.convert_frame")
    if dynamo is None:
        return []
    # Dynamo keeps weak references to all code that it has compiled; there is no public way to that.
    try:
        references = list(vars(dynamo)["input_codes"].seen)
        codes = [code for each in references if type(code := each()) is CodeType]
    except (KeyError, AttributeError, TypeError):
        return None  # another version of PyTorch, of which nothing is known
    return [code for code in codes if origin(os.path.abspath(code.co_filename)) == PROGRAM]


def _called(function: FunctionType) -> Iterator[FunctionType | None]:
    """Yield the functions of the program that ``function`` may call, as far as names tell."""
    names = {name for code in _nested_codes(function.__code__) for name in code.co_names}
    for scope in _above(function):
        for name in names:
            yield _resolved(function, [*scope, name])


def _above(function: FunctionType) -> list[list[str]]:
    """The scopes in which a called name may be defined: the module (``[]``), and the class of a method."""
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
    """Return the function of the program at ``path`` in a module, or in the module of a function.

    No code of the program runs: attributes are looked up where they are stored. None where there is no such
    function.
    """
    scope = start.__globals__ if type(start) is FunctionType else vars(start)
    value: Any = scope.get(path[0])
    for name in path[1:]:
        value = _attribute(value, name)
    # `isinstance` would read `__class__`, which may be a property of the program's.
    function = value.__func__ if type(value) in (staticmethod, classmethod) else value
    while type(function) is FunctionType and "__wrapped__" in vars(function):
        function = vars(function)["__wrapped__"]
    if type(function) is not FunctionType:
        return None
    file = function.__code__.co_filename
    return function if file[:1] != "<" and origin(os.path.abspath(file)) == PROGRAM else None


def _attribute(holder: object, name: str) -> Any:
    """Return an attribute of a module, or of a class or the class of an object, as it is stored."""
    if type(holder) is ModuleType:
        return vars(holder).get(name)
    kind: Any = holder if issubclass(type(holder), type) else type(holder)
    for base in type.mro(kind):
        if name in vars(base):
            return vars(base)[name]
    return None


def _nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield ``code`` and that of all functions defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested_codes(constant)


def _line_range(code: CodeType) -> tuple[int, int]:
    """The first and the last line of a function."""
    lines = [line for inner in _nested_codes(code) for _, _, line in inner.co_lines() if line]
    return code.co_firstlineno, max(lines, default=code.co_firstlineno)
