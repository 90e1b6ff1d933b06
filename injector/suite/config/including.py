"""A suite's file and all that it includes, laid over each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from os.path import expanduser, isdir, isfile, normpath
from pathlib import Path as FilePath
from typing import Any

from .. import shipped
from ..words import kind, meant, nearest
from .keys import TOP, TopKeys, problems
from .layers import EMPTY, Layer, listed
from .problems import Path, Problem, ProblemList, SuiteError, Where, nearest_place
from .reading import Document, read

EVERY = "*"
"""The entry that is laid over every benchmark."""
DEFAULTS = "_defaults"
"""The entry that milabench's files inherit without saying what it is."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,149}")
"""What may be a name: it is that of a folder as well."""
_SHAPING = {"inherits", "definition", "matrix", "exclude", "name", "search", "tags", "when"}


@dataclass
class Library:
    """Everything that was written, by name."""

    file: FilePath
    entries: dict[str, Layer] = field(default_factory=dict)
    top: dict[str, Layer] = field(default_factory=dict)
    """``variables``, ``system``."""
    whole: bool = True
    """Whether every file was found and read, and what is none of its benchmarks is sound."""
    unsound: set[str] = field(default_factory=set)
    """The entries whose very form is wrong: nothing can be made of them."""

    def lay(self, name: str, layer: Layer) -> None:
        """Lay what a later file says of ``name`` over what is known; null takes it away."""
        if layer.data is None:
            self.entries.pop(name, None)
        else:
            self.entries[name] = layer.over(self.entries.get(name, EMPTY), unite=False)

    def runnable(self) -> Iterator[str]:
        """The names that are benchmarks and not only parents of some."""
        return (name for name in self.entries if not name.startswith("_") and name != EVERY)


def gather(file: str | FilePath, problems: ProblemList) -> Library:
    """Read ``file`` (or the shipped suite of that name) and what it includes, and check each key.

    Raises:
        SuiteError: the file itself cannot be read.
    """
    found = _find(str(file), FilePath())
    if found is None:
        known = [*shipped.suites(), *_beside(FilePath(file))]
        raise SuiteError([_missing(str(file), known)])
    reader = _Reader(problems)
    library = Library(found)
    reader.include(library, found, str(found), ())
    return library


def _find(written: str, beside: FilePath) -> FilePath | None:
    path = beside / expanduser(written)
    return path if isfile(path) else shipped.suites().get(written)


def _beside(path: FilePath) -> list[str]:
    folder = path.expanduser().parent
    return sorted(str(each) for each in folder.glob("*.y*ml")) if folder.is_dir() else []


def _missing(written: str, known: list[str]) -> Problem:
    hint = meant(written, known)
    if isdir(expanduser(written)):
        return Problem(None, f"{written} is a folder, and a suite is a YAML file{hint}")
    return Problem(None, f"there is no file {written}, and no shipped suite of that name{hint}")


class _Reader:
    """Reads each file once, however often it is included."""

    def __init__(self, problems: ProblemList) -> None:
        self.problems = problems
        self.documents: dict[FilePath, Document | None] = {}

    def include(
        self, library: Library, file: FilePath, shown: str, chain: tuple[FilePath, ...]
    ) -> None:
        """Lay ``file`` over ``library``, after all that it includes."""
        document = self.document(library, file, shown)
        if document is None:
            library.whole = False
            return
        chain = (*chain, file.resolve())
        include = document.data.get("include")
        for index, written in enumerate(listed(include)):
            path: Path = ("include", index) if isinstance(include, list) else ("include",)
            where = nearest_place(document.places, path)
            if isinstance(written, str):
                self.included(library, written, document, where, chain)
        for name, layer in _entries(document):
            if name in TOP:
                library.top[name] = layer.over(library.top.get(name, EMPTY), unite=False)
            else:
                library.lay(name, layer)

    def included(
        self,
        library: Library,
        written: str,
        document: Document,
        where: Where | None,
        chain: tuple[FilePath, ...],
    ) -> None:
        folder, own = FilePath(document.file).parent, FilePath(document.file).name
        found = _find(written, folder)
        if found is None:
            beside = (str(FilePath(each).name) for each in _beside(folder / written))
            hint = meant(written, [*shipped.suites(), *(each for each in beside if each != own)])
            self.problems.add(where, f"there is no file {written} to include{hint}")
            library.whole = False
        elif found.resolve() in chain:
            circle = chain[chain.index(found.resolve()) :]
            names = " includes ".join(path.name for path in (*circle, found.resolve()))
            self.problems.add(where, f"goes round in a circle: {names}")
        else:
            self.include(library, found, _shown(found), chain)

    def document(self, library: Library, file: FilePath, shown: str) -> Document | None:
        """What a file says, checked; None if it cannot be read."""
        key = file.resolve()
        if key not in self.documents:
            self.documents[key] = None
            with self.problems.collecting():
                document = self.documents[key] = read(file, shown)
                self.problems.extend(document.problems)
                self.check(library, document)
        return self.documents[key]

    def check(self, library: Library, document: Document) -> None:
        for name, value in document.data.items():
            found = _top(name, value) if name in TOP else list(_entry(name, value))
            self.problems.add_below(document.places, (name,), found)
            if found and name in TOP:
                library.whole = False
            elif any(_shapes(path) for path, _ in found):
                library.unsound.add(name)


def _shown(file: FilePath) -> str:
    """A path without ``x/..`` in it."""
    return normpath(file)


def _top(name: str, value: Any) -> list[tuple[Path, str]]:
    return [(path[1:], text) for path, text in problems({name: value}, TopKeys)]


def _entry(name: str, value: Any) -> Iterator[tuple[Path, str]]:
    if value is not None and not isinstance(value, dict):
        near = nearest(name, TOP)
        hint = f"; did you mean {near}?" if near else ""
        yield (), f"should be a map of a benchmark's keys, not {kind(value)}{hint}"
    elif name != EVERY and not NAME.fullmatch(name):
        yield (), no_name(name)
    else:
        yield from problems(value)


def no_name(name: str) -> str:
    """What is wrong with a name that is none."""
    return f"{name!r} is no name: letters, digits and _ - + . make one, up to 150 of them"


def _shapes(path: Path) -> bool:
    """Whether what is wrong at ``path`` of an entry leaves nothing to go on with."""
    inner = path[1:] if path[:1] == ("job",) else path
    return not inner or inner[0] in _SHAPING


def _entries(document: Document) -> Iterator[tuple[str, Layer]]:
    """What a file says of each name, with places from there."""
    places: dict[str, dict[Path, Where]] = {}
    for path, where in document.places.items():
        places.setdefault(str(path[0]), {})[path[1:]] = where
    for name, value in document.data.items():
        if isinstance(value, dict) or (value is None and name not in TOP):
            yield name, Layer(value, places.get(name, {}))  # type: ignore[arg-type]
