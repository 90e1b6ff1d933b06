"""The source files of a program: what they import, and what is around a line of them."""

from __future__ import annotations

import ast
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from ...errors import UserError

MOST_MODULES = 1000
"""Modules of a program that are read at most, those nearest to its start first."""

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITION = (*FUNCTION, ast.ClassDef)
LOOP = (ast.For, ast.AsyncFor, ast.While)

Loop = ast.For | ast.AsyncFor | ast.While
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class SourceFile:
    """A module of the program."""

    name: str
    """Its name in selectors: empty for the one that is started."""
    path: tuple[str, ...]
    """The parts of its full name, to which its relative imports refer."""
    file: Path
    shown: str
    """The file relative to the program's folder, for messages."""
    text: str
    tree: ast.Module

    def scope(self, line: int) -> tuple[Scope, str]:
        """The innermost function around ``line``, or the module; and its selector."""
        scope: Scope = self.tree
        names: list[str] = []
        path = ""
        for node in self._statements_around(line):
            if isinstance(node, DEFINITION):
                names.append(node.name)
            if isinstance(node, FUNCTION):
                scope, path = node, "/".join(names)
        return scope, f"/{self.name}/{path}"

    def loop(self, line: int, *others: int) -> Loop | None:
        """The innermost loop of the function that ``line`` and ``others`` are in around them, or None."""
        innermost: Loop | None = None
        for node in self._statements_around(line, *others):
            if isinstance(node, FUNCTION):
                innermost = None
            elif isinstance(node, LOOP):
                innermost = node
        return innermost

    def owner(self, line: int) -> ast.ClassDef | None:
        """The innermost class around ``line``, or None."""
        classes = [node for node in self._statements_around(line) if isinstance(node, ast.ClassDef)]
        return classes[-1] if classes else None

    def _statements_around(self, *lines: int) -> list[ast.stmt]:
        """The statements that contain all lines, the outermost first: ``ast.walk`` is breadth-first."""
        first, last = min(lines), max(lines)
        return [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.stmt)
            and node.lineno <= first
            and last <= (node.end_lineno or 0)
        ]

    def show(self, at: int | Loop) -> str:
        """A loop or a line as text: ``train.py:42  for x, y in loader:``."""
        if isinstance(at, int):
            line, text = at, self.text.splitlines()[at - 1].strip()
        elif isinstance(at, ast.While):
            line, text = at.lineno, f"while {ast.unparse(at.test)}:"
        else:
            target = ast.unparse(at.target)
            if isinstance(at.target, ast.Tuple) and target.startswith("("):
                target = target[1:-1]
            line, text = at.lineno, f"for {target} in {ast.unparse(at.iter)}:"
        return f"{self.shown}:{line}  {text}"


def read(file: Path, roots: Sequence[Path], main: Path) -> SourceFile | None:
    """Read a module of the program whose folders are ``roots``, and which the file ``main`` starts.

    None if ``file`` is outside of these folders or in an installed package, or does not parse.
    """
    file = file.resolve()
    within = [root for root in (each.resolve() for each in roots) if file.is_relative_to(root)]
    if not within or "site-packages" in file.relative_to(within[0]).parts:
        return None
    try:
        with tokenize.open(file) as opened:  # in the encoding of its cookie
            text = opened.read()
        tree = ast.parse(text, str(file))
    except (OSError, SyntaxError, ValueError):
        return None
    parts = file.relative_to(max(within, key=lambda root: len(root.parts))).with_suffix("").parts
    path = parts[:-1] if parts[-1] == "__init__" else parts
    name = "" if file == main.resolve() else ".".join(path)
    shown = file.relative_to(min(within, key=lambda root: len(root.parts)))
    return SourceFile(name, path, file, str(shown), text, tree)


def check(main: Path, shown: str) -> None:
    """Raise UserError if the file that starts a program does not parse; ``shown`` is its name there."""
    try:
        ast.parse(main.read_bytes(), str(main))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        what = getattr(error, "msg", error)
        version = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
        raise UserError(f"{shown}:{line}: does not parse in {version}: {what}") from None


def own_files(main: Path, roots: Sequence[Path]) -> tuple[list[SourceFile], set[str]]:
    """The program's own modules, those nearest to its start first, and the top-level names of other modules
    that it imports, without those of Python.
    """
    files: list[SourceFile] = []
    installed: set[str] = set()
    waiting, known = [main], {main.resolve()}
    while waiting and len(files) < MOST_MODULES:
        source = read(waiting.pop(0), roots, main)
        if source is None:
            continue
        files.append(source)
        for name in _imports(source):
            top = name.partition(".")[0]
            file = find(name, roots)
            if file is not None and file.resolve() not in known:
                known.add(file.resolve())
                waiting.append(file)
            elif file is None and find(top, roots) is None and top not in sys.stdlib_module_names:
                installed.add(top)
    return files, installed


def find(name: str, roots: Iterable[Path]) -> Path | None:
    """The file of the module ``name`` in the first of ``roots`` that has it, or None."""
    for root in roots:
        path = root.joinpath(*name.split("."))
        for file in (path / "__init__.py", path.with_name(path.name + ".py")):
            if name and file.is_file():
                return file
    return None


def _imports(source: SourceFile) -> Iterator[str]:
    """The names of all modules that a file may import, with the packages around them.

    A name that is imported from a module may be a module, too.
    """
    names: list[str] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                drop = node.level - (source.file.name == "__init__.py")
                above = source.path[: len(source.path) - drop]
                base = ".".join(filter(None, [*above, base]))
            names += [base, *(f"{base}.{alias.name}" for alias in node.names if base)]
    for name in names:
        parts = name.split(".")
        yield from (".".join(parts[: n + 1]) for n in range(len(parts)) if parts[0])


def scope_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of functions and classes within it."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, (*DEFINITION, ast.Lambda)):
            yield node
            yield from scope_nodes(node)


def is_backward(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether a node is a call of a method that computes gradients, by its name."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("backward", "manual_backward")
    )
