"""Programs that lie beside files named like modules of the standard library (``ast.py``, ``json.py``).

Such a program must import its neighbour, although we have imported the library's module before; and we must
get the library's module, although the neighbour comes first on the path. So everything that we might need is
imported before the program's folder is on the path, and hidden modules are then removed from ``sys.modules``:
modules of ours that were imported before hold on to them.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Collection

ROOMS = ("bus", "measure", "overseer", "probe", "rewrite")
LIBRARY = ("ast", "inspect", "json", "linecache", "re", "traceback")
"""The modules that our functions import when they are called."""
ENDINGS = ("", "py", "pyc", "so")
"""What the name of a module's file ends with. A folder's has no ending."""
UNUSED = frozenset(
    ("antigravity", "ensurepip", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle")
)
"""Modules that no library imports. A folder ``test`` beside the program, for one, hides nothing from us."""


def names(folder: str) -> set[str]:
    """Return the modules of the standard library that modules in ``folder`` hide."""
    try:
        entries = os.listdir(folder or ".")
    except OSError:
        return set()
    parted = [entry.partition(".") for entry in entries]
    modules = {name for name, _, ending in parted if ending.rpartition(".")[2] in ENDINGS}
    return modules.intersection(sys.stdlib_module_names).difference(
        sys.builtin_module_names, UNUSED
    )


def import_all(package: str) -> None:
    """Import all that our functions import when they are called, while only the library can be found."""
    for name in LIBRARY:
        _attempt(name)
    for room in ROOMS:
        for entry in os.listdir(os.path.join(package, room)):
            stem, _, ending = entry.partition(".")
            if ending == "py" and not stem.startswith("__"):
                _attempt(f"injector.{room}.{stem}")


def _attempt(name: str) -> None:
    """Import a module, if that can be."""
    try:
        __import__(name)
    except Exception:
        pass  # the function that needs it raises the error again


def give_way(hidden: Collection[str], native: Collection[str]) -> None:
    """Have the program import its own modules in place of those that they hide.

    Modules in ``native`` were imported before us, as they are without us, and stay.
    """
    for name in list(sys.modules):
        if name.partition(".")[0] in hidden and name not in native:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(os.path.dirname(os.__file__)):
                del sys.modules[name]
