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
STREAMS = "streams"
"""The module that imports ``giving``, for 70 ms: only voirfiles of a user request streams."""
ENDINGS = ("py", "pyc", "so")
"""What the name of a module's file ends with."""
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
    hidden = set()
    for entry in entries:
        name, _, ending = entry.partition(".")
        if (
            name not in sys.stdlib_module_names
            or name in UNUSED
            or name in sys.builtin_module_names
        ):
            continue
        is_module = ending.rpartition(".")[2] in ENDINGS
        if is_module or (not ending and _is_package(os.path.join(folder, entry))):
            hidden.add(name)
    return hidden


def _is_package(folder: str) -> bool:
    """Whether a folder has an ``__init__`` in some form: any other hides no module later on the path."""
    try:
        return any(entry.startswith("__init__.") for entry in os.listdir(folder))
    except OSError:  # a file without an ending
        return False


def import_all(package: str, has_voirfiles: bool) -> None:
    """Import all that our functions import when they are called, while only the library can be found."""
    for name in LIBRARY:
        _attempt(name)
    for room in ROOMS:
        for entry in os.listdir(os.path.join(package, room)):
            stem, _, ending = entry.partition(".")
            if ending == "py" and not stem.startswith("__") and (has_voirfiles or stem != STREAMS):
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
