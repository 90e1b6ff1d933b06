"""Which lines of a program make the batch that a model is called with, and which functions they call."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

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


class Making(NamedTuple):
    """What makes the batch of a step."""

    lines: tuple[int, ...]
    functions: tuple[str, ...] = ()
    """Of those that these lines call, the ones that the same file defines: ``get_batch``,
    ``Trainer/get_batch``, as a selector has them."""
    others: tuple[str, ...] = ()
    """Those that it does not define, as the lines call them: ``data.get_batch``."""


LONGEST = 2_000_000
"""Bytes of a file that is parsed."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign)
_YIELDS = (ast.Yield, ast.YieldFrom)


def making(begin: SourcePlace, end: SourcePlace, calls: Iterable[SourcePlace]) -> Making | None:
    """What a loop passes between ``begin`` and ``end`` that makes arguments of a model.

    ``calls`` are the lines where models are called. What comes of a model is no batch, and neither is
    what was made before the loop. Of a function that a loop calls, what makes its parameters counts as
    well. None where nothing does, where the lines lie in different functions, or where the file
    is not what it was when the program ran.
    """
    places = [begin, end, *(call for call in calls if call.file == begin.file)]
    parsed = _parsed(begin.file) if begin.file == end.file and len(places) > 2 else None
    if parsed is None or not all(_is_there(parsed.lines, place) for place in places):
        return None
    scope = _around(parsed.tree, begin.line)[0]
    if _around(parsed.tree, end.line)[0] is not scope:
        return None
    models = [p.line for p in places[2:] if _around(parsed.tree, p.line)[0] is scope]
    lines = _made(parsed, begin.line, end.line, models)
    made = [*_assigned(parsed, lines), *_given_to(parsed, begin.line, models)]
    functions, others = _called(parsed, made)
    return Making(tuple(sorted(lines)), functions, others) if lines or functions or others else None


def _assigned(parsed: _ParsedFile, lines: set[int]) -> Iterator[ast.expr]:
    """What assignments at ``lines`` assign."""
    for each in parsed.assignments:
        if each.value and each.lineno in lines:
            yield each.value


def _given_to(parsed: _ParsedFile, line: int, models: list[int]) -> Iterator[ast.expr]:
    """What models are called with in a loop: ``model(get_batch())``; and the function around them,
    where the loop is around its call."""
    scope, loops = _around(parsed.tree, line)
    calls = [
        node
        for node in (inside(loops[-1]) if loops else ())
        if isinstance(node, ast.Call) and node.lineno in models
    ]
    if isinstance(scope, FUNCTIONS) and not loops:
        calls = [call for call, _ in _calls_of(parsed, scope)]
    for call in calls if len(calls) == 1 or loops else ():
        yield from call.args
        yield from (each.value for each in call.keywords)


