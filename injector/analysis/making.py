"""Where the time lies that no region covers: between which lines, and which of them make a batch."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .arrays import exceptional
from .profile import SourceLine
from .traces import LoopTrace, Thread
from .wording import line_of

SAMPLE = 20_000
"""Steps to both sides of the middle one that are looked at."""
MOST = 0.5
UNKNOWN = "an unknown line"


class Making(NamedTuple):
    """What makes the batch of a step."""

    lines: tuple[int, ...]
    functions: tuple[str, ...] = ()
    """Of those that these lines call, the ones that the same file defines: ``get_batch``,
    ``Trainer/get_batch``, as a selector has them."""


class LargestGap(NamedTuple):
    """Two lines between which most of a step's ``other`` passes."""

    text: str
    """``between train.py:30 (forward) and train.py:31 (backward)``."""
    share: float
    """Its part of all that no region covers, 0…1."""
    batch: Making | None = None
    """What makes the batch there, where that can be told."""

    @property
    def is_most(self) -> bool:
        """Whether half of it or more is there."""
        return self.share >= MOST


def largest_gap(thread: Thread, trace: LoopTrace) -> LargestGap | None:
    """Of the steps of ``trace``; None where everything is covered, or nothing is."""
    track, pieces, excluded = thread.track, thread.pieces, thread.passes.excluded()
    top = np.array([len(path) == 1 for path in pieces.paths], np.bool_)
    if not top.any():
        return None
    middle = len(trace.start) // 2
    sample = slice(max(0, middle - SAMPLE), middle + SAMPLE)
    first, last = np.searchsorted(track.start, (trace.start[sample][0], trace.end[sample][-1]))
    row = np.arange(first, last)
    step, path = pieces.step_of[row], pieces.path[row]
    steps = np.searchsorted(thread.steps.start, trace.start[sample])
    warmup = trace.measured_from(trace.warmup)
    counted = np.zeros(len(trace.start), np.bool_)
    counted[warmup:] = ~exceptional(trace.table.seconds[warmup:])
    mine = np.zeros(len(thread.steps) + 1, np.bool_)
    mine[steps[counted[sample]]] = True
    kept = mine[step] & (path >= 0)
    kept[kept] = top[path[kept]]
    row, step = row[kept], step[kept]
    if not len(row):
        return None
    begin = np.concatenate(([True], step[1:] != step[:-1]))
    final = np.concatenate((begin[1:], [True]))
    start = np.concatenate((thread.steps.start[step[begin]], track.end[row]))
    end = np.empty(len(row), np.int64)
    end[:-1] = track.start[row[1:]]
    end[final] = thread.steps.end[step[final]]
    end = np.concatenate((track.start[row[begin]], end))
    site = track.site[row].astype(np.int64)
    one = np.concatenate((np.zeros(int(begin.sum()), np.int64), site))
    two = np.empty(len(row), np.int64)
    two[:-1] = site[1:]
    two[final] = 0
    two = np.concatenate((site[begin], two))
    length = np.maximum(end - start - excluded.within(start, end), 0)
    width = 1 + int(site.max())
    sums = np.bincount(one * width + two, length)
    if not sums.sum():
        return None
    best = int(sums.argmax())
    return _told(thread, trace, best // width, best % width, float(sums[best] / sums.sum()))


def _told(thread: Thread, trace: LoopTrace, one: int, two: int, share: float) -> LargestGap:
    sites = thread.track.sites
    names = [
        f"{line_of(sites[each].place, UNKNOWN)} ({sites[each].region})" if each else edge
        for each, edge in ((one, "the step's begin"), (two, "the step's end"))
    ]
    text = f"between {names[0]} and {names[1]}"
    if trace.pace.paced_by == "loader":
        if not two:
            text = f"between {names[0]} and {line_of(trace.pace.place, UNKNOWN)} (the next fetch)"
        return LargestGap(text, share)
    begin, end = (sites[each].place if each else trace.pace.place for each in (one, two))
    batch = None
    if begin and end and share >= MOST:
        calls = {s.place for s in sites.values() if s.region == "forward" and s.phase == "train"}
        named = {s.place.line for s in sites.values() if s.region == "io" and s.place}
        batch = making(begin, end, [call for call in calls if call])
        if batch and named & set(batch.lines):  # what they take is seen as io
            batch = None
    if batch:
        lines, several = ", ".join(map(str, batch.lines)), len(batch.lines) > 1
        text += f", where {f'lines {lines} make' if several else f'line {lines} makes'} the batch"
    return LargestGap(text, share, batch)


LONGEST = 2_000_000
"""Bytes of a file that is parsed."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def making(begin: SourceLine, end: SourceLine, calls: Iterable[SourceLine]) -> Making | None:
    """What a loop passes between ``begin`` and ``end`` that makes arguments of a model.

    ``calls`` are the lines where models are called. What comes of a model is no batch, and neither is
    what was made before the loop. Of a function that a loop calls, what makes its parameters counts as
    well. None where nothing does, where the lines lie in different functions, or where the file
    is not what it was when the program ran.
    """
    places = [begin, end, *(call for call in calls if call.file == begin.file)]
    tree = _parsed(begin.file) if begin.file == end.file and len(places) > 2 else None
    if tree is None or not all(_is_there(tree[1], place) for place in places):
        return None
    scope = _around(tree[0], begin.line)[0]
    if _around(tree[0], end.line)[0] is not scope:
        return None
    models = [p.line for p in places[2:] if _around(tree[0], p.line)[0] is scope]
    lines = _made(tree[0], begin.line, end.line, models)
    return Making(tuple(sorted(lines)), _called(tree[0], lines)) if lines else None


def _called(tree: ast.Module, lines: set[int]) -> tuple[str, ...]:
    """The functions that assignments at ``lines`` call, where one function of the file has that name."""
    defined: dict[str, list[str]] = {}
    for path, function in _functions(tree):
        defined.setdefault(function.name, []).append(path)
    names = {
        getattr(node.func, "id", getattr(node.func, "attr", None)): None
        for each in ast.walk(tree)
        if isinstance(each, (ast.Assign, ast.AnnAssign)) and each.value and each.lineno in lines
        for node in ast.walk(each.value)
        if isinstance(node, ast.Call)
    }
    return tuple(defined[name][0] for name in names if name and len(defined.get(name, ())) == 1)


def _functions(node: ast.AST, above: str = "") -> Iterator[tuple[str, _Function]]:
    """The functions in ``node``, each with its path there."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            path = f"{above}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield path, child
            yield from _functions(child, f"{path}/")
        else:
            yield from _functions(child, above)


def _made(
    tree: ast.Module, begin: int, end: int, models: list[int], names: set[str] | None = None
) -> set[int]:
    """The lines, where ``names`` are what the calls at the lines ``models`` get, all of it by default."""
    scope, loops = _around(tree, begin)
    shared = [loop for loop in loops if all(_holds(loop, line) for line in (begin, end))]
    if not shared and not isinstance(scope, _FUNCTIONS):
        return set()
    outer, inner = (shared[0], shared[-1]) if shared else (scope, scope)
    if not any(_holds(outer, line) for line in models):
        return set()
    assigned = list(_assignments(outer, _generators(tree)))
    results = _results(assigned, models)
    wanted = (_arguments(outer, models) if names is None else names) - results
    found: set[int] = set()
    while more := [a for a in assigned if a.names & wanted and a.line not in found]:
        found |= {a.line for a in more}
        wanted |= {name for a in more for name in a.uses} - results
    found = {line for line in found if _passes(inner, begin, line, end)}
    if isinstance(scope, _FUNCTIONS) and not shared and begin >= end:
        found |= _before(tree, scope, wanted)
    return found


def _before(tree: ast.Module, function: _Function, wanted: set[str]) -> set[int]:
    """The lines that make a function's parameters, where one loop calls it at one line."""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", None)) == function.name
        and _around(tree, node.lineno)[1]
    ]
    if len(calls) != 1 or _around(tree, calls[0].lineno)[0] is function:
        return set()
    [call] = calls
    parameters = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    if isinstance(call.func, ast.Attribute):
        parameters = parameters[1:]
    given = {each.arg: each.value for each in call.keywords} | dict(
        zip(parameters, call.args, strict=False)
    )
    names = {name for each, value in given.items() if each in wanted for name in _names(value)}
    return _made(tree, call.lineno, call.lineno, [call.lineno], names)


