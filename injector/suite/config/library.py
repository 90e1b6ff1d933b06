"""The entries of a suite's file and of all that it includes; their parents and definitions."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from os.path import expanduser, isdir, isfile, normpath
from pathlib import Path as FilePath
from typing import Any

from . import definitions
from .keys import TOP, DefinitionKeys, TopKeys, problems
from .layers import EMPTY, SettingsLayer, listed
from .problems import (
    Mistake,
    Path,
    Problem,
    ProblemList,
    SuiteError,
    Where,
    kind,
    meant,
    nearest,
    nearest_place,
)
from .reading import Document, read
from .variants import NAME, no_name

EVERY = "*"
"""The entry that is laid over every benchmark."""
DEFAULTS = "_defaults"
"""A parent that need not be there: milabench's files inherit it wherever they are."""

_SHAPING = {"inherits", "definition", "matrix", "exclude", "name", "search", "tags", "when"}
_INHERITS: tuple[Path, ...] = (("inherits",), ("job", "inherits"))


@dataclass
class Library:
    """Everything that was written, by name."""

    file: FilePath
    problems: ProblemList
    entries: dict[str, SettingsLayer] = field(default_factory=dict)
    top: dict[str, SettingsLayer] = field(default_factory=dict)
    """``variables``, ``system``."""
    whole: bool = True
    """Whether every file was found and read, and what is none of its benchmarks is sound."""
    unsound: set[str] = field(default_factory=set)
    """The entries whose very form is wrong: no benchmark can be made of them."""
    definitions: dict[FilePath, SettingsLayer] = field(default_factory=dict)

    def lay(self, name: str, layer: SettingsLayer) -> None:
        """Lay what a later file has under ``name`` over what is known; null takes it away."""
        if name in TOP:
            self.top[name] = layer.over(self.top.get(name, EMPTY), unite=False)
        elif layer.data is None:
            self.entries.pop(name, None)
        else:
            self.entries[name] = layer.over(self.entries.get(name, EMPTY), unite=False)

    def runnable(self) -> Iterator[str]:
        """The names that are benchmarks and not only parents of some, as far as they are sound."""
        for name in [each for each in self.entries if self._sound(each)]:
            if not name.startswith("_") and name != EVERY:
                yield name

    def parents(self, names: Iterable[str]) -> SettingsLayer:
        """The layers of ``names`` and of all their ancestors, each once, an ancestor below its heirs.

        Of several parents a later one is above.

        Raises:
            Mistake: a name that no entry has, or that is its own ancestor.
        """
        found: dict[str, SettingsLayer] = {}
        for name in names:
            self._climb(name, (), found)
        return functools.reduce(lambda low, high: high.over(low), found.values(), EMPTY)

    def _climb(self, name: str, chain: tuple[str, ...], found: dict[str, SettingsLayer]) -> None:
        if name in chain:
            circle = " inherits ".join((*chain[chain.index(name) :], name))
            raise Mistake(f"goes round in a circle: {circle}")
        if name in found:
            return
        if name not in self.entries and name != DEFAULTS:
            raise Mistake(f"no entry is called {name}{meant(name, self.entries)}")
        layer = self.entries.get(name, EMPTY)
        for parent in parents_of(layer.data):
            self._climb(parent, (*chain, name), found)
        found[name] = layer

    def _sound(self, name: str) -> bool:
        """Whether an entry's form is right and its ancestors can be found; if not, why is noted."""
        layer = self.entries[name]
        sound = not self.unsound & {name, EVERY}
        for keys in _INHERITS:
            own = len(keys) == 1
            for parent in fixed_parents(layer.data if own else layer.data.get("job")):
                above: dict[str, SettingsLayer] = {}
                try:
                    self._climb(parent, (name,) if own else (), above)
                    sound = sound and not self.unsound & set(above)
                except Mistake as error:
                    sound = False
                    if parent not in self.entries or "circle" in str(error):
                        self.problems.add(nearest_place(layer.places, keys), str(error))
        return sound

    def definition(self, written: str, where: Where | None) -> tuple[FilePath, SettingsLayer]:
        """The folder that ``definition: WRITTEN`` means, and its settings.

        Raises:
            Mistake: there is none.
            SuiteError: its settings have mistakes.
        """
        beside = FilePath(where.file).parent if where else FilePath()
        try:
            folder = definitions.find(written, beside)
        except LookupError as error:
            raise Mistake(str(error)) from None
        if folder not in self.definitions:
            self.definitions[folder] = EMPTY  # its mistakes are raised once
            self.definitions[folder] = _definition(folder)
        return folder, self.definitions[folder]


def _definition(folder: FilePath) -> SettingsLayer:
    found = definitions.read(folder)
    file = str(found.file)
    places = {
        path: Where(file, found.lines.get(str(path[0]), 1), ".".join(map(str, path)))
        for path in _paths(found.settings)
    }
    implied = SettingsLayer(dict(found.settings), places)
    if found.file.name != definitions.YAML:
        return implied
    document = read(found.file, file)
    wrong = ProblemList(document.problems)
    wrong.add_below(document.places, (), problems(document.data, DefinitionKeys))
    wrong.check()
    return SettingsLayer(document.data, document.places).over(implied, unite=False)


