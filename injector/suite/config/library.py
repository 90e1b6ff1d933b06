"""The entries of a suite's file and of all that it includes; their parents and definitions.

What a file includes lies below what it has itself: a later entry is laid over an earlier one of that name.
"""

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
"""A parent that may be missing: milabench's files inherit it whether there is one or not."""

_SHAPING = {"inherits", "definition", "matrix", "exclude", "name", "search", "tags", "when"}
"""Keys that decide which benchmarks an entry makes: with a mistake in one of them it makes none."""
_NOT_OVER_ALL = ("inherits", "definition", "matrix", "exclude", "name", "job")
"""Keys that are read before ``"*"`` is laid over benchmarks."""
_INHERITS: tuple[Path, ...] = (("inherits",), ("job", "inherits"))
"""Where an entry names its parents."""


class Circle(Mistake):
    """An entry that is its own ancestor."""


@dataclass
class Library:
    """All entries and variables, by name."""

    file: FilePath
    problems: ProblemList
    entries: dict[str, SettingsLayer] = field(default_factory=dict)
    top: dict[str, SettingsLayer] = field(default_factory=dict)
    """``variables`` and ``system``."""
    whole: bool = True
    """Whether every file was found and read, and the keys of :attr:`top` have no mistake."""
    unsound: set[str] = field(default_factory=set)
    """The entries of which no benchmark can be made, since a key that decides which has a mistake."""
    definitions: dict[FilePath, SettingsLayer] = field(default_factory=dict)
    """The settings of the definitions that were read, by folder."""
    documents: dict[FilePath, Document | None] = field(default_factory=dict)
    """The files that were read, each once, however often it is included; None for one that cannot be read."""

    def lay(self, name: str, layer: SettingsLayer) -> None:
        """Lay what a later file has under ``name`` over what is known. Null removes an entry."""
        if name in TOP:
            self.top[name] = layer.over(self.top.get(name, EMPTY), unite=False)
        elif layer.data is None:
            self.entries.pop(name, None)
        else:
            self.entries[name] = layer.over(self.entries.get(name, EMPTY), unite=False)

    def runnable(self) -> Iterator[str]:
        """The names of the entries that run, other than mere parents and unsound ones.

        What is wrong with an entry's parents is added to the problems.
        """
        # All are checked, those that do not run as well.
        for name in [entry for entry in self.entries if self._check_entry(entry)]:
            if not name.startswith("_") and name != EVERY:
                yield name

    def parents(self, names: Iterable[str]) -> SettingsLayer:
        """The layers of ``names`` and of all their ancestors, each once, an ancestor below its heirs.

        Of several parents a later one is above. Raises Mistake for a name that no entry has, or that is its
        own ancestor.
        """
        layers: dict[str, SettingsLayer] = {}
        for name in names:
            self._add_ancestors(name, (), layers)
        return functools.reduce(lambda low, high: high.over(low), layers.values(), EMPTY)

    def _add_ancestors(
        self, name: str, heirs: tuple[str, ...], layers: dict[str, SettingsLayer]
    ) -> None:
        """Add to ``layers`` those of the ancestors of ``name``, then its own. ``heirs`` led to it."""
        if name in heirs:
            circle = " inherits ".join((*heirs[heirs.index(name) :], name))
            raise Circle(f"goes round in a circle: {circle}")
        if name in layers:
            return
        if name not in self.entries and name != DEFAULTS:
            raise Mistake(f"no entry is called {name}{meant(name, self.entries)}")
        layer = self.entries.get(name, EMPTY)
        for parent in parents_of(layer.data):
            self._add_ancestors(parent, (*heirs, name), layers)
        layers[name] = layer

    def _check_entry(self, name: str) -> bool:
        """Whether the entry and its ancestors are sound and known; if not, the reason becomes a problem."""
        layer = self.entries[name]
        is_sound = not self.unsound & {name, EVERY}
        for keys in _INHERITS:
            own = len(keys) == 1
            for parent in fixed_parents(layer.data if own else layer.data.get("job")):
                ancestors: dict[str, SettingsLayer] = {}
                try:
                    # What a job inherits may be the entry itself, which is no circle.
                    self._add_ancestors(parent, (name,) if own else (), ancestors)
                    is_sound = is_sound and not self.unsound & set(ancestors)
                except Mistake as error:
                    is_sound = False
                    # An unknown name further up is reported for the entry that has it.
                    if parent not in self.entries or isinstance(error, Circle):
                        self.problems.add(nearest_place(layer.places, keys), str(error))
        return is_sound

    # --- files

    def include(self, file: FilePath, shown: str, chain: tuple[FilePath, ...]) -> None:
        """Lay ``file`` over what is known, after all that it includes. The files ``chain`` include it."""
        key = file.resolve()
        if key not in self.documents:
            self.documents[key] = None
            with self.problems.collecting():
                self.documents[key] = new = read(file, shown)
                self.problems.extend(new.problems)
                self._check(new)
        document = self.documents[key]
        if document is None:
            self.whole = False
            return
        include = document.data.get("include")
        for index, written in enumerate(listed(include)):
            path: Path = ("include", index) if isinstance(include, list) else ("include",)
            if isinstance(written, str):
                where = nearest_place(document.places, path)
                self._include_written(written, document, where, (*chain, key))
        for name, layer in _entries(document):
            self.lay(name, layer)

    def _include_written(
        self, written: str, document: Document, where: Where | None, chain: tuple[FilePath, ...]
    ) -> None:
        """Include the file that ``include: WRITTEN`` means in ``document``, or add a problem."""
        folder, own_name = FilePath(document.file).parent, FilePath(document.file).name
        found = _find(written, folder)
        if found is None:
            names = (str(FilePath(file).name) for file in _yaml_files(folder / written))
            others = (name for name in names if name != own_name)
            hint = meant(written, [*definitions.shipped_suites(), *others])
            self.problems.add(where, f"there is no file {written} to include{hint}")
            self.whole = False
        elif found.resolve() in chain:
            files = (*chain[chain.index(found.resolve()) :], found.resolve())
            circle = " includes ".join(path.name for path in files)
            self.problems.add(where, f"goes round in a circle: {circle}")
        else:
            self.include(found, normpath(found), chain)

    def _check(self, document: Document) -> None:
        for name, value in document.data.items():
            found = list(_mistakes(name, value))
            self.problems.add_below(document.places, (name,), found)
            if found and name in TOP:
                self.whole = False
                continue
            keys = [path[1:] if path[:1] == ("job",) else path for path, _ in found]
            if any(not path or path[0] in _SHAPING for path in keys):
                self.unsound.add(name)

    # --- definitions

    def definition(self, written: str, where: Where | None) -> tuple[FilePath, SettingsLayer]:
        """The folder that ``definition: WRITTEN`` means in the file of ``where``, and its settings.

        Raises Mistake if there is none, and SuiteError, the first time only, for mistakes in its settings.
        """
        beside = FilePath(where.file).parent if where else FilePath()
        try:
            folder = definitions.find(written, beside)
        except LookupError as error:
            raise Mistake(str(error)) from None
        if folder not in self.definitions:
            self.definitions[folder] = EMPTY  # should the next line raise
            self.definitions[folder] = _definition(folder)
        return folder, self.definitions[folder]


