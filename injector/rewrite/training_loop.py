"""The loop of a source file that trains by hand, what a voirfile names to measure its steps, and whether
the text of a program names anything by which it would train.

It is found by how such loops are written: something that was there before the loop is changed in each
iteration by a product or a quotient (``w -= rate * gradient``), in the loop or in a function that it calls.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from .batches import LOOPS, functions_in, inside

LARGEST = 2_000_000
"""Bytes of a file that is parsed."""
_AROUND = ("enumerate", "tqdm", "track")
_SCALING = (ast.Mult, ast.MatMult, ast.Div)


_TRAINS = re.compile(
    r"(^|_)(train(?!ed|ing$)|fit($|_)|backward($|_)|optim($|_)|optimizers?($|_)|partial_fit|value_and_grad$)"
    r"|Trainer|Optimizer|GradientTape|^grad$|^learn$"
)
"""Names by which libraries train. ``training`` is a model's mode."""


class HandmadeLoop(NamedTuple):
    """A loop, and the call of a voirfile that records its steps."""

    line: int
    call: str | None
    """``ov.step("//update")``; None where no name stands for its steps."""


def how_to_measure(file: str) -> list[str]:
    """What to write so that the steps of the program in ``file`` are recorded, if it trains in a loop."""
    try:
        with open(file, "rb") as source:
            found = handmade_loop(source.read(LARGEST))
    except OSError:
        return []
    if found is None:
        return []
    loop = f"the loop at {os.path.basename(file)}:{found.line}"
    if found.call is None:
        return [
            f"{loop} has nothing that ov.step or ov.loader could name: to measure its steps, "
            'write `with injector.region("step"):` around its body'
        ]
    return [
        f"to measure {loop}, save a voirfile FILE with `def instrument_loop(ov): {found.call}` "
        "and run it with inject run --voirfile FILE"
    ]


def may_train(files: Iterable[str]) -> bool:
    """Whether one of these source files names what trains, or cannot be read: then it may."""
    room = LARGEST
    for file in files:
        try:
            with open(file, "rb") as source:
                text = source.read(room + 1)
        except OSError:
            return True
        room -= len(text)
        tree = _parsed(text) if room >= 0 else None
        if tree is None or any(_TRAINS.search(name) for name in _names(tree)):
            return True
    return False


def _names(tree: ast.AST) -> Iterator[str]:
    """What is used or imported in it by name."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield _name(node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.name.rpartition(".")[2] for alias in node.names)


def _parsed(text: str | bytes) -> ast.AST | None:
    try:
        # The compiler has given its warnings when the program was compiled.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def handmade_loop(text: str | bytes) -> HandmadeLoop | None:
    """The innermost loop of ``text`` that trains; None where there is none, or it does not parse."""
    tree = _parsed(text)
    if tree is None or not any(map(_imports_package, ast.walk(tree))):
        return None  # no weights without arrays
    functions = dict(functions_in(tree))
    updating = {name for name, one in functions.items() if any(map(_is_update, inside(one)))}
    called: HandmadeLoop | None = None
    for path, scope in [("", tree), *functions.items()]:
        for loop in (node for node in inside(scope) if isinstance(node, LOOPS)):
            body = list(inside(loop))
            if any(isinstance(node, LOOPS) for node in body):
                continue
            names = [_name(node.func) for node in body if isinstance(node, ast.Call)]
            steps = [each for each in updating if each.rpartition("/")[2] in names]
            if any(map(_is_update, body)):
                return HandmadeLoop(loop.lineno, _of_iterable(loop, path))
            if len(steps) == 1:
                called = called or HandmadeLoop(loop.lineno, f'ov.step("//{steps[0]}")')
    return called


def _imports_package(node: ast.AST) -> bool:
    """Whether something is imported that does not come with Python."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and not node.level:
        names = [node.module or ""]
    return any(name.partition(".")[0] not in sys.stdlib_module_names for name in names)


def _is_update(node: ast.AST) -> bool:
    """``w -= rate * g``, ``w[:] += x.T @ y``, ``w = w - rate * g``, ``np.subtract(w, rate * g, out=w)``."""
    if isinstance(node, ast.AugAssign):
        return _changes(node.op, node.value)
    if isinstance(node, ast.Call):
        out = next((key.value for key in node.keywords if key.arg == "out"), None)
        return out is not None and _scales(node, _SCALING) and any(map(_same(out), node.args))
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
        value = node.value
        return _changes(value.op, value.right) and any(map(_same(value.left), node.targets))
    return False


def _changes(how: ast.operator, value: ast.AST) -> bool:
    """Whether a weight may be changed so; a sum of products may be any (``total += price * count``)."""
    if isinstance(how, ast.Sub):
        return _scales(value, _SCALING)
    return isinstance(how, ast.Add) and _scales(value, (ast.MatMult,))


def _scales(value: ast.AST, operators: tuple[type[ast.operator], ...]) -> bool:
    return any(
        isinstance(node, ast.BinOp) and isinstance(node.op, operators) for node in ast.walk(value)
    )


def _same(left: ast.AST) -> Callable[[ast.AST], bool]:
    """Whether a node names what ``left`` names."""
    name = ast.unparse(left)
    return lambda node: isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) == name


def _of_iterable(loop: ast.AST, path: str) -> str | None:
    """For a loop over a variable, or over the one that ``enumerate`` and its like are given."""
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return None
    iterable: ast.AST = loop.iter
    while isinstance(iterable, ast.Call) and _name(iterable.func) in _AROUND and iterable.args:
        iterable = iterable.args[0]
    place = f"//{path} >" if path else "// >"
    return f'ov.loader("{place} {iterable.id}")' if isinstance(iterable, ast.Name) else None


def _name(function: ast.AST) -> str:
    return str(getattr(function, "attr", getattr(function, "id", "")))
