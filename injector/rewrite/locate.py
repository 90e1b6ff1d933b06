"""Where a module's source lies, found without importing anything of the program.

Importing a parent package to find a submodule, as `importlib.util.find_spec` does, would run the program's
code. Here the finder of each path entry looks instead, level by level: first for the package along
`sys.path`, then for the submodule along the package's own path.
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
"""The search for neighbours ends after so many sources: a program's folder may hold its data too."""

_SKIPPED = {"__pycache__", "node_modules", "site-packages", "dist-packages"}


class Source:
    """The source of a module: `file` is where it lies, `data` is its contents.

    `data` is text instead of bytes if a loader of another kind than files has decoded it.
    """

    __slots__ = ("data", "file", "module", "name", "note", "package")

    def __init__(
        self, module: str, file: str, data: bytes | str, package: bool = False, note: str = ""
    ) -> None:
        self.module = module
        self.name = module
        """The name from which relative imports start; for `-m pkg.mod` it differs from `module`."""
        self.file = file
        self.data = data
        self.package = package
        self.note = note
        """Under which condition the program would find it; empty if it surely would."""

    @property
    def text(self) -> str:
        """The decoded source. Raises SyntaxError if the encoding is unknown or wrong."""
        if isinstance(self.data, str):
            return self.data
        from importlib.util import decode_source

        return decode_source(self.data)


class NoSource(Exception):
    """A module that exists and has no Python source, such as an extension. `str` says which."""


class ProgramSources:
    """A program: its main source, and the paths along which it would find its modules."""

    def __init__(self, main: Source | None, path: Sequence[str], folder: str) -> None:
        self.main = main
        self.path = list(path)
        self.folder = folder
        """The folder or archive in which the program's own modules lie."""
        self.package = ""
        """The package in `folder`, if the program is run with `-m package.module`."""
        self._files: list[str] | None = None
        self._found: dict[str, Source | None] = {}

    @classmethod
    def script(cls, target: str) -> ProgramSources:
        """The program in a file, or in a folder or archive with `__main__.py`. Raises FileNotFoundError."""
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
        """The program that `python -m name` runs. Raises ModuleNotFoundError, NoSource."""
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
        """The source of a module, or None if there is none of that name. Raises NoSource.

        A module in the program's folder that is not on its path is taken too, since programs extend
        `sys.path` as they run. The note of the result says so.
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
        """The source of a module in the program's folder and off its path, if there is exactly one."""
        ending = module.replace(".", os.sep)
        endings = (os.sep + ending + ".py", os.sep + os.path.join(ending, "__init__.py"))
        matching = [file for file in self._own_files() if file.endswith(endings)]
        if len(matching) != 1:
            return None
        base = matching[0][: matching[0].rindex(os.sep + ending)]
        note = f"if the program puts {os.path.relpath(base, self.folder)} on sys.path"
        package = matching[0].endswith("__init__.py")
        return _read(module, matching[0], package=package, note=note)

    def neighbours(self, module: str = "__main__") -> list[tuple[str, str]]:
        """The modules of the program's folder, or of a module's top-level package: pairs of name and file."""
        top = self._quietly(module.partition(".")[0]) if module != "__main__" else None
        if top is not None and top.package:
            folder = os.path.dirname(top.file)
            modules = [
                (module_name(os.path.relpath(f, folder), top.module), f) for f in files(folder)
            ]
        else:
            own_files = self._own_files()
            modules = [
                (module_name(os.path.relpath(f, self.folder), self.package), f) for f in own_files
            ]
        return [(name, file) for name, file in modules if name and not self._is_main(file)]

    def _own_files(self) -> list[str]:
        if self._files is None:
            self._files = files(self.folder)
        return self._files

    def _is_main(self, file: str) -> bool:
        return self.main is not None and os.path.realpath(self.main.file) == os.path.realpath(file)

    def _quietly(self, module: str) -> Source | None:
        """The source of a module, or None if there is none or it cannot be read."""
        try:
            return find(module, self.path)
        except (NoSource, OSError):
            return None


def inherited_path() -> list[str]:
    """`sys.path` as a program started by this interpreter gets it, without our own first entry."""
    # Python puts the folder of the script, or the current one, in front (not with -P, or -I): that entry
    # belongs to this process, and not to the program.
    script_folder = (
        os.path.dirname(os.path.realpath(sys.argv[0])) if sys.argv and sys.argv[0] else ""
    )
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    first = sys.path[:1]
    if first and first[0] not in inherited and first[0] in ("", script_folder, os.getcwd()):
        return sys.path[1:]
    return list(sys.path)


def find(module: str, path: Sequence[str]) -> Source | None:
    """The source of a module along `path`, or None if there is none. Raises NoSource.

    Finders of editable installs on `sys.meta_path` look for top-level names only: below that level they may
    import the package.
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
    """The spec of a module along `path`. Folders without code join into a namespace package (PEP 420)."""
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
    """The finder of one path entry, if there is one."""
    from pkgutil import get_importer

    try:
        # Finders are cached by path: that of a relative one would go on to look in the former current folder.
        return get_importer(os.path.abspath(entry))
    except OSError:
        return None


def _namespace(name: str, portions: list[str]) -> ModuleSpec:
    from importlib.machinery import ModuleSpec

    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = portions
    return spec


def _elsewhere(name: str) -> ModuleSpec | None:
    """The spec of a top-level module from the finders on `sys.meta_path` that look along no path."""
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
    """The source that a spec leads to. Raises NoSource."""
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
    """The source of a module in a loader's own storage, such as an archive; None if it has none."""
    try:
        if file.endswith(".py") and hasattr(loader, "get_data"):
            data: bytes | str | None = loader.get_data(file)
            return data
        return loader.get_source(name) if hasattr(loader, "get_source") else None
    except (ImportError, OSError, UnicodeError):
        return None


def _read(module: str, file: str, package: bool = False, note: str = "") -> Source:
    with open(file, "rb") as stream:
        return Source(module, file, stream.read(), package, note)


def module_files(package: str, path: Sequence[str]) -> list[str]:
    """The names of all modules of a package, itself first; none if it is no package. Raises NoSource."""
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
    """The name of a file as a reader knows it: below the current folder, or below an entry of `sys.path`."""
    relative = os.path.relpath(file)
    if not relative.startswith(os.pardir):
        return relative
    above = [
        entry for entry in sys.path if entry and file.startswith(entry.rstrip(os.sep) + os.sep)
    ]
    return os.path.relpath(file, max(above, key=len)) if above else file


def files(folder: str) -> list[str]:
    """The Python sources under a folder. Environments and hidden folders are left out."""
    sources: list[str] = []
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _SKIPPED
            and not name.startswith(".")
            and not os.path.isfile(os.path.join(where, name, "pyvenv.cfg"))
        )
        sources += [os.path.join(where, name) for name in sorted(names) if name.endswith(".py")]
        if len(sources) >= MOST_FILES:
            break
    return sources[:MOST_FILES]


def module_name(relative: str, prefix: str) -> str:
    """The dotted name of a file below a path entry; empty if it can have none."""
    parts = relative[: -len(".py")].split(os.sep)
    if parts[-1] == "__init__":
        parts.pop()
    if prefix:
        parts.insert(0, prefix)
    return ".".join(parts) if all(part.isidentifier() for part in parts) else ""
