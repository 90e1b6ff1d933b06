"""Where a module's source lies, found without importing anything of the program.

Importing a parent package to find a submodule, as `importlib.util.find_spec` does, would run the
program's code. Here each path entry's own finder looks instead, level by level.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any

    from _typeshed.importlib import PathEntryFinderProtocol

MOST_FILES = 2000
"""A program's folder may hold its data: the search for neighbours ends after so many sources."""

_SKIPPED = {"__pycache__", "node_modules", "site-packages", "dist-packages"}


class Source:
    """A module's source: `file` is where it lies, `data` what it holds.

    `data` is text instead of bytes where a loader of another kind than files has decoded it.
    """

    __slots__ = ("data", "file", "module", "name", "note", "package")

    def __init__(
        self, module: str, file: str, data: bytes | str, package: bool = False, note: str = ""
    ) -> None:
        self.module = module
        self.name = module
        """What relative imports start from; differs from `module` for `-m pkg.mod`."""
        self.file = file
        self.data = data
        self.package = package
        self.note = note
        """What is uncertain about it, in words; mostly nothing."""

    @property
    def text(self) -> str:
        """The decoded source. Raises SyntaxError where the encoding is unknown or wrong."""
        if isinstance(self.data, str):
            return self.data
        from importlib.util import decode_source

        return decode_source(self.data)


class NoSource(Exception):
    """A module that exists and has no Python source, such as an extension; `str` says which."""


class ProgramSources:
    """A program by name: its main source and the paths along which it would find its modules."""

    def __init__(self, main: Source | None, path: Sequence[str], folder: str) -> None:
        self.main = main
        self.path = list(path)
        self.folder = folder
        """Folder or archive that the program's own modules lie in."""
        self.package = ""
        """The package that `folder` is, when it is run with -m."""
        self._files: list[str] | None = None
        self._found: dict[str, Source | None] = {}

    @classmethod
    def script(cls, target: str) -> ProgramSources:
        """A file, or a folder or archive with `__main__.py`. Raises FileNotFoundError."""
        from zipfile import is_zipfile

        if os.path.isfile(target) and not is_zipfile(target):
            folder = os.path.dirname(os.path.realpath(target))
            return cls(_read("__main__", target), [folder, *inherited_path()], folder)
        if not os.path.exists(target):
            raise FileNotFoundError(f"no such file: {target}")
        path = [target, *inherited_path()]
        main = find("__main__", [target])
        if main is None:
            raise FileNotFoundError(f"no __main__.py in {target}")
        return cls(main, path, target)

    @classmethod
    def module(cls, name: str) -> ProgramSources:
        """What `python -m name` runs. Raises ModuleNotFoundError, NoSource."""
        path = [os.getcwd(), *inherited_path()]
        main = find(name, path)
        if main is None or main.package:
            main = find(f"{name}.__main__", path)
        if main is None:
            raise ModuleNotFoundError(f"no module named {name} can be run with -m")
        parts = main.module.split(".")
        folder = main.file
        for _ in parts:
            folder = os.path.dirname(folder)
        top = parts[0] if len(parts) > 1 else ""
        program = cls(main, path, os.path.join(folder, top) if top else folder)
        program.package, main.module = top, "__main__"
        return program

    def find(self, module: str) -> Source | None:
        """The source of a module, None if there is none of that name. Raises NoSource.

        A module that lies in the program's folder, though not on its path, is taken too: programs
        like to extend `sys.path` as they go. The result then says so in its note.
        """
        if module == "__main__":
            return self.main
        if module not in self._found:
            self._found[module] = find(module, self.path) or self._strayed(module)
        return self._found[module]

    def knows(self, module: str) -> bool:
        """Whether there is a module of that name, with source or without."""
        try:
            return find(module, self.path) is not None
        except NoSource:
            return True

    def _strayed(self, module: str) -> Source | None:
        ending = module.replace(".", os.sep)
        endings = (os.sep + ending + ".py", os.sep + os.path.join(ending, "__init__.py"))
        found = [file for file in self._own_files() if file.endswith(endings)]
        if len(found) != 1:
            return None
        base = found[0][: found[0].rindex(os.sep + ending)]
        note = f"if the program puts {os.path.relpath(base, self.folder)} on sys.path"
        package = found[0].endswith("__init__.py")
        return _read(module, found[0], package=package, note=note)

    def neighbours(self, module: str = "__main__") -> list[tuple[str, str]]:
        """The modules of the program's folder, or of a module's top-level package: name, file."""
        top = self._quietly(module.partition(".")[0]) if module != "__main__" else None
        if top is not None and top.package:
            folder = os.path.dirname(top.file)
            found = [
                (module_name(os.path.relpath(f, folder), top.module), f) for f in files(folder)
            ]
        else:
            own = self._own_files()
            found = [(module_name(os.path.relpath(f, self.folder), self.package), f) for f in own]
        return [(name, file) for name, file in found if name and not self._is_main(file)]

    def _own_files(self) -> list[str]:
        if self._files is None:
            self._files = files(self.folder)
        return self._files

    def _is_main(self, file: str) -> bool:
        return self.main is not None and os.path.realpath(self.main.file) == os.path.realpath(file)

    def _quietly(self, module: str) -> Source | None:
        try:
            return find(module, self.path)
        except (NoSource, OSError):
            return None


