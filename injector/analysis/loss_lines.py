"""The lines of the program that start backward from a loss, and that make the loss, found in its text.

In ::

    loss = criterion(model(x), y)
    loss = loss / accumulate
    scaler.scale(loss).backward()

backward is started by the third line, from ``loss``; the first line makes it. The second one only changes it,
and is not what a reader of the report looks for; no more is the ``loss = 0`` with which a sum begins. This is
a module of its own since it imports ``ast``, which most runs do not need.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .losses import LossSource
from .profile import SourceLine

MOST = 1 << 19
"""Bytes of the largest file that is parsed."""
SCALING = ("scale", "scale_loss")
"""Methods whose argument is the loss: ``scaler.scale(loss).backward()``."""
Statement = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr


def loss_source(place: SourceLine) -> LossSource:
    """What the loss is called from which the line ``place`` starts backward, and which line made it."""
    try:
        loss = _loss_in(ast.parse(place.text.rstrip(":") if place.text else ""))
    except SyntaxError:  # the line is a part of a statement
        loss = None
    if loss is None:
        return LossSource("", place, None)
    name = ast.unparse(loss)
    return LossSource(name, place, _making_line(place, name) if _is_variable(loss) else None)


def _loss_in(tree: ast.AST) -> ast.expr | None:
    """The expression that backward starts from: ``loss`` in ``loss.backward()`` and ``backward(loss)``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        if name not in ("backward", "manual_backward"):
            continue
        loss = node.args[0] if node.args else None
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        # An argument is the loss in `accelerator.backward(loss)`, but the gradient in `loss.backward(scale)`.
        if receiver is not None and (loss is None or "loss" in ast.unparse(receiver).lower()):
            loss = receiver
        return loss and _unscaled(loss)
    return None


def _unscaled(loss: ast.expr) -> ast.expr:
    """The loss itself, in an expression that may scale it for mixed precision."""
    if not (isinstance(loss, ast.Call) and isinstance(loss.func, ast.Attribute) and loss.args):
        return loss
    return loss.args[0] if loss.func.attr in SCALING else loss


def _is_variable(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or (
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    )


def _making_line(place: SourceLine, name: str) -> SourceLine | None:
    """The last assignment before ``place`` in the same function that makes ``name`` anew.

    None if there is none, several may be the last one (in branches of an ``if``), or the file is not there as
    it was when the program ran.
    """
    try:
        with open(place.file, encoding="utf-8") as file:
            text = file.read(MOST + 1)
        lines = text.splitlines()
        if len(text) > MOST or lines[place.line - 1].strip() != place.text:
            return None
        tree = ast.parse(text)
    except (OSError, ValueError, IndexError, SyntaxError, RecursionError):
        return None
    functions = [node for node in ast.walk(tree) if _is_function_around(node, place.line)]
    # Of functions in each other, the innermost begins last; without any, it is the module's own code.
    scope: ast.AST = max(functions, key=lambda node: node.lineno, default=tree)  # type: ignore[attr-defined]
    assignments = [node for node in _assignments(scope, name) if node.lineno <= place.line]
    filled = [node for node in assignments if not _is_empty(node, name)] or assignments
    summed = [node for node in filled if not _divides(node, name)] or filled
    making = [node for node in summed if not _reads(node, name)] or summed
    if not making:
        return None
    line = max(node.lineno for node in making)
    if len(making) > 1 and _is_passed_by(scope, line, place.line):
        return None
    return SourceLine(place.file, line, place.function, lines[line - 1].strip())


def _is_function_around(node: ast.AST, line: int) -> bool:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, functions) and node.lineno <= line <= (node.end_lineno or 0)


def _assignments(scope: ast.AST, name: str) -> Iterator[Statement]:
    """The statements in ``scope`` that assign ``name``, without those of functions and classes within it."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, Statement):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = (part for target in targets for part in ast.walk(target))
            if any(isinstance(part, ast.expr) and ast.unparse(part) == name for part in parts):
                yield node
        yield from _assignments(node, name)


def _is_passed_by(scope: ast.AST, line: int, until: int) -> bool:
    """Whether the code may get to the line ``until`` without ``line`` before it: that is one branch of a
    statement in ``scope``, and ``until`` is not in the same one."""
    return any(
        _holds(branch, line) and not _holds(branch, until)
        for node in ast.walk(scope)
        for branch in _branches(node)
    )


def _branches(node: ast.AST) -> list[list[ast.stmt]]:
    """The parts of a statement of which not all are executed."""
    if isinstance(node, ast.If):
        return [node.body, node.orelse]
    if isinstance(node, ast.Try):
        return [node.orelse, *(handler.body for handler in node.handlers)]
    return [case.body for case in node.cases] if isinstance(node, ast.Match) else []


def _holds(branch: list[ast.stmt], line: int) -> bool:
    return bool(branch) and branch[0].lineno <= line <= (branch[-1].end_lineno or 0)


def _is_empty(node: Statement, name: str) -> bool:
    """Whether ``name`` begins here as what losses are put into: a number, list or dict, or one in a tuple."""
    values = [node.value]
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
        pairs = [
            (part, value)
            for target in node.targets
            if isinstance(target, ast.Tuple | ast.List)
            for part, value in zip(target.elts, node.value.elts, strict=False)
        ]
        values = [value for part, value in pairs if ast.unparse(part) == name] or values
    empty = (ast.Constant, ast.List, ast.Dict)
    return not isinstance(node, ast.AugAssign) and all(isinstance(value, empty) for value in values)


def _divides(node: Statement, name: str) -> bool:
    """Whether what is assigned is ``name`` itself, divided or multiplied."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Div | ast.Mult)
    value = node.value
    return (
        isinstance(value, ast.BinOp)
        and isinstance(value.op, ast.Div | ast.Mult)
        and name in (ast.unparse(value.left), ast.unparse(value.right))
    )


def _reads(node: Statement, name: str) -> bool:
    """Whether the assigned value depends on ``name``: the loss is divided, say, or added to."""
    if isinstance(node, ast.AugAssign):
        return True
    parts = ast.walk(node.value) if node.value is not None else ()
    return any(isinstance(part, ast.expr) and ast.unparse(part) == name for part in parts)
