"""The shipped voirfiles, one per library: what can be known of them without running them.

They are in ``voirfiles/`` at the top of the repository; the private modules here hold what several of them
share. Each is a voirfile like any other, which a process runs once it has imported the library. These
constants, plain text at the margin, describe it:

- ``LIBRARY``: the top-level name under which programs import the library, or a tuple of such names;
- ``TESTED``: the oldest and the newest version it was tested with;
- methods whose calls in the program's files it records: ``DEVICE_METHODS`` where there may be an accelerator,
  ``RANK_METHODS`` in a process that is one of several, ``JOINT_METHODS`` in modules that call all of them.
"""

from __future__ import annotations

import os

from injector.origin import shipped as shipped_folder
from injector.value_class import value_class

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

FOLDER = shipped_folder("voirfiles")


@value_class
class Shipped:
    """One shipped voirfile."""

    name: str
    path: str
    libraries: tuple[str, ...]
    """Names by which programs import the library."""
    tested: tuple[str, str]
    """Oldest and newest version that it was tested with."""
    about: str
    """The first paragraph of its docstring: what it records."""
    device_methods: tuple[str, ...]
    """Methods whose calls it records where there may be an accelerator."""
    rank_methods: tuple[str, ...]
    """Methods whose calls it records in a process that is one of several."""
    joint_methods: tuple[str, ...]
    """Methods whose calls it records in modules that call all of them."""


def shipped(folder: str = FOLDER) -> list[Shipped]:
    """The shipped voirfiles in the order of their names; none of them is run. Raises OSError."""
    voirfiles = []
    for entry in sorted(os.listdir(folder)):
        stem, _, ending = entry.partition(".")
        if ending == "py" and not stem.startswith("_"):
            path = os.path.join(folder, entry)
            with open(path, encoding="utf-8") as file:
                voirfiles.append(_described(stem, path, file.read()))
    return voirfiles


def automatic(voirfiles: Sequence[Shipped], layers: bool = False) -> dict[str, list[str]]:
    """By library, the files of those of ``voirfiles`` that are run when a program imports it.

    With ``layers``, the voirfile that times the layers of models is among them.
    """
    by_library: dict[str, list[str]] = {}
    for voirfile in voirfiles:
        for library in voirfile.libraries:
            by_library.setdefault(library, []).append(voirfile.path)
    if layers:
        path = os.path.join(os.path.dirname(__file__), "_layers.py")
        by_library.setdefault("torch", []).append(path)
    return by_library


def methods(voirfiles: Sequence[Shipped]) -> tuple[list[str], list[str], list[str]]:
    """The device methods, rank methods and joint methods of ``voirfiles``."""
    return (
        sorted({name for voirfile in voirfiles for name in voirfile.device_methods}),
        sorted({name for voirfile in voirfiles for name in voirfile.rank_methods}),
        sorted({name for voirfile in voirfiles for name in voirfile.joint_methods}),
    )


_METHODS = ("DEVICE_METHODS", "RANK_METHODS", "JOINT_METHODS")


def _described(name: str, path: str, text: str) -> Shipped:
    """The voirfile ``name`` at ``path``, out of its ``text``. A missing constant is empty."""
    libraries = _quoted_words(_constant(text, "LIBRARY"))
    oldest, *_, newest = [*_quoted_words(_constant(text, "TESTED")), "", ""][:2]
    about = text.partition('"""')[2].partition('"""')[0].strip().partition("\n\n")[0]
    methods_of = [_quoted_words(_constant(text, name)) for name in _METHODS]
    return Shipped(name, path, libraries, (oldest, newest), " ".join(about.split()), *methods_of)


def _constant(text: str, name: str) -> str:
    """The text after ``NAME =`` at the margin, up to the end of its line, or ``""``."""
    _, start, rest = ("\n" + text).partition(f"\n{name} = ")
    return rest.partition("\n")[0] if start else ""


def _quoted_words(text: str) -> tuple[str, ...]:
    """The quoted words of a line."""
    parts: list[Any] = text.replace("'", '"').split('"')
    return tuple(parts[1::2])
