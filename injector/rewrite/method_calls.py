"""Calls of methods by their name, in the program's own files: which modules hold such calls.

``x.to(device)`` is found by the name ``to`` alone, whatever ``x`` is. Every module that is executed is looked
at, so this looks for the names in its code, and reads no text.
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
# Generator expressions, and comprehensions before Python 3.12, have code objects of their own. In a path they
# belong to their function.
_INLINE = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_OURS = "injector"
_SITE = f"{os.sep}site-packages{os.sep}"


def hook_of(method: str) -> str:
    """The name in builtins of the hook on calls of ``method``, which gets the method about to be called.

    The same name with ``=`` is the hook that gets the result.
    """
    return f"injector:.{method}"


def is_method(variable: str | None) -> bool:
    """Whether the variable of a request stands for calls of a method."""
    return variable is not None and variable.startswith(".")


class MethodCalls:
    """The names of methods, and which modules' calls of them count."""

    def __init__(
        self, methods: Iterable[str] = (), libraries: Iterable[str] = (), joint: Iterable[str] = ()
    ) -> None:
        self.methods = set(methods)
        self.joint = frozenset(joint)
        """Methods that count only in modules that call all of these."""
        self.single: set[str] = set()
        """Joint methods that count by themselves all the same, since a voirfile of the user names them."""
        self.libraries = {_OURS, *libraries}
        """Top-level modules that never belong to the program, wherever they are installed."""
        self.packages: set[str] = set()
        """Top-level modules that belong to the program, wherever they are installed."""

    def own(self, module: str, file: str) -> bool:
        """Whether a module of this name, from this file, belongs to the program."""
        # Every imported module comes here, and most are those of installed packages.
        if _SITE in file and not self.packages and module not in _MAIN and "/../" not in file:
            return False
        top = module.partition(".")[0]
        if top in self.libraries or top.startswith("__voir"):
            return False
        if top in self.packages or module in _MAIN:
            return True
        if file[:1] == "<":
            return False
        if file[:1] != os.sep or "/./" in file or "/../" in file or "//" in file:
            file = os.path.abspath(file)
        return origin(file) == PROGRAM

    def asks(self, code: CodeType, module: str) -> bool:
        """Whether calls are to be hooked in the module about to be executed with ``code``."""
        if not self.methods or not self.own(module, code.co_filename):
            return False
        alone = self.methods - self.joint | self.single
        if next(_reading(code, alone, ()), None) is not None:
            return True
        return bool(self.joint) and self._read(code) >= self.joint

    def _read(self, code: CodeType) -> set[str]:
        """The joint methods whose names a module reads."""
        return {name for name, _ in _reading(code, set(self.joint), ())}

    def _counted(self, code: CodeType) -> set[str]:
        """The methods whose calls count in a module."""
        joint_count = bool(self.joint) and self._read(code) >= self.joint
        return self.methods if joint_count else self.methods - self.joint | self.single

    def requests(self, code: CodeType, module: str) -> list[Request]:
        """The requests for a module: each method, in the functions whose code reads its name."""
        from .request import ANYWHERE, Request  # imported only if a module calls such methods

        paths_of: dict[str, dict[tuple[str, ...], None]] = {}
        for method, path in _reading(code, self._counted(code), ()):
            # A lambda cannot be named by a path: all functions of the module are searched then.
            nameless = any(part[:1] == "<" for part in path)
            paths_of.setdefault(method, {})[ANYWHERE if nameless else path] = None
        return [
            Request(hook_of(method), module, path, "." + method)
            for method, paths in paths_of.items()
            for path in ([ANYWHERE] if ANYWHERE in paths else paths)
        ]


def _reading(
    code: CodeType, names: set[str], path: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each of ``names`` that ``code``, or code inside of it, reads, with the path of the code that does."""
    for name in sorted(names.intersection(code.co_names)):
        yield name, path
    for inner in code.co_consts:
        if type(inner) is _Code:
            inside = path if inner.co_name in _INLINE else (*path, inner.co_name)
            yield from _reading(inner, names, inside)
