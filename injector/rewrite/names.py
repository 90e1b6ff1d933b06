"""What a name stands for as far as the sources tell, and the nearest names for one that stands for nothing.

The first half follows names through imports, base classes and aliases, without running anything. A *way* is
where a name leads: a module, and a path in it. The second half explains a request that found nothing, by the
names that are most like the requested one.
"""

from __future__ import annotations

import ast
import os
import re
from functools import lru_cache

from .inventory import Function, inventory
from .locate import NoSource, ProgramSources, Source
from .nodes import dotted, own_statements
from .request import MAIN, Request, Unmatched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Way = tuple[str, tuple[str, ...]]
    """A module, and a path in it."""


# An import statement at the beginning of a line: in parentheses over several lines, or on one.
_IMPORT = re.compile(
    r"^(?P<indent>[ \t]*)(?:from\s+[\w.]+\s+)?import\s+(?:\((?P<many>[^)]*)\)|(?P<one>[^\n(]*))",
    re.MULTILINE,
)
_COMMENT = re.compile("#.*")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def import_statements(text: str) -> Iterator[tuple[bool, set[str]]]:
    """The import statements of a text, found without parsing it, which would take too long.

    For each, whether it stands at the margin, and the names that it binds.
    """
    for match in _IMPORT.finditer(text):
        parts = _COMMENT.sub("", match["many"] or match["one"]).split(",")
        yield not match["indent"], {_name(part.split() or [""]) for part in parts}


def _name(words: list[str]) -> str:
    """The name that one part of an import statement binds: `a`, `a.b` or `a as b`, in words."""
    return words[-1] if len(words) == 3 else words[0].partition(".")[0]


def statement(source: Source, line: int) -> ast.stmt | None:
    """The innermost statement at a line that stands outside of functions and classes."""
    innermost = None
    for node in own_statements(ast.parse(source.text).body):
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            innermost = node
    return innermost


def is_closed(node: ast.stmt | None) -> bool:
    """Whether a definition itself has all attributes that its object will have."""
    if isinstance(node, _FUNCTIONS):
        return not node.decorator_list
    return isinstance(node, ast.ClassDef) and not (
        node.bases or node.keywords or node.decorator_list
    )


def ways(
    program: ProgramSources, source: Source, path: tuple[str, ...], node: ast.stmt | None
) -> Iterator[Way]:
    """Where the first name of `path` comes from, as the statement `node` that binds it tells."""
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
    elif isinstance(node, ast.Assign) and (value := dotted(node.value)):
        yield source.module, (*value.split("."), *rest)


def imported(program: ProgramSources, source: Source, path: tuple[str, ...]) -> Iterator[Way]:
    """Where a name comes from, as the import statements at module level tell, run or not."""
    for node in own_statements(ast.parse(source.text).body):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ways(program, source, path, node)


def starred(program: ProgramSources, source: Source, path: tuple[str, ...]) -> Iterator[Way]:
    """Where a name may come from that no statement binds: the modules of `from … import *`."""
    for node in own_statements(ast.parse(source.text).body):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            yield _split(program, _absolute(node, source), path)


