"""Where requests would land in a program, found out without running any of it."""

from __future__ import annotations

import ast
import os
import sys
from functools import partial
from types import FunctionType
from typing import Any

from .inventory import FUNCTION, dotted
from .locate import NoSource, Program, Source
from .nearest import explain
from .request import Landing, Miss, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_HOPS = 8
"""How many imports and base classes are followed from a name to what it stands for."""

_NO_CODE = "has no Python source, so only #enter, #exit, #error and #value can be had of it"
_WRAPPABLE = ("#enter", "#exit", "#error", "#value", "#scope")


def survey(
    program: Program, asked: Iterable[tuple[Request, Any]]
) -> tuple[list[Landing], list[Miss]]:
    """Landings and misses of requests, each with the object it is for or None.

    Names are followed through imports and base classes as far as the sources tell; what only the
    running program decides comes back as a landing of kind ``binding``.
    """
    found: list[Landing | Miss] = []
    by_module: dict[str, list[Request]] = {}
    for request, target in asked:
        if target is None:
            by_module.setdefault(request.module, []).append(request)
        else:
            found += _in_object(program, request, target)
    for module, requests in by_module.items():
        found += _in_module(program, module, requests, 0)
    landings = [one for one in found if isinstance(one, Landing)]
    met = {landing.request.hook for landing in landings}
    misses = [one for one in found if isinstance(one, Miss)]
    return landings, [miss for miss in misses if miss.request.hook not in met]


def _in_module(
    program: Program, module: str, requests: list[Request], hops: int
) -> Iterator[Landing | Miss]:
    try:
        source = program.find(module)
    except NoSource:
        for request in requests:
            yield _wrapped(request, module, ".".join(request.path))
        return
    if source is None:
        for request in requests:
            yield explain(request, program)
        return
    yield from _in_source(program, source, requests, hops)


def _in_source(
    program: Program, source: Source, requests: list[Request], hops: int
) -> Iterator[Landing | Miss]:
    from . import transform

    try:
        text = source.text
        tree = ast.parse(text, source.file)
        landings, left = transform.explain(
            tree, requests, module=source.module, filename=source.file, source=text
        )
    except (SyntaxError, ValueError) as error:
        for request in requests:
            yield Miss(request, f"{source.file} does not parse: {error}")
        return
    for landing in landings:
        if landing.kind == "binding" and hops < MOST_HOPS:
            yield from _follow(program, source, landing, hops + 1)
        else:
            yield landing
    for request, reason in left:
        miss = explain(request, program)
        yield miss._replace(reason=reason) if reason else miss


def _wrapped(request: Request, module: str, name: str) -> Landing | Miss:
    if request.variable not in _WRAPPABLE:
        return Miss(request, f"{module}.{name} {_NO_CODE}")
    return Landing(request, module, name, "", 0, "", "wrapped")


# --- objects that are loaded already -------------------------------------------------------------


def _in_object(program: Program, request: Request, target: Any) -> Iterator[Landing | Miss]:
    function = _function_of(target)
    source = _source_of(function) if function is not None else None
    if function is None or source is None:
        thing = target if hasattr(target, "__qualname__") else type(target)
        yield _wrapped(request, thing.__module__ or "", thing.__qualname__)
        return
    path = tuple(part for part in function.__qualname__.split(".") if part != "<locals>")
    inside = request._replace(module=source.module, path=path)
    for one in _in_source(program, source, [inside], MOST_HOPS):
        yield one._replace(request=request)


def _function_of(target: Any) -> FunctionType | None:
    """The Python function that runs when an object is called, behind decorators and descriptors."""
    for _ in range(MOST_HOPS):
        if isinstance(target, FunctionType) and not hasattr(target, "__wrapped__"):
            return target
        if isinstance(target, type):
            made = (vars(cls).get(name) for name in ("__init__", "__new__") for cls in target.mro())
            inner = next((one for one in made if isinstance(_bare(one), FunctionType)), None)
        elif isinstance(target, partial):
            return None
        else:
            inner = _bare(target)
            if inner is target:
                inner = getattr(type(target), "__call__", None)  # noqa: B004
        if inner is None:
            return None
        target = inner
    return target if isinstance(target, FunctionType) else None


def _bare(thing: Any) -> Any:
    if isinstance(thing, property):
        return thing.fget
    for name in ("__wrapped__", "__func__", "func"):
        inner = getattr(thing, name, None)
        if callable(inner) and not isinstance(thing, (type, partial)):
            return inner
    return thing


def _source_of(function: FunctionType) -> Source | None:
    module = sys.modules.get(function.__module__)
    # What was frozen into the interpreter says so instead of naming its file.
    for file in (function.__code__.co_filename, getattr(module, "__file__", None)):
        if file and os.path.isfile(file) and not file.endswith(".pyc"):
            with open(file, "rb") as stream:
                return Source(function.__module__, file, stream.read())
    return None


# --- names that stand for something defined elsewhere --------------------------------------------


def _follow(
    program: Program, source: Source, landing: Landing, hops: int
) -> Iterator[Landing | Miss]:
    request = landing.request
    misses: list[Miss] = []
    node = _statement(source, landing)
    if _is_closed(node):
        yield explain(request, program)
        return
    ways = list(_ways(program, source, request, node))
    for module, path in ways:
        onward = request._replace(module=module, path=path)
        if module == source.module:
            results = list(_in_source(program, source, [onward], hops))
        elif program.knows(module):
            results = list(_in_module(program, module, [onward], hops))
        else:
            continue
        good = [one._replace(request=request) for one in results if isinstance(one, Landing)]
        if good:
            yield from good
            return
        misses += [one for one in results if isinstance(one, Miss)]
    if misses and len(misses) == len(ways):
        yield misses[0]._replace(request=request)
    else:
        yield landing


def _statement(source: Source, landing: Landing) -> ast.stmt | None:
    """The statement that binds the name."""
    found = None
    for node in _module_level(ast.parse(source.text).body):
        if node.lineno <= landing.line <= (node.end_lineno or node.lineno):
            found = node
    return found


def _is_closed(node: ast.stmt | None) -> bool:
    """Whether all that a definition holds stands in it."""
    if isinstance(node, FUNCTION):
        return not node.decorator_list
    return isinstance(node, ast.ClassDef) and not (
        node.bases or node.keywords or node.decorator_list
    )


def _ways(
    program: Program, source: Source, request: Request, node: ast.stmt | None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Where a binding statement says that the name comes from: module and path."""
    first, *rest = request.path
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


def _split(program: Program, module: str, path: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Move leading names that are submodules from the path to the module."""
    while path and program.knows(f"{module}.{path[0]}"):
        module, path = f"{module}.{path[0]}", path[1:]
    return module, path