def _called(
    parsed: _ParsedFile, values: Iterable[ast.expr]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The functions that are called for ``values``: where one function of the file has that name, its
    path; the others as they are called."""
    functions, others = dict[str, None](), dict[str, None]()
    for call in (n for value in values for n in ast.walk(value) if isinstance(n, ast.Call)):
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        paths = parsed.functions.get(name, ())
        if len(paths) == 1:
            functions[paths[0]] = None
        elif not paths and _is_dotted(call.func):
            others[ast.unparse(call.func)] = None
    return tuple(functions), tuple(others)


def _is_dotted(node: ast.AST) -> bool:
    """Whether it is a name, or an attribute of one."""
    return isinstance(node, ast.Name) or (
        isinstance(node, ast.Attribute) and _is_dotted(node.value)
    )


def is_fed(place: SourcePlace, lines: Iterable[int], fetches: Iterable[SourcePlace]) -> bool:
    """Whether one of the ``fetches`` of loaders drives the loop around ``place`` or one of the ``lines``
    of its file."""
    parsed = _parsed(place.file)
    if parsed is None:
        return True
    for fetch in (each.line for each in fetches if each.file == place.file):
        loops = _around(parsed.tree, fetch)[1]
        if loops and any(_holds(loops[-1], line) for line in (place.line, *lines)):
            return True
    return False


def body_of(file: str, line: int) -> tuple[int, int] | None:
    """The first and the last line of the innermost loop around a line; else of its function.

    None at the level of a module outside of loops, and where the file cannot be parsed.
    """
    parsed = _parsed(file)
    scope, loops = _around(parsed.tree, line) if parsed else (None, [])
    node = loops[-1] if loops else scope
    if not isinstance(node, (*LOOPS, *FUNCTIONS)):
        return None
    return node.lineno, node.end_lineno or node.lineno


def block_of(file: str, line: int) -> tuple[int, int] | None:
    """The first and the last line of the ``with`` statement that begins at ``line``, if one does."""
    parsed = _parsed(file)
    for node in ast.walk(parsed.tree) if parsed else ():
        if isinstance(node, (ast.With, ast.AsyncWith)) and node.lineno == line:
            return node.lineno, node.end_lineno or node.lineno
    return None


def forget() -> None:
    """Let go of the files that were parsed."""
    _parsed.cache_clear()


def functions_in(node: ast.AST, above: str = "") -> Iterator[tuple[str, _Function]]:
    """The functions in ``node``, each with its path there."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            path = f"{above}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield path, child
            yield from functions_in(child, f"{path}/")
        else:
            yield from functions_in(child, above)


def _made(
    parsed: _ParsedFile, begin: int, end: int, models: list[int], names: set[str] | None = None
) -> set[int]:
    """The lines, where ``names`` are what the calls at the lines ``models`` get, all of it by default."""
    scope, loops = _around(parsed.tree, begin)
    shared = [loop for loop in loops if all(_holds(loop, line) for line in (begin, end))]
    if not shared and not isinstance(scope, FUNCTIONS):
        return set()
    outer, inner = (shared[0], shared[-1]) if shared else (scope, scope)
    if not any(_holds(outer, line) for line in models):
        return set()
    assigned = list(_assignments(outer, parsed.generators))
    results = _results(assigned, models)
    wanted = (_arguments(outer, models) if names is None else names) - results
    found: set[int] = set()
    while more := [a for a in assigned if a.names & wanted and a.line not in found]:
        found |= {a.line for a in more}
        wanted |= {name for a in more for name in a.uses} - results
    found = {line for line in found if _passes(inner, begin, line, end)}
    if isinstance(scope, FUNCTIONS) and not shared and begin >= end:
        found |= _before(parsed, scope, wanted)
    return found


def _before(parsed: _ParsedFile, function: _Function, wanted: set[str]) -> set[int]:
    """The lines that make a function's parameters, where one loop calls it at one line."""
    found = _calls_of(parsed, function)
    if len(found) != 1 or _around(parsed.tree, found[0][0].lineno)[0] is function:
        return set()
    [(call, given)] = found
    names = {name for each, value in given.items() if each in wanted for name in _names(value)}
    return _made(parsed, call.lineno, call.lineno, [call.lineno], names)


def _calls_of(
    parsed: _ParsedFile, function: _Function
) -> list[tuple[ast.Call, dict[str, ast.expr]]]:
    """The calls of a function in loops, and what its parameters get."""
    return [
        (node, given)
        for node in parsed.calls
        if getattr(node.func, "id", getattr(node.func, "attr", None)) == function.name
        and _around(parsed.tree, node.lineno)[1]
        and (given := _given(node, function)) is not None
    ]


def _given(call: ast.Call, function: _Function) -> dict[str, ast.expr] | None:
    """What each parameter of a function gets; None where the ``call`` is not one of it: an optimizer's
    ``step()`` is not a method ``step(self, batch)`` of the program."""
    parameters = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    if isinstance(call.func, ast.Attribute):
        parameters = parameters[1:]
    given = {each.arg: each.value for each in call.keywords if each.arg}
    if function.args.vararg or function.args.kwarg or len(given) < len(call.keywords):
        return given | dict(zip(parameters, call.args, strict=False))
    known = {*parameters, *(each.arg for each in function.args.kwonlyargs)}
    given |= dict(zip(parameters, call.args, strict=False))
    required = parameters[: len(parameters) - len(function.args.defaults)]
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    if not starred and (len(call.args) > len(parameters) or not given.keys() >= set(required)):
        return None
    return given if given.keys() <= known else None


class _Assignment:
    """One statement that gives names a value."""

    def __init__(self, node: ast.stmt, targets: Sequence[ast.expr], value: ast.expr) -> None:
        self.line, self.last = node.lineno, value.end_lineno or node.lineno
        self.names = {name for target in targets for name in _names(target)}
        self.uses = set(_names(value))


class _ParsedFile:
    """The text of a file as a tree, and what is looked for in all of that, noted while it is walked once.

    Each of these was a walk of its own by :func:`ast.walk`; of a file of a thousand lines they took a third
    of the time of the whole report.
    """

    def __init__(self, tree: ast.Module, lines: list[str]) -> None:
        self.tree, self.lines = tree, lines
        self.calls: list[ast.Call] = []
        self.assignments: list[ast.Assign | ast.AnnAssign] = []
        self.functions: dict[str, list[str]] = {}
        """By name, the paths of all functions that have it."""
        self.generators: set[str] = set()
        """Names of functions that yield."""
        self._walk()

    def _walk(self) -> None:
        """Breadth first, as :func:`ast.walk`; each node with the scope around it, and the path of that."""
        found: list[tuple[ast.AST, ast.AST, str]] = [(self.tree, self.tree, "")]
        for node, scope, path in found:
            kind = type(node)
            if kind is ast.Call:
                self.calls.append(node)  # type: ignore[arg-type]
            elif kind in _ASSIGNMENTS:
                self.assignments.append(node)  # type: ignore[arg-type]
            elif kind in _SCOPES:
                scope = node
                if kind is not ast.Lambda:
                    name = node.name  # type: ignore[attr-defined]
                    if kind is not ast.ClassDef:
                        self.functions.setdefault(name, []).append(path + name)
                    path = f"{path}{name}/"
            elif kind in _YIELDS and isinstance(scope, FUNCTIONS):
                self.generators.add(scope.name)
            # Names and constants, most of all nodes, hold nothing that is looked for.
            if kind is not ast.Name and kind is not ast.Constant:
                for field in node._fields:
                    value = getattr(node, field, None)
                    if isinstance(value, list):
                        found += [
                            (each, scope, path) for each in value if isinstance(each, ast.AST)
                        ]
                    elif isinstance(value, ast.AST):
                        found.append((value, scope, path))


@lru_cache(maxsize=4)
def _parsed(file: str) -> _ParsedFile | None:
    if not os.path.isfile(file):  # a pipe would be waited for
        return None
    try:
        with open(file, "rb") as stream:
            source = stream.read(LONGEST + 1)
        if len(source) > LONGEST:
            return None
        with Quiet(file):  # the compiler has given its warnings already
            tree = ast.parse(source, file)
        return _ParsedFile(tree, source.decode("utf-8", "replace").split("\n"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_there(lines: list[str], place: SourcePlace) -> bool:
    return 0 < place.line <= len(lines) and lines[place.line - 1].strip() == place.text


def _holds(node: ast.AST, line: int) -> bool:
    last = getattr(node, "end_lineno", None)
    return last is not None and node.lineno <= line <= last  # type: ignore[attr-defined]


def _around(tree: ast.Module, line: int) -> tuple[ast.AST, list[ast.stmt]]:
    """The function around a line, or the module, and the loops in it around the line from outside in."""
    scope: ast.AST = tree
    loops: list[ast.stmt] = []
    node: ast.AST | None = tree
    while node is not None:
        node = next((each for each in ast.iter_child_nodes(node) if _holds(each, line)), None)
        if isinstance(node, _SCOPES):
            scope, loops = node, []
        elif isinstance(node, LOOPS):
            loops.append(node)
    return scope, loops


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """What is in ``node`` and runs with it: nothing of functions that are defined there."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _SCOPES):
            yield child
            yield from inside(child)


def _names(node: ast.expr) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def _assignments(loop: ast.AST, generators: set[str]) -> Iterator[_Assignment]:
    """Those in which something is called or taken out of something; the loop's own, if it may be slow."""
    for node in (loop, *inside(loop)):
        if isinstance(node, _ASSIGNMENTS) and node.value is not None:
            if any(isinstance(each, (ast.Call, ast.Subscript)) for each in ast.walk(node.value)):
                targets = list(node.targets) if isinstance(node, ast.Assign) else [node.target]
                yield _Assignment(node, targets, node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor)) and generators & set(_names(node.iter)):
            yield _Assignment(node, [node.target], node.iter)


def _arguments(loop: ast.AST, models: list[int]) -> set[str]:
    """The names that the calls at these lines are made with."""
    calls = [n for n in inside(loop) if isinstance(n, ast.Call) and n.lineno in models]
    return {
        name
        for call in calls
        for each in (*call.args, *(keyword.value for keyword in call.keywords))
        for name in _names(each)
    }


def _results(assigned: list[_Assignment], models: list[int]) -> set[str]:
    """The names that hold what a model has made, or what was made of that."""
    found: set[str] = set()
    for each in assigned:
        if any(each.line <= line <= each.last for line in models):
            found |= each.names
    while more := {n for a in assigned if a.uses & found for n in a.names} - found:
        found |= more
    return found


def _passes(loop: ast.AST, begin: int, line: int, end: int) -> bool:
    """Whether a loop that goes on from one line to another passes ``line``, perhaps in its next iteration."""
    if begin < end:
        return begin < line <= end
    return _holds(loop, line) and (line > begin or line <= end)
