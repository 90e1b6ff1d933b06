"""Programs that are run by a program: ``coverage run train.py``, ``python -m pdb train.py``.

Debuggers, profilers and shells compile a file themselves and pass the code to ``exec``, under the name
``__main__``. Where the command line names a file, and a probe is in the program, ``exec`` is replaced until
it is called with the code of that file. That call gets the rewritten code, and ``exec`` is the builtin again.

Without it, the program of a debugger would run without its probes (``tests/launch/test_runners.py``). A
runner that took ``exec`` from builtins before it was replaced, or does without it, runs the program as it was
written, and its probes are reported as not found.
"""

from __future__ import annotations

import builtins
import os
import sys
from types import CodeType

from injector.launch.children import native
from injector.launch.environment import MANY

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Rewrite = Callable[[bytes, CodeType], CodeType]


def named(words: list[str]) -> set[str]:
    """Return the real paths of the scripts that a command line names."""
    scripts = [word for word in words[:MANY] if word.endswith(".py")]
    return {os.path.realpath(word) for word in scripts if os.path.isfile(word)}


class Runner:
    """Waits until ``exec`` is called with the code of one of ``files``, and has ``rewrite`` change that."""

    def __init__(self, files: set[str], rewrite: Rewrite) -> None:
        self.files = files
        self.rewrite = rewrite
        self.real = builtins.exec

    def wait(self) -> None:
        """Put a stand-in in the place of ``exec``."""
        builtins.exec = native(self.real, self.arrange)

    def arrange(self, words: tuple[Any, ...], _: dict[str, Any]) -> tuple[Any, object]:
        """Return the arguments of a call of ``exec``, with the rewritten code if it is the program's."""
        try:
            if type(words[0]) is CodeType and self.is_program(*words[:2]):
                builtins.exec = self.real
                return (self.rewritten(words[0]), *words[1:]), None
        except Exception:
            pass  # `exec` itself raises the error that its caller expects
        return words, None

    def is_program(self, code: CodeType, namespace: Any = None) -> bool:
        """Whether this is the code of one of the files, to be run as ``__main__``."""
        if code.co_name != "<module>" or os.path.realpath(code.co_filename) not in self.files:
            return False
        # Without one it is that of the frame that calls `exec`: beyond this one, `arrange` and `__prepare__`.
        if namespace is None:
            namespace = sys._getframe(3).f_globals
        return bool(namespace.get("__name__") == "__main__")

    def rewritten(self, code: CodeType) -> CodeType:
        with open(code.co_filename, "rb") as file:
            return self.rewrite(file.read(), code)
