"""Code that is already loaded: functions keep their identity and get another code object.

Closures, defaults, attributes and references to a function stay what they are; frames and generators
that run go on with the code they started with. A function of which no object exists yet (a closure
that will be made later) is reached through the function that makes it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .request import Landing
from .sheet import Path, Sheet, is_function, walk

Namespace = dict[str, Any]


class Exchange:
    """New code for the functions of some modules, applied in one pass over the living objects."""

    def __init__(self) -> None:
        self._jobs: list[tuple[Sheet, Namespace, CodeType, list[Landing]]] = []

    def add(
        self, sheet: Sheet, namespace: Namespace, code: CodeType, landings: list[Landing]
    ) -> None:
        """Ask that functions with the globals ``namespace`` run ``code``; ``landings`` is what is new."""
        self._jobs.append((sheet, namespace, code, landings))

    def apply(self, only: FunctionType | None = None) -> Iterator[tuple[Landing, str | None]]:
        """Exchange, and give each landing with None, or with why it did not come about.

        ``only`` is the one function that is concerned, where that is known.
        """
        if not self._jobs:
            return
        functions = [only] if only is not None else self._living()
        for sheet, namespace, code, landings in self._jobs:
            swap = _Swap(sheet, namespace, code)
            for function in functions:
                swap.offer(function)
            for landing in landings:
                yield landing, swap.obstacle(landing)

    def _living(self) -> list[FunctionType]:
        namespaces = {id(namespace) for _, namespace, _, _ in self._jobs}
        return list(_living(namespaces, {sheet.filename for sheet, _, _, _ in self._jobs}))


def _living(namespaces: set[int], files: set[str]) -> Iterator[FunctionType]:
    """Every function whose globals are one of ``namespaces`` (by id) or that comes from ``files``."""
    for thing in gc.get_objects():
        if type(thing) is FunctionType and (
            id(thing.__globals__) in namespaces or thing.__code__.co_filename in files
        ):
            yield thing
    if gc.get_freeze_count():
        yield from _frozen(namespaces)


def _frozen(namespaces: set[int]) -> Iterator[FunctionType]:
    """What ``gc.freeze`` hides from ``gc.get_objects``: found from the module's names onwards."""
    seen: set[int] = set()
    modules = list(sys.modules.values())
    queue: list[Any] = [m for m in modules if id(getattr(m, "__dict__", None)) in namespaces]
    while queue:
        thing = queue.pop()
        kind = type(thing)  # not isinstance: it would ask the object, and so run the program's code
        elsewhere = issubclass(kind, ModuleType) and id(vars(thing)) not in namespaces
        if id(thing) in seen or elsewhere:
            continue
        seen.add(id(thing))
        if kind is FunctionType and id(thing.__globals__) in namespaces:
            yield thing
        if issubclass(kind, _HOLDERS):
            queue.extend(gc.get_referents(thing))


_HOLDERS = (ModuleType, type, dict, FunctionType, tuple, staticmethod, property)


class _Swap:
    """The exchange in one module."""

    def __init__(self, sheet: Sheet, namespace: Namespace, code: CodeType) -> None:
        self._sheet = sheet
        self._namespace = namespace
        self._new = dict(walk(code))
        self._reached: set[Path] = set()
        self._closures: set[Path] = set()
        self._foreign: set[str] = set()

    def offer(self, function: FunctionType) -> None:
        """Give ``function`` its new code, if it is one of this module's."""
        old = function.__code__
        if function.__globals__ is not self._namespace and not self._strayed(function):
            return
        path = self._sheet.place(old)
        if path is None:
            self._foreign.add(old.co_name)
            return
        new = self._new.get(path)
        if new is None or not path:
            return
        if new.co_freevars != old.co_freevars:
            self._closures.add(path)
            return
        self._reached.add(path)
        if new != old:
            function.__code__ = new if new.co_filename == old.co_filename else _refiled(new, old)

    def _strayed(self, function: FunctionType) -> bool:
        """Whether ``function`` is of this text with globals of no module: ``runpy`` copies them."""
        if function.__code__.co_filename != self._sheet.filename:
            return False
        owner = sys.modules.get(function.__globals__.get("__name__", ""))
        return getattr(owner, "__dict__", None) is not function.__globals__

    def obstacle(self, landing: Landing) -> str | None:
        """Why ``landing`` can not act in what is loaded, or None."""
        paths = self._paths(landing)
        if not paths:
            return "this level of the module has already been executed"
        if any(path[:end] in self._reached for path in paths for end in range(1, len(path) + 1)):
            return None
        if any(path in self._closures for path in paths):
            return "the hook needs a variable that the function's closure does not hold"
        if any(path[-1][0] in self._foreign for path in paths):
            return "the source is not that of the loaded code: it has changed since the import"
        return "no such function exists any more"

    def _paths(self, landing: Landing) -> list[Path]:
        """The functions in which ``landing`` may lie, by name; a lambda by its line."""
        wanted = landing.function.replace(".<locals>", "")
        named = [(path, code) for path, code in self._new.items() if path and _name(path) == wanted]
        if named or not wanted:
            return [path for path, code in named if is_function(code)]
        return [
            path
            for path, code in self._new.items()
            if code.co_name == "<lambda>" and _spans(code, landing.line)
        ]


def _name(path: Path) -> str:
    return ".".join(name for name, _, _ in path)


def _spans(code: CodeType, line: int) -> bool:
    return any(number == line for _, _, number in code.co_lines())


def _refiled(code: CodeType, model: CodeType) -> CodeType:
    """``code`` under the file name that the loaded code has (``<frozen os>``, a moved folder)."""
    constants = tuple(
        _refiled(constant, model) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_filename=model.co_filename, co_consts=constants)
