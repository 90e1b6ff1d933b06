"""Waits for a program to import a library that a shipped voirfile knows, or to call a method of one.

Until it does, the import system asks us one question a module, and nothing else of ours is loaded.
"""

from __future__ import annotations

import sys

from injector.rewrite.importing import ImportHook
from injector.rewrite.method_calls import MethodCalls

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType
    from typing import Any


class LibraryWatch:
    """Calls ``act()`` when the first of some libraries is about to be executed; once.

    Or the first module of the program with a call of one of ``method_calls``: what
    ``act()`` installs decides next what is executed.
    """

    def __init__(
        self, libraries: Iterable[str], method_calls: MethodCalls, act: Callable[[], None]
    ) -> None:
        self.names = set(libraries)
        self.endings: set[str] = set()
        self._method_calls = method_calls
        self._act = act
        self._hook = ImportHook(self)

    def start(self) -> None:
        """Begin to wait; not at all if one of them has been imported already."""
        if self.names.intersection(sys.modules):
            self._now()
        else:
            self._hook.install()

    def asks(self, code: CodeType, name: str) -> bool:
        """Whether the module is the program's and calls one of the methods."""
        return bool(self.names) and self._method_calls.asks(code, name)

    def _now(self) -> None:
        if self.names:
            self.names.clear()  # the hook that asks for them stays, and asks for nothing
            self._act()

    def code_for(self, code: CodeType, namespace: dict[str, Any]) -> CodeType:
        """A library is about to be executed, as it is."""
        self._now()
        return code

    def main_code_for(self, code: CodeType, namespace: dict[str, Any], name: str) -> CodeType:
        """The program is about to be executed, as it is."""
        if self.asks(code, name or namespace["__name__"]):
            self._now()
        return code

    def loaded(self, name: str) -> None:
        """One that was executed in a way of its own."""
        self._now()
