"""Programs with neighbours named like modules of the standard library (``ast.py``, ``json.py``).

Such a program must get its neighbour, though we have imported the library's module by then; and we
must go on with the library's, though the neighbour comes first on the path.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Collection

ROOMS = ("bus", "measure", "overseer", "probe", "rewrite")
LIBRARY = ("ast", "inspect", "json", "linecache", "re", "traceback")
"""What our functions import when they are called."""
ENDINGS = ("", "py", "pyc", "so")
"""What a module's file ends with; a folder's name has no ending."""
UNUSED = frozenset(
    ("antigravity", "ensurepip", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle")
)
"""Modules that no library imports: a program's folder ``test`` hides nothing from us."""


def names(folder: str) -> set[str]:
    """Modules of the standard library that a module in ``folder`` hides."""
    try:
        entries = os.listdir(folder or ".")
    except OSError:
        return set()
    parted = [entry.partition(".") for entry in entries]
    found = {name for name, _, ending in parted if ending.rpartition(".")[2] in ENDINGS}
    return found.intersection(sys.stdlib_module_names).difference(sys.builtin_module_names, UNUSED)


def import_all(package: str) -> None:
    """Import what we import lazily elsewhere, while the library is all there is to find."""
    for name in LIBRARY:
        _attempt(name)
    for room in ROOMS:
        for entry in os.listdir(os.path.join(package, room)):
            stem, _, ending = entry.partition(".")
            if ending == "py" and not stem.startswith("__"):
                _attempt(f"injector.{room}.{stem}")


def _attempt(name: str) -> None:
    try:
        __import__(name)
    except Exception:
        pass  # what needs it will raise the error again


def give_way(hidden: Collection[str], native: Collection[str]) -> None:
    """Let the program import what is ``hidden``; ``native`` was loaded before we came."""
    for name in list(sys.modules):
        if name.partition(".")[0] in hidden and name not in native:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(os.path.dirname(os.__file__)):
                del sys.modules[name]
