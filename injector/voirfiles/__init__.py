"""The shipped voirfiles, one per library: what can be known of them without running them.

They are in ``voirfiles/`` at the top of the repository, and what several of them share is in the private
modules here. Each is a voirfile like any other, with constants of plain text at its margin: ``LIBRARY``,
the top-level name under which programs import the library (or a tuple of such names), and ``TESTED``,
the oldest and the newest version it was tested with. Where it asks for calls of methods, their names
stand there too: in ``DEVICE_METHODS`` those of interest only where there is an accelerator, in
``RANK_METHODS`` those of processes that are one of several, in ``JOINT_METHODS`` those of which a module
has to call all. It is run in a process as soon as that process imports the library, and in no other.
"""

from __future__ import annotations

import os

from injector.named_tuple import NamedTuple
from injector.origin import shipped as shipped_folder

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

FOLDER = shipped_folder("voirfiles")


class Shipped(NamedTuple):
    """One shipped voirfile."""

    name: str
    path: str
    libraries: tuple[str, ...]
    """Names by which a program imports what it is about."""
    tested: tuple[str, str]
    """Oldest and newest version that it was tested with."""
    about: str
    """The first sentence of its text: what it records."""
    device_methods: tuple[str, ...]
    """Methods whose calls in the program's own files it asks for where there may be an accelerator."""
    rank_methods: tuple[str, ...]
    """The same, in a process that is one of several."""
    joint_methods: tuple[str, ...]
    """The same, in modules that call all of them."""


def shipped(folder: str = FOLDER) -> list[Shipped]:
    """The shipped voirfiles by name. Nothing of them is run."""
    found = []
    for entry in sorted(os.listdir(folder)):
        stem, _, ending = entry.partition(".")
        if ending == "py" and not stem.startswith("_"):
            path = os.path.join(folder, entry)
            with open(path, encoding="utf-8") as file:
                found.append(_described(stem, path, file.read()))
    return found


def automatic(folder: str = FOLDER, layers: bool = False) -> dict[str, list[str]]:
    """For each library the files of the voirfiles that are run when a program imports it.

    With ``layers``, that which times the layers of models as well.
    """
    by_library: dict[str, list[str]] = {}
    try:
        for one in shipped(folder):
            for library in one.libraries:
                by_library.setdefault(library, []).append(one.path)
    except OSError:
        pass  # an installation without them: there is nothing to activate
    if layers:
        path = os.path.join(os.path.dirname(__file__), "_layers.py")
        by_library.setdefault("torch", []).append(path)
    return by_library


def methods(folder: str = FOLDER) -> tuple[list[str], list[str], list[str]]:
    """The methods whose calls they ask for: where there may be an accelerator, in ranks, and all together."""
    try:
        found = shipped(folder)
    except OSError:
        return [], [], []
    return (
        sorted({name for one in found for name in one.device_methods}),
        sorted({name for one in found for name in one.rank_methods}),
        sorted({name for one in found for name in one.joint_methods}),
    )


_METHODS = ("DEVICE_METHODS", "RANK_METHODS", "JOINT_METHODS")


def _described(name: str, path: str, text: str) -> Shipped:
    libraries = _words(_constant(text, "LIBRARY"))
    oldest, *_, newest = [*_words(_constant(text, "TESTED")), "", ""][:2]
    about = text.partition('"""')[2].partition('"""')[0].strip().partition("\n\n")[0]
    sought = [_words(_constant(text, name)) for name in _METHODS]
    return Shipped(name, path, libraries, (oldest, newest), " ".join(about.split()), *sought)


def _constant(text: str, name: str) -> str:
    """What stands to the right of ``NAME =`` at the margin, up to the end of its line."""
    _, found, rest = ("\n" + text).partition(f"\n{name} = ")
    return rest.partition("\n")[0] if found else ""


def _words(text: str) -> tuple[str, ...]:
    """The quoted words of a line."""
    parts: list[Any] = text.replace("'", '"').split('"')
    return tuple(parts[1::2])
