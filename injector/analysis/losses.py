"""Where a loss comes from: which of several it is, what it is called in the program, which line made it.

Every loss that backward starts from is recorded in one series. The line of the program that
starts backward distinguishes those of two models; those of a study are separated by trial.
"""

from __future__ import annotations

import ast
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise

from ..store import spans
from ..store.folder import Run
from ..value_class import value_class
from .profile import SourceLine

Origin = Callable[[int, float], str]
"""Of the index of a process and a moment (unix seconds): what is added to the name of a loss."""
SEVERAL = 6
"""Lines, or trials, whose losses are kept apart; more lines are of one thing."""
MOST = 1 << 19
"""Bytes of a file that is looked into."""
SCALING = ("scale", "scale_loss")
"""Methods whose argument is the loss: ``scaler.scale(loss).backward()``."""
Statement = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr


@value_class
class LossSource:
    """A loss in the program's own text."""

    name: str
    """The variable, or the expression, that backward starts from; empty where the text does not say so."""
    place: SourceLine
    """The line that calls backward, or a library that does."""
    made: SourceLine | None
    """The line that assigns it; None where it was not found, or the file has changed since."""


def loss_source(place: SourceLine) -> LossSource:
    """What the loss of backward at ``place`` is called, and where it was made, as the file tells."""
    try:
        called = _started(ast.parse(place.text.rstrip(":") if place.text else ""))
    except SyntaxError:  # a part of a statement
        called = None
    if called is None:
        return LossSource("", place, None)
    name = ast.unparse(called)
    return LossSource(name, place, _made(place, name) if _is_variable(called) else None)


def _started(tree: ast.AST) -> ast.expr | None:
    """The expression that backward starts from: ``loss`` of ``loss.backward()`` or ``backward(loss)``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
            continue
        word = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        if word not in ("backward", "manual_backward"):
            continue
        found = node.args[0] if node.args else None
        own = node.func.value if isinstance(node.func, ast.Attribute) else None
        if own is not None and (found is None or "loss" in ast.unparse(own).lower()):
            found = own  # of a tensor's own method, an argument is the gradient
        return found and _unscaled(found)
    return None


def _unscaled(found: ast.expr) -> ast.expr:
    if not (isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute) and found.args):
        return found
    return found.args[0] if found.func.attr in SCALING else found


def _is_variable(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or (
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    )


def _made(place: SourceLine, name: str) -> SourceLine | None:
    """The last assignment before ``place`` in its function that makes ``name`` anew."""
    try:
        with open(place.file, encoding="utf-8") as file:
            text = file.read(MOST + 1)
        lines = text.splitlines()
        if len(text) > MOST or lines[place.line - 1].strip() != place.text:
            return None
        tree = ast.parse(text)
    except (OSError, ValueError, IndexError, SyntaxError, RecursionError):
        return None
    around = [node for node in ast.walk(tree) if _holds(node, place.line)]
    scope: ast.AST = max(around, key=lambda node: node.lineno, default=tree)  # type: ignore[attr-defined]
    found = [node for node in _assignments(scope, name) if node.lineno <= place.line]
    anew = [node for node in found if not _reads(node, name)] or found
    if not anew:
        return None
    line = max(node.lineno for node in anew)
    return SourceLine(place.file, line, place.function, lines[line - 1].strip())


def _holds(node: ast.AST, line: int) -> bool:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, functions) and node.lineno <= line <= (node.end_lineno or 0)


def _assignments(scope: ast.AST, name: str) -> Iterator[Statement]:
    """Statements that assign ``name`` in ``scope``, not in the functions within it."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, Statement):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = (part for target in targets for part in ast.walk(target))
            if any(isinstance(part, ast.expr) and ast.unparse(part) == name for part in parts):
                yield node
        yield from _assignments(node, name)


def _reads(node: Statement, name: str) -> bool:
    """Whether ``name`` goes into what is assigned: a loss that is divided, or added to."""
    if isinstance(node, ast.AugAssign):
        return True
    parts = ast.walk(node.value) if node.value is not None else ()
    return any(isinstance(part, ast.expr) and ast.unparse(part) == name for part in parts)


# --- which thing a loss is of ---------------------------------------------------------------------


def origins_of(run: Run) -> tuple[Origin | None, dict[str, SourceLine]]:
    """Which of several things a loss is of (None where there is but one), and where each is started from.

    The latter by what is added to its name.
    """
    raw = os.path.join(run.path, "raw")
    if not (os.path.isdir(raw) and any(spans.SUFFIX in name for name in os.listdir(raw))):
        return None, {}
    from .columns import SECOND, read_rows, sources  # numpy is only loaded for runs that need it

    known: dict[int, tuple[list[float], list[str]]] = {}
    places: dict[str, SourceLine] = {}
    for source in sources(run):
        lines: dict[int, str] = {}
        trials = []
        for number, site in source.sites.items():
            if site.clock == "host" and site.region == "backward" and site.place:
                lines[number] = f" at {os.path.basename(site.place.file)}:{site.place.line}"
            elif site.region == "trial":
                trials.append(number)
        called = {site.place for site in source.sites.values() if site.number in lines}
        if len(called) == 1 and not trials:
            places.update(("", place) for place in called if place)
        if not trials and not 1 < len(set(lines.values())) <= SEVERAL:
            continue
        rows = read_rows(source)
        moments = []
        if trials:
            begun = sorted(
                t for t, number in zip(rows.start.tolist(), rows.site.tolist(), strict=True)
                if number in trials
            )  # fmt: skip
            for at, moment in enumerate(begun, 1):
                label = f" of trial {at}" if len(begun) <= SEVERAL else f" of {len(begun)} trials"
                moments.append((moment / SECOND, label))
        else:
            for number, label in lines.items():
                if (place := source.sites[number].place) is not None:
                    places[label] = place
                mine = rows.start[rows.site == number].tolist()
                moments += [(moment / SECOND, label) for moment in mine]
            # A loss is recorded as its backward begins: in the middle of two it is the later one's.
            moments.sort()
            edges = [(one[0] + two[0]) / 2 for one, two in pairwise(moments)]
            moments = [(e, label) for e, (_, label) in zip([0.0, *edges], moments, strict=False)]
        known[source.index] = [each[0] for each in moments], [each[1] for each in moments]
    if not known:
        return None, places

    def origin(process: int, time: float) -> str:
        edges, labels = known.get(process, ([], []))
        at = bisect_right(edges, time) - 1
        return labels[at] if at >= 0 else ""

    return origin, places
