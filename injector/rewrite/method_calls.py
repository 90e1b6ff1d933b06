"""Calls of methods by their name, in the program's own files: which modules hold such calls.

Applied to every module that is executed: names are looked for in its code, and no text is read for it.
"""

from __future__ import annotations

import os

from ..origin import PROGRAM, origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType
    from typing import Any

    from .request import Request

_Code: Any = type((lambda: None).__code__)
_MAIN = ("__main__", "__mp_main__")
_INLINE = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_OURS = "injector"


def hook_of(method: str) -> str:
    """The name in builtins of what is called with each method ``method`` that is about to be called.

    The same with ``=`` is called with what the method gave.
    """
    return f"injector:.{method}"


def is_method(variable: str | None) -> bool:
    """Whether the variable of a request stands for calls of a method."""
    return variable is not None and variable.startswith(".")


class MethodCalls:
    """Names of methods, and whose calls of them count."""

    def __init__(
        self,
        methods: Iterable[str] = (),
        libraries: Iterable[str] = (),
        joint: Iterable[str] = (),
    ) -> None:
        self.methods = set(methods)
        self.joint = frozenset(joint)
        """Those that count only in modules that call all of them."""
        self.single: set[str] = set()
        """Those of them that a voirfile of the user's names, so that they count by themselves."""
        self.libraries = {_OURS, *libraries}
        """Top-level modules that are no program, wherever they are installed."""
        self.packages: set[str] = set()
        """Top-level modules that are the program, wherever they are installed."""

    def own(self, module: str, file: str) -> bool:
        """Whether a module of this name, from this file, is the program's."""
        top = module.partition(".")[0]
        if top in self.libraries or top.startswith("__voir"):
            return False
        if top in self.packages or module in _MAIN:
            return True
        if file[:1] == "<":
            return False
        if file[:1] != os.sep or "/." in file or "//" in file:  # else it is absolute as it is
            file = os.path.abspath(file)
        return origin(file) == PROGRAM

    def asks(self, code: CodeType, module: str) -> bool:
        """Whether the module about to be executed with ``code`` is to be looked at."""
        if not self.methods or not self.own(module, code.co_filename):
            return False
        alone = self.methods - self.joint | self.single
        if next(_reading(code, alone, ()), None) is not None:
            return True
        return bool(self.joint) and self._read(code) >= self.joint

    def _read(self, code: CodeType) -> set[str]:
        """Those of the joint methods whose names a module reads."""
        return {name for name, _ in _reading(code, set(self.joint), ())}

    def _counted(self, code: CodeType) -> set[str]:
        """The methods whose calls count in a module."""
        whole = bool(self.joint) and self._read(code) >= self.joint
        return self.methods if whole else self.methods - self.joint | self.single

    def requests(self, code: CodeType, module: str) -> list[Request]:
        """The requests for such a module: each method, in the functions whose code reads its name."""
        from .request import ANYWHERE, Request  # only where something is found

        found: dict[str, dict[tuple[str, ...], None]] = {}
        for method, path in _reading(code, self._counted(code), ()):
            nameless = any(part[:1] == "<" for part in path)
            found.setdefault(method, {})[ANYWHERE if nameless else path] = None
        return [
            Request(hook_of(method), module, path, "." + method)
            for method, paths in found.items()
            for path in ([ANYWHERE] if ANYWHERE in paths else paths)
        ]


def _reading(
    code: CodeType, names: set[str], path: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each of ``names`` that ``code`` or what is inside of it reads, with the path of who does."""
    for name in sorted(names.intersection(code.co_names)):
        yield name, path
    for inner in code.co_consts:
        if type(inner) is _Code:
            inside = path if inner.co_name in _INLINE else (*path, inner.co_name)
            yield from _reading(inner, names, inside)