class _Assignment:
    """One statement that gives names a value."""

    def __init__(self, node: ast.stmt, targets: Sequence[ast.expr], value: ast.expr) -> None:
        self.line, self.last = node.lineno, value.end_lineno or node.lineno
        self.names = {name for target in targets for name in _names(target)}
        self.uses = set(_names(value))


@lru_cache(maxsize=4)
def _parsed(file: str) -> tuple[ast.Module, list[str]] | None:
    if not os.path.isfile(file):  # a pipe would be waited for
        return None
    try:
        with open(file, "rb") as stream:
            source = stream.read(LONGEST + 1)
        if len(source) > LONGEST:
            return None
        return ast.parse(source), source.decode("utf-8", "replace").split("\n")
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_there(lines: list[str], place: SourceLine) -> bool:
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
        elif isinstance(node, _LOOPS):
            loops.append(node)
    return scope, loops


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """What is in ``node`` and runs with it: nothing of functions that are defined there."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _SCOPES):
            yield child
            yield from _inside(child)


def _names(node: ast.expr) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def _assignments(loop: ast.AST, generators: set[str]) -> Iterator[_Assignment]:
    """Those in which something is called or taken out of something; the loop's own, if it may be slow."""
    for node in (loop, *_inside(loop)):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            if any(isinstance(each, (ast.Call, ast.Subscript)) for each in ast.walk(node.value)):
                targets = list(node.targets) if isinstance(node, ast.Assign) else [node.target]
                yield _Assignment(node, targets, node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor)) and generators & set(_names(node.iter)):
            yield _Assignment(node, [node.target], node.iter)


def _generators(tree: ast.Module) -> set[str]:
    """The functions of a module that are generators."""
    return {
        each.name
        for each in ast.walk(tree)
        if isinstance(each, _FUNCTIONS)
        and any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in _inside(each))
    }


def _arguments(loop: ast.AST, models: list[int]) -> set[str]:
    """The names that the calls at these lines are made with."""
    calls = [n for n in _inside(loop) if isinstance(n, ast.Call) and n.lineno in models]
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
