"""Waits until a program imports a library of a shipped voirfile, or loads code that calls a method of one.

Until it does, the import system calls one function of ours for each module, and nothing else is loaded.
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
    """Calls ``act()`` once, when the first of ``libraries`` is about to be executed.

    Or when the first module of the program is that has a call of one of ``method_calls``. The import hooks
    that ``act()`` installs then decide how the module is executed.
    """

    def __init__(
        self, libraries: Iterable[str], method_calls: MethodCalls, act: Callable[[], None]
    ) -> None:
        self.names = set(libraries)
        self.endings: set[str] = set()
        self.asks = method_calls.asks
        self._act = act
        self._hook = ImportHook(self)

    def start(self) -> None:
        """Begin to wait. If one of the libraries has been imported already, call ``act()`` at once."""
        if self.names.intersection(sys.modules):
            self._now()
        else:
            self._hook.install()

    def _now(self) -> None:
        """Call ``act()``, unless it was called."""
        if self.names:
            self.names.clear()
            self._hook.rest()
            self._act()

    def code_for(self, code: CodeType, namespace: dict[str, Any]) -> CodeType:
        """Return ``code`` as it is: a library is about to be executed."""
        self._now()
        return code

    def main_code_for(self, code: CodeType, namespace: dict[str, Any], name: str) -> CodeType:
        """Return ``code`` as it is: a module of the program is about to be executed."""
        if self.asks(code, name or namespace["__name__"]):
            self._now()
        return code

    def loaded(self, name: str) -> None:
        """Note that a library was executed in a way of its own, such as an extension module."""
        self._now()
