"""Where requests would land in a program, found out without running any of it."""

from __future__ import annotations

import ast
import os
import sys
from functools import partial
from types import (
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import Any

from .follow import is_closed, on_demand, starred, statement, ways
from .locate import NoSource, Program, Source
from .methods import is_method
from .nearest import explain
from .request import ANYWHERE, Landing, Miss, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .follow import Way

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
        if is_method(request.variable):
            found += _calls(program, request)
        elif target is None:
            by_module.setdefault(request.module, []).append(request)
        else:
            found += _in_object(program, request, target)
    for module, requests in by_module.items():
        found += _in_module(program, module, requests, 0)
    landings = [one for one in found if isinstance(one, Landing)]
    met = {landing.request.hook for landing in landings}
    misses = [one for one in found if isinstance(one, Miss)]
    return landings, [miss for miss in misses if miss.request.hook not in met]


def _calls(program: Program, request: Request) -> Iterator[Landing | Miss]:
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
        asked = [request._replace(module=module, path=ANYWHERE)]
        about = {"module": module, "filename": source.file, "source": text}
        for landing in transform.rewrite(tree, asked, **about)[0]:
            none = False
            yield landing._replace(request=request)
    if none:
        yield Miss(request, f"no call of a method {request.variable} in the program's own files")


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
        found = _starred(program, source, request, hops + 1)
        if found:
            yield from found
            continue
        line = on_demand(source, request.path[0]) if request.path else 0
        if line:
            where = text.split("\n")[line - 1].strip()
            yield Landing(request, source.module, "", source.file, line, where, "binding")
            continue
        miss = explain(request, program)
        yield miss._replace(reason=reason) if reason else miss


def _starred(program: Program, source: Source, request: Request, hops: int) -> list[Landing]:
    """What comes by `from module import *`, which does not call the module's `__getattr__`."""
    if not request.path or hops > MOST_HOPS:
        return []
    for way in starred(program, source, request.path):
        found = [
            one
            for one in _along(program, source, request, way, hops)
            if isinstance(one, Landing)
            and not (one.kind == "binding" and one.source.startswith("def __getattr__"))
        ]
        if found:
            return found
    return []


def _wrapped(request: Request, module: str, name: str) -> Landing | Miss:
    if request.variable not in _WRAPPABLE or request.captures:
        return Miss(request, f"{module}.{name} {_NO_CODE}")
    return Landing(request, module, name, "", 0, "", "wrapped")


# --- objects that are loaded already -------------------------------------------------------------


def _in_object(program: Program, request: Request, target: Any) -> Iterator[Landing | Miss]:
    function = _function_of(target)
    source = _source_of(function) if function is not None else None
    if function is None or source is None:
        yield _of_c(request, target)
        return
    path = tuple(part for part in function.__qualname__.split(".") if part != "<locals>")
    inside = request._replace(module=source.module, path=path)
    for one in _in_source(program, source, [inside], MOST_HOPS):
        yield one._replace(request=request)


def _of_c(request: Request, target: Any) -> Landing | Miss:
    """What has no Python code is wrapped where modules have it under a name."""
    thing = target if hasattr(target, "__qualname__") else type(target)
    if isinstance(target, _DESCRIPTORS):
        owner = target.__objclass__
        where = f"{owner.__module__}.{owner.__qualname__}"
        return Miss(request, f"{where}.{target.__name__} is a method of a class made in C")
    return _wrapped(request, getattr(thing, "__module__", None) or "", thing.__qualname__)


_DESCRIPTORS = (MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType)


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
    node = statement(source, landing.line)
    if isinstance(node, ast.ClassDef) and len(request.path) == 1:
        yield from _called_class(program, source, request, hops)
        return
    if is_closed(node):
        yield explain(request, program)
        return
    found = list(ways(program, source, request.path, node))
    results = _first(program, source, request, found, hops)
    yield from results if results is not None else [landing]


def _called_class(
    program: Program, source: Source, request: Request, hops: int
) -> Iterator[Landing | Miss]:
    """A class that is called runs its `__init__`, or else its `__new__`."""
    if request.variable not in _WRAPPABLE:
        yield explain(request, program)
        return
    made = [(source.module, (*request.path, name)) for name in ("__init__", "__new__")]
    results = _first(program, source, request, made, hops) or []
    if any(isinstance(one, Landing) for one in results):
        yield from results
    else:
        yield _wrapped(request, source.module, ".".join(request.path))


def _first(
    program: Program, source: Source, request: Request, found: list[Way], hops: int
) -> list[Landing | Miss] | None:
    """What comes of the first way that leads somewhere; None if it cannot be told."""
    misses: list[Landing | Miss] = []
    for module, path in found:
        results = list(_along(program, source, request, (module, path), hops))
        if any(isinstance(one, Landing) for one in results):
            return [one for one in results if isinstance(one, Landing)]
        misses += results
    return misses[:1] if misses and len(misses) == len(found) else None


def _along(
    program: Program, source: Source, request: Request, way: Way, hops: int
) -> Iterator[Landing | Miss]:
    module, path = way
    onward = request._replace(module=module, path=path)
    if not path:
        own = (f"/{module}/ > {request.variable}",)
        yield Miss(request, f"{module} is a module and not a function", own)
    elif module == source.module:
        for one in _in_source(program, source, [onward], hops):
            yield one._replace(request=request)
    elif program.knows(module):
        for one in _in_module(program, module, [onward], hops):
            yield one._replace(request=request)
