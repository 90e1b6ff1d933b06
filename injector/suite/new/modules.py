"""A program's modules, found by following its imports through its own folders; nothing is run."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MOST = 1000
"""A program of more modules is looked at as far as these, the nearest first."""


@dataclass(frozen=True)
class Module:
    """One source file."""

    name: str
    """As the program knows it: ``__main__`` for the one that is started."""
    file: Path
    tree: ast.Module = field(repr=False)
    distance: int = 0
    """Imports between the program's start and it."""
    package: str = ""
    """What its relative imports start from."""


class Unreadable(Exception):
    """A source file that does not parse; the text says which, where and why."""


@dataclass
class Program:
    """What a program is made of."""

    main: Module
    modules: list[Module]
    """All that it is known to import of its own folders, the nearest first."""
    foreign: dict[str, Path]
    """Names at the top of modules from elsewhere that it imports, with a file that does so."""
    roots: tuple[Path, ...]
    """Where its own modules are looked for."""


def read(main: Path, name: str, roots: Sequence[Path]) -> Program:
    """The program that starts with the file ``main``, which is the module ``name`` if it is one.

    Raises:
        Unreadable: ``main`` does not parse. Others that do not are left out.
    """
    start = _module("__main__", main, 0, _package(name, main))
    program = Program(start, [start], {}, tuple(roots))
    known = {start.name, name}
    waiting = [start]
    while waiting and len(program.modules) < MOST:
        module = waiting.pop(0)
        for wanted in _imported(module):
            file = find(wanted, roots)
            top = wanted.partition(".")[0]
            if file is None and find(top, roots) is None and top not in sys.stdlib_module_names:
                program.foreign.setdefault(top, module.file)
            if file is None or wanted in known or file == start.file:
                continue
            known.add(wanted)
            try:
                found = _module(wanted, file, module.distance + 1, _package(wanted, file))
            except Unreadable:
                continue
            program.modules.append(found)
            waiting.append(found)
    return program


def everything(program: Program) -> Iterator[Module]:
    """The modules in the program's folders that no import was seen to lead to."""
    known = {module.file for module in program.modules}
    for root in program.roots:
        for count, file in enumerate(sorted(root.rglob("*.py"))):
            if count >= MOST:
                return
            name = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            if file in known or not all(part.isidentifier() for part in name.split(".")):
                continue
            known.add(file)
            try:
                yield _module(name, file, MOST, _package(name, file))
            except Unreadable:
                continue


def _module(name: str, file: Path, distance: int, package: str) -> Module:
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise Unreadable(f"{file}:{line}: does not parse: {getattr(error, 'msg', error)}") from None
    except OSError as error:
        raise Unreadable(f"{file}: {error.strerror}") from None
    return Module(name, file, tree, distance, package)


def _package(name: str, file: Path) -> str:
    return name if file.name == "__init__.py" else name.rpartition(".")[0]


def find(name: str, roots: Iterable[Path]) -> Path | None:
    """The file of the module ``name`` below one of ``roots``."""
    if not name:
        return None
    for root in roots:
        path = root.joinpath(*name.split("."))
        for file in (path / "__init__.py", path.with_name(path.name + ".py")):
            if file.is_file():
                return file
    return None


def _imported(module: Module) -> Iterator[str]:
    """Every module that a module may import, packages around it and names from it among them."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(module, node)
            yield from _with_parents(base)
            yield from (f"{base}.{alias.name}" for alias in node.names if base)


def absolute(module: Module, node: ast.ImportFrom) -> str:
    """The module that ``from … import`` names, whole."""
    if not node.level:
        return node.module or ""
    parts = module.package.split(".")
    kept = parts[: len(parts) - node.level + 1]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _with_parents(name: str) -> Iterator[str]:
    parts = [part for part in name.split(".") if part]
    for length in range(1, len(parts) + 1):
        yield ".".join(parts[:length])
