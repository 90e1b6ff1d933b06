"""What was probably meant: for a request that found nothing, the nearest names that exist."""

from __future__ import annotations

import os
import re
from difflib import SequenceMatcher
from functools import lru_cache

from .inventory import Function, inventory
from .locate import NoSource, Program, Source
from .request import MAIN, Miss, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CLOSE = 0.6
"""Names less alike than this are not worth offering."""
MOST_PARSED = 200
"""In a folder with more modules, only those are parsed that define the name exactly."""
MOST_DEFINING = 40
"""So many of them: a program that is part of a large library has hundreds that define `forward`."""


def explain(request: Request, program: Program, limit: int = 4) -> Miss:
    """Say why a request finds nothing in a program, and what would be found instead."""
    try:
        source = program.find(request.module)
    except NoSource as error:
        return Miss(request, str(error))
    known = _functions(source) if source is not None else []
    return Miss(request, _reason(request, source, known), nearest(request, known, program, limit))


def nearest(
    request: Request, known: Iterable[Function], program: Program | None = None, limit: int = 4
) -> tuple[str, ...]:
    """The selectors most like a request, best first, each with its place: `//f > x (a.py:3)`.

    `known` are the functions of the module that the request names; those of the program's other
    modules are looked at if the program is given.
    """
    same = [c for function in known for c in _candidates(request, function, True)]
    # A perfect match in the module itself needs no second opinion from elsewhere.
    if program is not None and max((score for score, _ in same), default=0.0) < 1.0:
        for function in _others(request, program):
            same += _candidates(request, function, False)
    same.sort(key=lambda c: -c[0])
    return tuple(dict.fromkeys(text for _, text in same))[:limit]


def _reason(request: Request, source: Source | None, known: list[Function]) -> str:
    if source is None:
        return f"there is no module {request.module}"
    where = os.path.basename(source.file)
    name = ".".join(request.path)
    matching = [function for function in known if function.path == request.path]
    if not matching:
        return f"there is no function {name} in {where}"
    inside = f"{name} ({where}:{matching[0].line})" if name else where
    if request.variable is None:
        return f"no variable of {inside} has the tag {request.category}"
    if request.category is not None:
        return f"{request.variable} in {inside} does not have the tag {request.category}"
    if request.variable == "#value":
        return f"{inside} never returns"
    return f"{request.variable} is never set in {inside}"


def _functions(source: Source) -> list[Function]:
    return _inventory(source.data, source.module, source.file)


@lru_cache(256)
def _inventory(data: bytes | str, module: str, file: str) -> list[Function]:
    try:
        return inventory(data, module, file)
    except (SyntaxError, ValueError, RecursionError):
        return []


def _candidates(request: Request, function: Function, same: bool) -> Iterator[tuple[float, str]]:
    """At most one offer of a function, with how good it is: 1 for what was asked for exactly."""
    alike = _function_likeness(request, function)
    variable, line, fits = _best_variable(request.variable, function)
    telling = request.variable is not None and not request.variable.startswith("#")
    if alike < CLOSE and not (same and telling and fits == 1.0 and request.path):
        return
    if fits < CLOSE:
        # The function is right and the variable is not: the function alone is still a help.
        if alike < 0.9 or same or not request.path:
            return
        variable, line, fits = "", function.line, CLOSE
    score = max(alike, 0.5) * fits * (1.0 if same else 0.98)
    text = f"{function.target} > {variable}" if variable else function.target
    yield score, f"{text} ({os.path.basename(function.file)}:{line})"


def _function_likeness(request: Request, function: Function) -> float:
    if request.path == function.path:
        return 1.0
    if not request.path or not function.path:
        return 0.0
    if request.path[-1] == function.path[-1]:
        return 0.95
    whole = likeness(".".join(request.path), function.name)
    return max(whole, 0.95 * likeness(request.path[-1], function.path[-1]))


def _best_variable(variable: str | None, function: Function) -> tuple[str, int, float]:
    if variable is None:
        return "", function.line, 1.0
    if variable.startswith("#") and not variable.startswith(("#loop", "#endloop")):
        here = variable in function.events
        return variable, function.events.get(variable, function.line), 1.0 if here else 0.0
    best = ("", function.line, 0.0)
    for name, line in function.offers():
        score = likeness(variable, name)
        if score > best[2]:
            best = (name, line, score)
    return best


def likeness(one: str, other: str) -> float:
    """How alike two names are, from 0 to 1; letter case counts for little."""
    if one == other:
        return 1.0
    matcher = SequenceMatcher(None, one.lower(), other.lower())
    if matcher.quick_ratio() < CLOSE:
        return 0.0
    return 0.98 * matcher.ratio()


def _others(request: Request, program: Program) -> Iterator[Function]:
    modules = dict(program.neighbours(request.module))
    if request.module != MAIN:
        modules.update(program.neighbours())
    modules.pop(request.module, None)
    for name, text, file in _texts(request, modules):
        yield from _functions(Source(name, file, text))


def _texts(request: Request, modules: dict[str, str]) -> Iterator[tuple[str, bytes, str]]:
    many = len(modules) > MOST_PARSED
    defines = _definition(request)
    found = 0
    for name, file in modules.items():
        if many and likeness(name, request.module) < CLOSE and request.module != MAIN:
            continue
        text = _contents(file)
        if text is None or (many and not defines.search(text)):
            continue
        yield name, text, file
        found += 1
        if many and found == MOST_DEFINING:
            return


def _definition(request: Request) -> re.Pattern[bytes]:
    """Matches a text that may define what a request names: its function, else its variable."""
    if request.path:
        name = re.escape(request.path[-1].encode())
        return re.compile(rb"\b(?:def|class)\s+%s\b|\b%s\s*=\s*lambda\b" % (name, name))
    return re.compile(rb"\b%s\b" % re.escape((request.variable or "").encode()))


@lru_cache(2000)
def _contents(file: str) -> bytes | None:
    try:
        with open(file, "rb") as stream:
            return stream.read()
    except OSError:
        return None
