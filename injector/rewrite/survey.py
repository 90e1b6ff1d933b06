"""Where requests would match in a program, found without running any of it.

Each request is put into the tree of the module that it names, as if that was loaded. A name that the module
does not define itself is followed through imports, base classes and `import *` to the module that does, as
far as the sources tell. Objects that are loaded already lead to their source directly.
"""

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
"""How many imports and base classes are followed from a name to its definition: they may be circular."""

_NO_CODE = "has no Python source, so only #enter, #exit, #error and #value can be had of it"
_WRAPPABLE = ("#enter", "#exit", "#error", "#value", "#scope")


def survey(
    program: ProgramSources, wanted: Iterable[tuple[Request, Any]]
) -> tuple[list[Match], list[Unmatched]]:
    """The matches of requests, and the requests without one.

    Each of `wanted` is a request with the object that it is for, or with None if it names a place. What only
    the running program decides comes back as a match of kind ``binding``.
    """
    results: list[Match | Unmatched] = []
    by_module: dict[str, list[Request]] = {}
    for request, target in wanted:
        if is_method(request.variable):
            results += _calls(program, request)
        elif target is None:
            by_module.setdefault(request.module, []).append(request)
        else:
            results += _in_object(program, request, target)
    for module, requests in by_module.items():
        results += _in_module(program, module, requests, 0)
    matches = [result for result in results if isinstance(result, Match)]
    met = {match.request.hook for match in matches}
    unmatched = [result for result in results if isinstance(result, Unmatched)]
    return matches, [result for result in unmatched if result.request.hook not in met]


def _calls(program: ProgramSources, request: Request) -> Iterator[Match | Unmatched]:
    """Where a method is called in the program's own files: in its folder, whether imported or not."""
    from . import transform

    has_none = True
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
            has_none = False
            yield match._replace(request=request)
    if has_none:
        yield Unmatched(
            request, f"no call of a method {request.variable} in the program's own files"
        )


def _in_module(
    program: ProgramSources, module: str, requests: list[Request], hops: int
) -> Iterator[Match | Unmatched]:
    """What becomes of requests for one module, after `hops` steps from where they began."""
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
    """What becomes of requests for the module with this source."""
    from . import transform

    try:
        text = source.text
        tree = ast.parse(text, source.file)
        matches, unmatched = transform.explain(
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
    for request, reason in unmatched:
        matches_elsewhere = _starred(program, source, request, hops + 1)
        if matches_elsewhere:
            yield from matches_elsewhere
            continue
        line = on_demand(source, request.path[0]) if request.path else 0
        if line:
            where = text.split("\n")[line - 1].strip()
            yield Match(request, source.module, "", source.file, line, where, "binding")
            continue
        explained = explain(request, program)
        yield explained._replace(reason=reason) if reason else explained


def _starred(program: ProgramSources, source: Source, request: Request, hops: int) -> list[Match]:
    """Matches of what comes by `from module import *`, which does not call the module's `__getattr__`."""
    if not request.path or hops > MOST_HOPS:
        return []
    for way in starred(program, source, request.path):
        matches = [
            result
            for result in _along(program, source, request, way, hops)
            if isinstance(result, Match)
            and not (result.kind == "binding" and result.source.startswith("def __getattr__"))
        ]
        if matches:
            return matches
    return []


def _wrapped(request: Request, module: str, name: str) -> Match | Unmatched:
    """The match of a callable in C, which gets a stand-in; Unmatched for what that cannot see."""
    if request.variable not in _WRAPPABLE or request.captures:
        return Unmatched(request, f"{module}.{name} {_NO_CODE}")
    return Match(request, module, name, "", 0, "", "wrapped")


# --- objects that are loaded already -------------------------------------------------------------


def _in_object(
    program: ProgramSources, request: Request, target: Any
) -> Iterator[Match | Unmatched]:
    """What becomes of a request for an object that is loaded."""
    function = called(target)
    source = _source_of(function) if function is not None else None
    if function is None or source is None:
        yield _of_c(request, target)
        return
    path = tuple(part for part in function.__qualname__.split(".") if part != "<locals>")
    inside = request._replace(module=source.module, path=path)
    for result in _in_source(program, source, [inside], MOST_HOPS):
        yield result._replace(request=request)


def _of_c(request: Request, target: Any) -> Match | Unmatched:
    """A callable in C gets a stand-in wherever modules have it under a name; its methods get none."""
    thing = target if hasattr(target, "__qualname__") else type(target)
    if isinstance(target, _DESCRIPTORS):
        owner = target.__objclass__
        where = f"{owner.__module__}.{owner.__qualname__}"
        return Unmatched(request, f"{where}.{target.__name__} is a method of a class made in C")
    return _wrapped(request, getattr(thing, "__module__", None) or "", thing.__qualname__)


_DESCRIPTORS = (MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType)


def _source_of(function: FunctionType) -> Source | None:
    """The source of the module that defines `function`, if there is a file of it."""
    module = sys.modules.get(function.__module__)
    # The code of a frozen module has `<frozen os>` for its file; the module itself may know the file.
    for file in (function.__code__.co_filename, getattr(module, "__file__", None)):
        if file and os.path.isfile(file) and not file.endswith(".pyc"):
            with open(file, "rb") as stream:
                return Source(function.__module__, file, stream.read())
    return None


# --- names that stand for something defined elsewhere --------------------------------------------


def _follow(
    program: ProgramSources, source: Source, match: Match, hops: int
) -> Iterator[Match | Unmatched]:
    """Follow a name that is bound at the place of `match` to what it stands for."""
    request = match.request
    node = statement(source, match.line)
    if isinstance(node, ast.ClassDef) and len(request.path) == 1:
        yield from _called_class(program, source, request, hops)
        return
    if is_closed(node):
        yield explain(request, program)
        return
    origins = list(ways(program, source, request.path, node))
    results = _first(program, source, request, origins, hops)
    yield from results if results is not None else [match]


def _called_class(
    program: ProgramSources, source: Source, request: Request, hops: int
) -> Iterator[Match | Unmatched]:
    """Matches of a class that is called: it runs its `__init__`, or else its `__new__`."""
    if request.variable not in _WRAPPABLE:
        yield explain(request, program)
        return
    constructors = [(source.module, (*request.path, name)) for name in ("__init__", "__new__")]
    results = _first(program, source, request, constructors, hops) or []
    if any(isinstance(result, Match) for result in results):
        yield from results
    else:
        yield _wrapped(request, source.module, ".".join(request.path))


def _first(
    program: ProgramSources, source: Source, request: Request, origins: list[Way], hops: int
) -> list[Match | Unmatched] | None:
    """The results of the first of several ways that leads to a match; None if the sources do not tell."""
    unmatched: list[Match | Unmatched] = []
    for module, path in origins:
        results = list(_along(program, source, request, (module, path), hops))
        if any(isinstance(result, Match) for result in results):
            return [result for result in results if isinstance(result, Match)]
        unmatched += results
    return unmatched[:1] if unmatched and len(unmatched) == len(origins) else None


def _along(
    program: ProgramSources, source: Source, request: Request, way: Way, hops: int
) -> Iterator[Match | Unmatched]:
    """What becomes of a request at the end of one way."""
    module, path = way
    onward = request._replace(module=module, path=path)
    if not path:
        suggestion = (f"/{module}/ > {request.variable}",)
        yield Unmatched(request, f"{module} is a module and not a function", suggestion)
    elif module == source.module:
        for result in _in_source(program, source, [onward], hops):
            yield result._replace(request=request)
    elif program.knows(module):
        for result in _in_module(program, module, [onward], hops):
            yield result._replace(request=request)