def on_demand(source: Source, name: str) -> int:
    """The line of the `__getattr__` that makes a name which the module does not bind; 0 if there is none."""
    line = 0
    for node in own_statements(ast.parse(source.text).body):
        bound = _bound(node)
        if name in bound:
            return 0
        if "__getattr__" in bound:
            line = node.lineno
    return line


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement defines, imports or assigns."""
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    names = [name for name in ast.walk(node) if isinstance(name, ast.Name)]
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _absolute(node: ast.ImportFrom, source: Source) -> str:
    """The module from which an import takes names: relative ones start at the package of `source`."""
    if not node.level:
        return node.module or ""
    parts = source.name.split(".")
    parts = parts[: len(parts) - node.level + source.package]
    return ".".join([*parts, *(node.module or "").split(".")]).rstrip(".")


def _split(program: ProgramSources, module: str, path: tuple[str, ...]) -> Way:
    """Move leading names that are submodules from the path to the module."""
    while path and program.knows(f"{module}.{path[0]}"):
        module, path = f"{module}.{path[0]}", path[1:]
    return module, path


CLOSE = 0.6
"""Names that are less alike than this are not offered."""
MOST_PARSED = 200
"""In a folder with more modules, only those that define the name exactly are parsed."""
MOST_DEFINING = 40
"""How many of those are parsed at most: in a large library, hundreds of modules define `forward`."""


def explain(request: Request, program: ProgramSources, limit: int = 4) -> Unmatched:
    """Say why a request finds nothing in a program, with up to `limit` selectors that would match."""
    try:
        source = program.find(request.module)
    except NoSource as error:
        return Unmatched(request, str(error))
    known = _functions(source) if source is not None else []
    return Unmatched(
        request, _reason(request, source, known), nearest(request, known, program, limit)
    )


def nearest(
    request: Request,
    known: Iterable[Function],
    program: ProgramSources | None = None,
    limit: int = 4,
) -> tuple[str, ...]:
    """The selectors most like a request, best first, each with its place: `//f > x (a.py:3)`.

    `known` are the functions of the module that the request names. If the program is given, those of its
    other modules are offered too.
    """
    candidates = [c for function in known for c in _candidates(request, function, True)]
    # With a perfect match in the module itself, the other modules need not be parsed.
    if program is not None and max((score for score, _ in candidates), default=0.0) < 1.0:
        for function in _others(request, program):
            candidates += _candidates(request, function, False)
    candidates.sort(key=lambda c: -c[0])
    return tuple(dict.fromkeys(text for _, text in candidates))[:limit]


def _reason(request: Request, source: Source | None, known: list[Function]) -> str:
    """Why a request finds nothing, in words."""
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
    """The functions of a source; none if it cannot be parsed."""
    return _inventory(source.data, source.module, source.file)


@lru_cache(256)
def _inventory(data: bytes | str, module: str, file: str) -> list[Function]:
    try:
        return inventory(data, module, file)
    except (SyntaxError, ValueError, RecursionError):
        return []


def _candidates(request: Request, function: Function, same: bool) -> Iterator[tuple[float, str]]:
    """At most one selector in a function, with how well it fits: 1 for an exact match.

    `same` says that the function is in the module that the request names.
    """
    function_score = _function_likeness(request, function)
    variable, line, variable_score = _best_variable(request.variable, function)
    names_variable = request.variable is not None and not request.variable.startswith("#")
    if function_score < CLOSE and not (
        same and names_variable and variable_score == 1.0 and request.path
    ):
        return
    if variable_score < CLOSE:
        # The function is right and the variable is not: the function alone is still worth offering.
        if function_score < 0.9 or same or not request.path:
            return
        variable, line, variable_score = "", function.line, CLOSE
    score = max(function_score, 0.5) * variable_score * (1.0 if same else 0.98)
    text = f"{function.target} > {variable}" if variable else function.target
    yield score, f"{text} ({os.path.basename(function.file)}:{line})"


def _function_likeness(request: Request, function: Function) -> float:
    """How like the requested path a function is, from 0 to 1."""
    if request.path == function.path:
        return 1.0
    if not request.path or not function.path:
        return 0.0
    if request.path[-1] == function.path[-1]:
        return 0.95
    path_likeness = likeness(".".join(request.path), function.name)
    return max(path_likeness, 0.95 * likeness(request.path[-1], function.path[-1]))


def _best_variable(variable: str | None, function: Function) -> tuple[str, int, float]:
    """What in a function is most like the requested variable, its line, and how like it is."""
    if variable is None:
        return "", function.line, 1.0
    if variable.startswith("#") and not variable.startswith(("#loop", "#endloop")):
        exists = variable in function.events
        return variable, function.events.get(variable, function.line), 1.0 if exists else 0.0
    best = ("", function.line, 0.0)
    for name, line in function.offers():
        if name.startswith("#") and not variable.startswith("#") and name != f"#{variable}":
            continue  # `nothere` is like `#enter`, but no slip of it
        score = likeness(variable, name)
        if score > best[2]:
            best = (name, line, score)
    return best


def likeness(one: str, other: str) -> float:
    """How alike two names are, from 0 to 1. Letter case counts for little."""
    if one == other:
        return 1.0
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, one.lower(), other.lower())
    if matcher.quick_ratio() < CLOSE:
        return 0.0
    return 0.98 * matcher.ratio()


def _others(request: Request, program: ProgramSources) -> Iterator[Function]:
    """The functions of the program's other modules that may be meant."""
    modules = dict(program.neighbours(request.module))
    if request.module != MAIN:
        modules.update(program.neighbours())
    modules.pop(request.module, None)
    for name, text, file in _texts(request, modules):
        yield from _functions(Source(name, file, text))


def _texts(request: Request, modules: dict[str, str]) -> Iterator[tuple[str, bytes, str]]:
    """The modules worth parsing: name, contents and file of each."""
    many = len(modules) > MOST_PARSED
    defines = _definition(request)
    count = 0
    for name, file in modules.items():
        if many and likeness(name, request.module) < CLOSE and request.module != MAIN:
            continue
        text = _contents(file)
        if text is None or (many and not defines.search(text)):
            continue
        yield name, text, file
        count += 1
        if many and count == MOST_DEFINING:
            return


def _definition(request: Request) -> re.Pattern[bytes]:
    """A pattern for a text that may define the requested function, or else the variable."""
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
