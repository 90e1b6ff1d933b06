"""The lines of the program that start and make a loss, as its text tells: only these need ``ast``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .losses import LossSource
from .profile import SourceLine

MOST = 1 << 19
"""Bytes of a file that is looked into."""
SCALING = ("scale", "scale_loss")
"""Methods whose argument is the loss: ``scaler.scale(loss).backward()``."""
Statement = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr


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
