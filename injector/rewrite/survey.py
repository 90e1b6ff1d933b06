"""Where requests would land in a program, found out without running any of it."""

from __future__ import annotations

import ast
import os
import sys
from types import (
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import Any

from .locate import NoSource, ProgramSources, Source
from .method_calls import is_method
from .names import explain, is_closed, on_demand, starred, statement, ways
from .objects import called
from .request import ANYWHERE, Match, Request, Unmatched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .names import Way

MOST_HOPS = 8
"""How many imports and base classes are followed from a name to what it stands for."""

_NO_CODE = "has no Python source, so only #enter, #exit, #error and #value can be had of it"
_WRAPPABLE = ("#enter", "#exit", "#error", "#value", "#scope")


def survey(
    program: ProgramSources, wanted: Iterable[tuple[Request, Any]]
) -> tuple[list[Match], list[Unmatched]]:
    """Matches of requests, and requests without one, each with the object it is for or None.

    Names are followed through imports and base classes as far as the sources tell; what only the
    running program decides comes back as a match of kind ``binding``.
    """
    found: list[Match | Unmatched] = []
    by_module: dict[str, list[Request]] = {}
    for request, target in wanted:
        if is_method(request.variable):
            found += _calls(program, request)
        elif target is None:
            by_module.setdefault(request.module, []).append(request)
        else:
            found += _in_object(program, request, target)
    for module, requests in by_module.items():
        found += _in_module(program, module, requests, 0)
    matches = [one for one in found if isinstance(one, Match)]
    met = {match.request.hook for match in matches}
    unmatched = [one for one in found if isinstance(one, Unmatched)]
    return matches, [failed for failed in unmatched if failed.request.hook not in met]


def _calls(program: ProgramSources, request: Request) -> Iterator[Match | Unmatched]:
    """Where a method is called in the program's own files: those beside it, imported or not."""
    from . import transform

    none = True
    for module in ("__main__", *(name for name, _ in program.neighbours())):
        try:
            source = program.find(module)
            if source is None or str(request.variable) not in source.text:
                continue
            tree, text = ast.parse(source.text, source.file), source.text
        except (NoSource, SyntaxError, ValueError):
            continue
        wanted = [request._replace(module=module, path=ANYWHERE)]
        about = {"module": module, "filename": source.file, "source": text}
        for match in transform.rewrite(tree, wanted, **about)[0]:
            none = False
            yield match._replace(request=request)
    if none:
        yield Unmatched(
            request, f"no call of a method {request.variable} in the program's own files"
        )


def _in_module(
    program: ProgramSources, module: str, requests: list[Request], hops: int
) -> Iterator[Match | Unmatched]:
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
    program: ProgramSources, source: Source, requests: list[Request], hops: int
) -> Iterator[Match | Unmatched]:
    from . import transform

    try:
        text = source.text
        tree = ast.parse(text, source.file)
        matches, left = transform.explain(
            tree, requests, module=source.module, filename=source.file, source=text
        )
    except (SyntaxError, ValueError) as error:
        for request in requests:
            yield Unmatched(request, f"{source.file} does not parse: {error}")
        return
    for match in matches:
        if match.kind == "binding" and hops < MOST_HOPS:
            yield from _follow(program, source, match, hops + 1)
        else:
            yield match
    for request, reason in left:
        found = _starred(program, source, request, hops + 1)
        if found:
            yield from found
            continue
        line = on_demand(source, request.path[0]) if request.path else 0
        if line:
            where = text.split("\n")[line - 1].strip()
            yield Match(request, source.module, "", source.file, line, where, "binding")
            continue
        failed = explain(request, program)
        yield failed._replace(reason=reason) if reason else failed


def _starred(program: ProgramSources, source: Source, request: Request, hops: int) -> list[Match]:
    """What comes by `from module import *`, which does not call the module's `__getattr__`."""
    if not request.path or hops > MOST_HOPS:
        return []
    for way in starred(program, source, request.path):
        found = [
            one
            for one in _along(program, source, request, way, hops)
            if isinstance(one, Match)
            and not (one.kind == "binding" and one.source.startswith("def __getattr__"))
        ]
        if found:
            return found
    return []


def _wrapped(request: Request, module: str, name: str) -> Match | Unmatched:
    if request.variable not in _WRAPPABLE or request.captures:
        return Unmatched(request, f"{module}.{name} {_NO_CODE}")
    return Match(request, module, name, "", 0, "", "wrapped")


# --- objects that are loaded already -------------------------------------------------------------


def _in_object(
    program: ProgramSources, request: Request, target: Any
) -> Iterator[Match | Unmatched]:
    function = called(target)
    source = _source_of(function) if function is not None else None
    if function is None or source is None:
        yield _of_c(request, target)
        return
    path = tuple(part for part in function.__qualname__.split(".") if part != "<locals>")
    inside = request._replace(module=source.module, path=path)
    for one in _in_source(program, source, [inside], MOST_HOPS):
        yield one._replace(request=request)


def _of_c(request: Request, target: Any) -> Match | Unmatched:
    """What has no Python code is wrapped where modules have it under a name."""
    thing = target if hasattr(target, "__qualname__") else type(target)
    if isinstance(target, _DESCRIPTORS):
        owner = target.__objclass__
        where = f"{owner.__module__}.{owner.__qualname__}"
        return Unmatched(request, f"{where}.{target.__name__} is a method of a class made in C")
    return _wrapped(request, getattr(thing, "__module__", None) or "", thing.__qualname__)


_DESCRIPTORS = (MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType)


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
    program: ProgramSources, source: Source, match: Match, hops: int
) -> Iterator[Match | Unmatched]:
    request = match.request
    node = statement(source, match.line)
    if isinstance(node, ast.ClassDef) and len(request.path) == 1:
        yield from _called_class(program, source, request, hops)
        return
    if is_closed(node):
        yield explain(request, program)
        return
    found = list(ways(program, source, request.path, node))
    results = _first(program, source, request, found, hops)
    yield from results if results is not None else [match]


def _called_class(
    program: ProgramSources, source: Source, request: Request, hops: int
) -> Iterator[Match | Unmatched]:
    """A class that is called runs its `__init__`, or else its `__new__`."""
    if request.variable not in _WRAPPABLE:
        yield explain(request, program)
        return
    made = [(source.module, (*request.path, name)) for name in ("__init__", "__new__")]
    results = _first(program, source, request, made, hops) or []
    if any(isinstance(one, Match) for one in results):
        yield from results
    else:
        yield _wrapped(request, source.module, ".".join(request.path))


def _first(
    program: ProgramSources, source: Source, request: Request, found: list[Way], hops: int
) -> list[Match | Unmatched] | None:
    """What comes of the first way that leads somewhere; None if the sources do not tell."""
    unmatched: list[Match | Unmatched] = []
    for module, path in found:
        results = list(_along(program, source, request, (module, path), hops))
        if any(isinstance(one, Match) for one in results):
            return [one for one in results if isinstance(one, Match)]
        unmatched += results
    return unmatched[:1] if unmatched and len(unmatched) == len(found) else None


def _along(
    program: ProgramSources, source: Source, request: Request, way: Way, hops: int
) -> Iterator[Match | Unmatched]:
    module, path = way
    onward = request._replace(module=module, path=path)
    if not path:
        own = (f"/{module}/ > {request.variable}",)
        yield Unmatched(request, f"{module} is a module and not a function", own)
    elif module == source.module:
        for one in _in_source(program, source, [onward], hops):
            yield one._replace(request=request)
    elif program.knows(module):
        for one in _in_module(program, module, [onward], hops):
            yield one._replace(request=request)