def _paths(settings: Any, path: Path = ()) -> Iterator[Path]:
    for key, value in settings.items() if isinstance(settings, dict) else ():
        yield (*path, key)
        yield from _paths(value, (*path, key))


def parents_of(settings: Any) -> list[str]:
    """The names under ``inherits``."""
    written = settings.get("inherits") if isinstance(settings, dict) else None
    return [str(each) for each in listed(written)]


def fixed_parents(settings: Any) -> list[str]:
    """The parents whose names do not depend on values."""
    return [name for name in parents_of(settings) if "{" not in name]


# --- files --------------------------------------------------------------------------------------------


def read_library(file: str | FilePath, wrong: ProblemList) -> Library:
    """Read ``file`` (or the shipped suite of that name) and what it includes, and check each key.

    Raises:
        SuiteError: there is no such file.
    """
    found = _find(str(file), FilePath())
    if found is None:
        hint = meant(str(file), [*definitions.shipped_suites(), *_beside(FilePath(file))])
        is_folder = isdir(expanduser(file))
        text = (
            f"{file} is a folder, and a suite is a YAML file{hint}"
            if is_folder
            else f"there is no file {file}, and no shipped suite of that name{hint}"
        )
        raise SuiteError([Problem(None, text)])
    library = Library(found, wrong)
    _Files(library).include(found, str(found), ())
    return library


def _find(written: str, beside: FilePath) -> FilePath | None:
    path = beside / expanduser(written)
    return path if isfile(path) else definitions.shipped_suites().get(written)


def _beside(path: FilePath) -> list[str]:
    folder = path.expanduser().parent
    return sorted(str(each) for each in folder.glob("*.y*ml")) if folder.is_dir() else []


class _Files:
    """Reads each file once, however often it is included."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.problems = library.problems
        self.documents: dict[FilePath, Document | None] = {}

    def include(self, file: FilePath, shown: str, chain: tuple[FilePath, ...]) -> None:
        """Lay ``file`` over the library, after all that it includes."""
        document = self.document(file, shown)
        if document is None:
            self.library.whole = False
            return
        include = document.data.get("include")
        for index, written in enumerate(listed(include)):
            path: Path = ("include", index) if isinstance(include, list) else ("include",)
            if isinstance(written, str):
                where = nearest_place(document.places, path)
                self.included(written, document, where, (*chain, file.resolve()))
        for name, layer in _entries(document):
            self.library.lay(name, layer)

    def included(
        self, written: str, document: Document, where: Where | None, chain: tuple[FilePath, ...]
    ) -> None:
        folder, own = FilePath(document.file).parent, FilePath(document.file).name
        found = _find(written, folder)
        if found is None:
            beside = (str(FilePath(each).name) for each in _beside(folder / written))
            hint = meant(
                written, [*definitions.shipped_suites(), *(each for each in beside if each != own)]
            )
            self.problems.add(where, f"there is no file {written} to include{hint}")
            self.library.whole = False
        elif found.resolve() in chain:
            circle = (*chain[chain.index(found.resolve()) :], found.resolve())
            names = " includes ".join(path.name for path in circle)
            self.problems.add(where, f"goes round in a circle: {names}")
        else:
            self.include(found, normpath(found), chain)

    def document(self, file: FilePath, shown: str) -> Document | None:
        """A file's text, checked; None if it cannot be read."""
        key = file.resolve()
        if key not in self.documents:
            self.documents[key] = None
            with self.problems.collecting():
                document = self.documents[key] = read(file, shown)
                self.problems.extend(document.problems)
                self.check(document)
        return self.documents[key]

    def check(self, document: Document) -> None:
        for name, value in document.data.items():
            found = list(_wrong(name, value))
            self.problems.add_below(document.places, (name,), found)
            if found and name in TOP:
                self.library.whole = False
            elif any(_shapes(path) for path, _ in found):
                self.library.unsound.add(name)


def _wrong(name: str, value: Any) -> Iterator[tuple[Path, str]]:
    """What is wrong with what a file has under ``name``."""
    if name in TOP:
        yield from ((path[1:], text) for path, text in problems({name: value}, TopKeys))
    elif value is not None and not isinstance(value, dict):
        near = nearest(name, TOP)
        hint = f"; did you mean {near}?" if near else ""
        yield (), f"should be a map of a benchmark's keys, not {kind(value)}{hint}"
    elif name != EVERY and not NAME.fullmatch(name):
        yield (), no_name(name)
    else:
        yield from problems(value)


def _shapes(path: Path) -> bool:
    """Whether no benchmark can be made of an entry with a mistake at ``path``."""
    inner = path[1:] if path[:1] == ("job",) else path
    return not inner or inner[0] in _SHAPING


def _entries(document: Document) -> Iterator[tuple[str, SettingsLayer]]:
    """What a file has under each name, with places from there."""
    places: dict[str, dict[Path, Where]] = {}
    for path, where in document.places.items():
        places.setdefault(str(path[0]), {})[path[1:]] = where
    for name, value in document.data.items():
        if isinstance(value, dict) or (value is None and name not in TOP):
            yield name, SettingsLayer(value, places.get(name, {}))  # type: ignore[arg-type]
