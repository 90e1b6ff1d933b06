"""What a name of a module stands for, as far as the sources tell: imports, bases, aliases."""

from __future__ import annotations

import ast

from .inventory import FUNCTION, dotted
from .locate import Program, Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Way = tuple[str, tuple[str, ...]]
    """A module and a path in it."""


def statement(source: Source, line: int) -> ast.stmt | None:
    """The innermost statement at a line that stands in no function and no class."""
    found = None
    for node in _module_level(ast.parse(source.text).body):
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            found = node
    return found


def is_closed(node: ast.stmt | None) -> bool:
    """Whether all that a definition holds stands in it."""
    if isinstance(node, FUNCTION):
        return not node.decorator_list
    return isinstance(node, ast.ClassDef) and not (
        node.bases or node.keywords or node.decorator_list
    )


def ways(
    program: Program, source: Source, path: tuple[str, ...], node: ast.stmt | None
) -> Iterator[Way]:
    """Where the statement that binds the first name of a path says that the name comes from."""
    first, *rest = path
    if isinstance(node, ast.ImportFrom):
        module = _absolute(node, source)
        names = [a.name for a in node.names if (a.asname or a.name) == first]
        yield from (_split(program, module, (name, *rest)) for name in names)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname == first:
                yield _split(program, alias.name, tuple(rest))
            elif alias.asname is None and alias.name.partition(".")[0] == first:
                yield _split(program, first, tuple(rest))
    elif isinstance(node, ast.ClassDef):
        bases = [dotted(base) for base in node.bases]
        yield from ((source.module, (*b.split("."), *rest)) for b in bases if b)
    elif isinstance(node, ast.Assign) and dotted(node.value):
        yield source.module, (*dotted(node.value).split("."), *rest)


def imported(program: Program, source: Source, path: tuple[str, ...]) -> Iterator[Way]:
    """Where the import statements of the module level say that a name comes from, run or not."""
    for node in _module_level(ast.parse(source.text).body):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ways(program, source, path, node)


def starred(program: Program, source: Source, path: tuple[str, ...]) -> Iterator[Way]:
    """Where a name may come from that nothing binds: the modules of `from … import *`."""
    for node in _module_level(ast.parse(source.text).body):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            yield _split(program, _absolute(node, source), path)


def on_demand(source: Source, name: str) -> int:
    """The line of the `__getattr__` that makes a name which the module does not bind; 0 for none."""
    found = 0
    for node in _module_level(ast.parse(source.text).body):
        bound = _bound(node)
        if name in bound:
            return 0
        if "__getattr__" in bound:
            found = node.lineno
    return found


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement defines, imports or assigns."""
    if isinstance(node, (*FUNCTION, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    names = [one for one in ast.walk(node) if isinstance(one, ast.Name)]
    return {one.id for one in names if isinstance(one.ctx, ast.Store)}


def _module_level(body: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (*FUNCTION, ast.ClassDef, ast.expr)):
            yield from _module_level(ast.iter_child_nodes(node))


def _absolute(node: ast.ImportFrom, source: Source) -> str:
    if not node.level:
        return node.module or ""
    parts = source.name.split(".")
    parts = parts[: len(parts) - node.level + source.package]
    return ".".join([*parts, *(node.module or "").split(".")]).rstrip(".")


def _split(program: Program, module: str, path: tuple[str, ...]) -> Way:
    """Move leading names that are submodules from the path to the module."""
    while path and program.knows(f"{module}.{path[0]}"):
        module, path = f"{module}.{path[0]}", path[1:]
    return module, path
