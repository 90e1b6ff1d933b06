"""A file of the program as a syntax tree: what stands around a line, and what one walk through it finds."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import lru_cache

from .module_source import Quiet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class SourcePlace(Protocol):
        """A line of a source file as it was when the program ran."""

        @property
        def file(self) -> str: ...
        @property
        def line(self) -> int: ...
        @property
        def text(self) -> str: ...


LONGEST = 2_000_000
"""The most bytes of a file that is parsed."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
ASSIGNMENTS = (ast.Assign, ast.AnnAssign)
YIELDS = (ast.Yield, ast.YieldFrom)


class ParsedFile:
    """The text of a file as a tree, and what is looked for in the whole tree, found in one walk.

    With a walk by :func:`ast.walk` for each of these, a file of a thousand lines took a third of the time of
    a report.
    """

    def __init__(self, tree: ast.Module, lines: list[str]) -> None:
        self.tree, self.lines = tree, lines
        self.calls: list[ast.Call] = []
        self.assignments: list[ast.Assign | ast.AnnAssign] = []
        self.functions: dict[str, list[str]] = {}
        """By name, the paths of all functions that have it."""
        self.generators: set[str] = set()
        """The names of functions that yield."""
        self._walk()

    def _walk(self) -> None:
        """Visit each node with the scope around it and the path of that, in the order of :func:`ast.walk`."""
        queue: list[tuple[ast.AST, ast.AST, str]] = [(self.tree, self.tree, "")]
        for node, scope, path in queue:
            kind = type(node)
            if kind is ast.Call:
                self.calls.append(node)  # type: ignore[arg-type]
            elif kind in ASSIGNMENTS:
                self.assignments.append(node)  # type: ignore[arg-type]
            elif kind in SCOPES:
                scope = node
                if kind is not ast.Lambda:
                    name = node.name  # type: ignore[attr-defined]
                    if kind is not ast.ClassDef:
                        self.functions.setdefault(name, []).append(path + name)
                    path = f"{path}{name}/"
            elif kind in YIELDS and isinstance(scope, FUNCTIONS):
                self.generators.add(scope.name)
            # Names and constants, which are most of all nodes, have nothing in them.
            if kind is not ast.Name and kind is not ast.Constant:
                for field in node._fields:
                    value = getattr(node, field, None)
                    if isinstance(value, list):
                        queue += [
                            (item, scope, path) for item in value if isinstance(item, ast.AST)
                        ]
                    elif isinstance(value, ast.AST):
                        queue.append((value, scope, path))


@lru_cache(maxsize=4)
def parsed_file(file: str) -> ParsedFile | None:
    """``file`` as a tree; None if it cannot be read, does not parse, or is too long."""
    if not os.path.isfile(file):  # a pipe would be waited for
        return None
    try:
        with open(file, "rb") as stream:
            source = stream.read(LONGEST + 1)
        if len(source) > LONGEST:
            return None
        with Quiet(file):  # the compiler has given its warnings already
            tree = ast.parse(source, file)
        return ParsedFile(tree, source.decode("utf-8", "replace").split("\n"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def forget() -> None:
    """Free the memory of the files that were parsed."""
    parsed_file.cache_clear()


def is_unchanged(lines: list[str], place: SourcePlace) -> bool:
    """Whether the line at ``place`` is what it was when the program ran."""
    return 0 < place.line <= len(lines) and lines[place.line - 1].strip() == place.text


def contains(node: ast.AST, line: int) -> bool:
    last = getattr(node, "end_lineno", None)
    return last is not None and node.lineno <= line <= last  # type: ignore[attr-defined]


def scope_and_loops(tree: ast.Module, line: int) -> tuple[ast.AST, list[ast.stmt]]:
    """The innermost scope around a line (a function, class or the module), and the loops of that scope
    around the line, from outside in.
    """
    scope: ast.AST = tree
    loops: list[ast.stmt] = []
    node: ast.AST | None = tree
    while node is not None:
        children = ast.iter_child_nodes(node)
        node = next((child for child in children if contains(child, line)), None)
        if isinstance(node, SCOPES):
            scope, loops = node, []
        elif isinstance(node, LOOPS):
            loops.append(node)
    return scope, loops


def body_of(file: str, line: int) -> tuple[int, int] | None:
    """The first and the last line of the innermost loop around a line, else of its function.

    None for a line of a module that is in no loop, and if the file cannot be parsed.
    """
    parsed = parsed_file(file)
    scope, loops = scope_and_loops(parsed.tree, line) if parsed else (None, [])
    node = loops[-1] if loops else scope
    if not isinstance(node, (*LOOPS, *FUNCTIONS)):
        return None
    return node.lineno, node.end_lineno or node.lineno


def block_of(file: str, line: int) -> tuple[int, int] | None:
    """The first and the last line of the ``with`` statement that begins at ``line``; None if none does."""
    parsed = parsed_file(file)
    for node in ast.walk(parsed.tree) if parsed else ():
        if isinstance(node, (ast.With, ast.AsyncWith)) and node.lineno == line:
            return node.lineno, node.end_lineno or node.lineno
    return None


def functions_in(node: ast.AST, above: str = "") -> Iterator[tuple[str, Function]]:
    """The functions in ``node``, those in classes and functions included, each with its path from there."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            path = f"{above}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield path, child
            yield from functions_in(child, f"{path}/")
        else:
            yield from functions_in(child, above)


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes in ``node`` that run when it does: not those of functions and classes defined there."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, SCOPES):
            yield child
            yield from inside(child)


def names_in(tree: ast.expr) -> Iterator[str]:
    return (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