def _definition(folder: FilePath) -> SettingsLayer:
    """The settings of a definition, those of its ``benchmark.yaml`` over those that its files imply."""
    definition = definitions.read(folder)
    file = str(definition.file)
    places = {
        path: Where(file, definition.lines.get(str(path[0]), 1), ".".join(map(str, path)))
        for path in _paths(definition.settings)
    }
    implied = SettingsLayer(dict(definition.settings), places)
    if definition.file.name != definitions.YAML:
        return implied
    document = read(definition.file, file)
    found = ProblemList(document.problems)
    found.add_below(document.places, (), problems(document.data, DefinitionKeys))
    found.check()
    return SettingsLayer(document.data, document.places).over(implied, unite=False)


def _paths(settings: Any, path: Path = ()) -> Iterator[Path]:
    """The keys that lead to each value in ``settings``."""
    for key, value in settings.items() if isinstance(settings, dict) else ():
        yield (*path, key)
        yield from _paths(value, (*path, key))


def parents_of(settings: Any) -> list[str]:
    """The names under ``inherits``."""
    written = settings.get("inherits") if isinstance(settings, dict) else None
    return [str(name) for name in listed(written)]


def fixed_parents(settings: Any) -> list[str]:
    """The names under ``inherits`` that have no placeholders."""
    return [name for name in parents_of(settings) if "{" not in name]


# --- files --------------------------------------------------------------------------------------------


def read_library(file: str | FilePath, problem_list: ProblemList) -> Library:
    """Read ``file`` (or the shipped suite of that name) and what it includes, and check each key.

    Mistakes are added to ``problem_list``. Raises SuiteError if there is no such file.
    """
    found = _find(str(file), FilePath())
    if found is None:
        hint = meant(str(file), [*definitions.shipped_suites(), *_yaml_files(FilePath(file))])
        is_folder = isdir(expanduser(file))
        text = (
            f"{file} is a folder, and a suite is a YAML file{hint}"
            if is_folder
            else f"there is no file {file}, and no shipped suite of that name{hint}"
        )
        raise SuiteError([Problem(None, text)])
    library = Library(found, problem_list)
    library.include(found, str(found), ())
    return library


def _find(written: str, beside: FilePath) -> FilePath | None:
    """The file ``written``, relative to the folder ``beside``, else the shipped suite of that name."""
    path = beside / expanduser(written)
    return path if isfile(path) else definitions.shipped_suites().get(written)


def _yaml_files(path: FilePath) -> list[str]:
    """The YAML files in the folder of ``path``, for a hint."""
    folder = path.expanduser().parent
    return sorted(str(file) for file in folder.glob("*.y*ml")) if folder.is_dir() else []


def _mistakes(name: str, value: Any) -> Iterator[tuple[Path, str]]:
    """What is wrong with the ``value`` that a file has under ``name``, and where below it."""
    if name in TOP:
        yield from ((path[1:], text) for path, text in problems({name: value}, TopKeys))
    elif value is not None and not isinstance(value, dict):
        near = nearest(name, TOP)
        hint = f"; did you mean {near}?" if near else ""
        yield (), f"should be a map of a benchmark's keys, not {kind(value)}{hint}"
    elif name != EVERY and not NAME.fullmatch(name):
        yield (), no_name(name)
    else:
        for key in _NOT_OVER_ALL if name == EVERY else ():
            if value and value.get(key) is not None:
                yield (key,), f'has no effect below "*": {key} decides which benchmarks there are'
        yield from problems(value)


def _entries(document: Document) -> Iterator[tuple[str, SettingsLayer]]:
    """Each name of a file with its layer, whose places are relative to the name."""
    places: dict[str, dict[Path, Where]] = {}
    for path, where in document.places.items():
        places.setdefault(str(path[0]), {})[path[1:]] = where
    for name, value in document.data.items():
        if isinstance(value, dict) or (value is None and name not in TOP):
            yield name, SettingsLayer(value, places.get(name, {}))  # type: ignore[arg-type]