def inherited_path() -> list[str]:
    """`sys.path` as a program started by this interpreter gets it, without its own first entry."""
    own = os.path.dirname(os.path.realpath(sys.argv[0])) if sys.argv and sys.argv[0] else ""
    kept = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    first = sys.path[:1]
    if first and first[0] not in kept and first[0] in ("", own, os.getcwd()):
        return sys.path[1:]
    return list(sys.path)


def find(module: str, path: Sequence[str]) -> Source | None:
    """The source of a module along `path`, None if there is none. Raises NoSource.

    Editable installs' finders on `sys.meta_path` look for top-level names only: what they do
    below that level may import.
    """
    if module in sys.builtin_module_names:
        raise NoSource(f"{module} has no Python source (built in)")
    spec = _spec(module, path)
    return None if spec is None else _source(spec)


def _spec(module: str, path: Sequence[str]) -> ModuleSpec | None:
    """What the finders know of a module along `path`."""
    spec: ModuleSpec | None = None
    search: Sequence[str] | None = path
    name = ""
    for part in module.split("."):
        if search is None:
            return None
        name = f"{name}.{part}" if name else part
        spec = _on_path(name, search) or (_elsewhere(name) if name == part else None)
        if spec is None:
            return None
        search = spec.submodule_search_locations
    return spec


def _on_path(name: str, path: Iterable[str]) -> ModuleSpec | None:
    portions: list[str] = []
    for entry in path:
        finder = _finder(entry)
        spec = finder.find_spec(name) if finder is not None else None
        if spec is None:
            continue
        if spec.loader is not None:
            return spec
        portions += spec.submodule_search_locations or []
    if not portions:
        return None
    return _namespace(name, portions)


def _finder(entry: str) -> PathEntryFinderProtocol | None:
    from pkgutil import get_importer

    try:
        # Finders are kept by path, and a relative one would still look where we were before.
        return get_importer(os.path.abspath(entry))
    except OSError:
        return None


def _namespace(name: str, portions: list[str]) -> ModuleSpec:
    from importlib.machinery import ModuleSpec

    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = portions
    return spec


def _elsewhere(name: str) -> ModuleSpec | None:
    from importlib.machinery import FrozenImporter, PathFinder

    for finder in sys.meta_path:
        # The frozen standard library lies on the path too, with its source.
        if finder in (PathFinder, FrozenImporter) or not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec(name, None)
        if spec is not None:
            return spec
    return None


def _source(spec: ModuleSpec) -> Source:
    package = spec.submodule_search_locations is not None
    loader, file = spec.loader, spec.origin
    if loader is None:
        raise NoSource(f"{spec.name} is a namespace package: it has no code of its own")
    if spec.has_location and file and os.path.isfile(file) and file.endswith((".py", ".pyw")):
        return _read(spec.name, file, package=package)
    data = _data_of(loader, spec.name, file or "")
    if data is None:
        raise NoSource(f"{spec.name} has no Python source ({file or 'compiled'})")
    return Source(spec.name, file or spec.name, data, package)


def _data_of(loader: Any, name: str, file: str) -> bytes | str | None:
    try:
        if file.endswith(".py") and hasattr(loader, "get_data"):
            found: bytes | str | None = loader.get_data(file)
            return found
        return loader.get_source(name) if hasattr(loader, "get_source") else None
    except (ImportError, OSError, UnicodeError):
        return None


def _read(module: str, file: str, package: bool = False, note: str = "") -> Source:
    with open(file, "rb") as stream:
        return Source(module, file, stream.read(), package, note)


def module_files(package: str, path: Sequence[str]) -> list[str]:
    """The names of a package's modules, itself first; of nothing else, none. Raises NoSource."""
    try:
        source = find(package, path)
        folders = [os.path.dirname(source.file)] if source is not None and source.package else []
    except NoSource:  # a namespace package has its folders all the same
        spec = _spec(package, path)
        locations = (spec and spec.submodule_search_locations) or ()
        folders = [folder for folder in locations if os.path.isdir(folder)]
        if not folders:
            raise
    relative = [os.path.relpath(file, folder) for folder in folders for file in files(folder)]
    names = [module_name(one, package) for one in relative]
    return [name for name in dict.fromkeys(names) if name]


def display(file: str) -> str:
    """A file's name as a reader knows it: below the current folder, or below a `sys.path` entry."""
    relative = os.path.relpath(file)
    if not relative.startswith(os.pardir):
        return relative
    above = [
        entry for entry in sys.path if entry and file.startswith(entry.rstrip(os.sep) + os.sep)
    ]
    return os.path.relpath(file, max(above, key=len)) if above else file


def files(folder: str) -> list[str]:
    """The Python sources under a folder, environments and hidden folders left out."""
    found: list[str] = []
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _SKIPPED
            and not name.startswith(".")
            and not os.path.isfile(os.path.join(where, name, "pyvenv.cfg"))
        )
        found += [os.path.join(where, name) for name in sorted(names) if name.endswith(".py")]
        if len(found) >= MOST_FILES:
            break
    return found[:MOST_FILES]


def module_name(relative: str, prefix: str = "") -> str:
    """The dotted name of a file below a path entry, empty if it can have none."""
    parts = relative[: -len(".py")].split(os.sep)
    if parts[-1] == "__init__":
        parts.pop()
    if prefix:
        parts.insert(0, prefix)
    return ".".join(parts) if all(part.isidentifier() for part in parts) else ""
