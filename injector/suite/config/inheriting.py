"""What a benchmark gets from its parents, and from its definition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from typing import Any

from ..words import meant
from . import definitions
from .including import DEFAULTS, EVERY, Library
from .keys import DefinitionKeys
from .keys import problems as problems_of
from .layers import EMPTY, Layer, listed
from .problems import Mistake, Path, ProblemList, Where, nearest_place
from .reading import read


class Ancestry:
    """Finds the layers below an entry."""

    def __init__(self, library: Library, problems: ProblemList) -> None:
        self.library = library
        self.problems = problems
        self.definitions: dict[FilePath, Layer] = {}

    def broken(self) -> set[str]:
        """The entries whose ancestors cannot be found; why is noted, at each that says it wrong."""
        return {name for name in self.library.entries if not self.sound(name)}

    def sound(self, name: str) -> bool:
        layer = self.library.entries[name]
        fine = not self.library.unsound & {name, EVERY}
        for keys in (("inherits",), ("job", "inherits")):
            data = layer.data if len(keys) == 1 else layer.data.get("job") or {}
            for parent in _fixed(data):
                above: dict[str, Layer] = {}
                try:
                    self.climb(parent, (name,) if len(keys) == 1 else (), above)
                    fine = fine and not self.library.unsound & set(above)
                except Mistake as error:
                    fine = False
                    if parent not in self.library.entries or "circle" in str(error):
                        self.problems.add(nearest_place(layer.places, keys), str(error))
        return fine

    def parents(self, names: Iterable[str]) -> list[Layer]:
        """The layers of ``names`` and all of their ancestors, each once, the lowest first.

        An ancestor stands below every heir; of several parents a later one stands above.

        Raises:
            Mistake: a name that no entry has, or that is its own ancestor.
        """
        found: dict[str, Layer] = {}
        for name in names:
            self.climb(name, (), found)
        return list(found.values())

    def climb(self, name: str, chain: tuple[str, ...], found: dict[str, Layer]) -> None:
        if name in chain:
            circle = " inherits ".join((*chain[chain.index(name) :], name))
            raise Mistake(f"goes round in a circle: {circle}")
        if name in found:
            return
        layer = self.library.entries.get(name)
        if layer is None:
            if name != DEFAULTS:
                raise Mistake(f"no entry is called {name}{meant(name, self.library.entries)}")
            layer = EMPTY
        for parent in listed(layer.data.get("inherits")):
            self.climb(str(parent), (*chain, name), found)
        found[name] = layer

    def definition(self, written: str, where: Where | None) -> tuple[FilePath, Layer]:
        """The folder that ``definition: WRITTEN`` means, and what is said there.

        Raises:
            Mistake: there is none.
            SuiteError: what is said there is wrong.
        """
        beside = FilePath(where.file).parent if where else FilePath()
        try:
            folder = definitions.find(written, beside)
        except LookupError as error:
            raise Mistake(str(error)) from None
        if folder not in self.definitions:
            self.definitions[folder] = EMPTY
            self.definitions[folder] = self.described(folder)
        return folder, self.definitions[folder]

    def described(self, folder: FilePath) -> Layer:
        found = definitions.read(folder)
        file = str(found.file)
        implied = Layer(
            dict(found.settings),
            {
                path: Where(file, found.lines.get(str(path[0]), 1), ".".join(map(str, path)))
                for path in _paths(found.settings)
            },
        )
        if found.file.name != definitions.YAML:
            return implied
        document = read(found.file, file)
        problems = ProblemList()
        problems.extend(document.problems)
        problems.add_below(document.places, (), problems_of(document.data, DefinitionKeys))
        problems.check()
        return Layer(document.data, document.places).over(implied, unite=False)


def _fixed(data: Any) -> list[str]:
    """The parents whose names do not depend on values."""
    written = listed(data.get("inherits")) if isinstance(data, dict) else []
    return [str(each) for each in written if "{" not in str(each)]


def _paths(settings: Any, path: Path = ()) -> Iterator[Path]:
    for key, value in settings.items() if isinstance(settings, dict) else ():
        yield (*path, key)
        yield from _paths(value, (*path, key))
