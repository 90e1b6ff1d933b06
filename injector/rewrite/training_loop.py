"""Whether the text of a program trains: by names of libraries, or by hand in a loop.

A loop that trains by hand is recognised by its update: something that was there before the loop is changed in
each turn by a product or a quotient (``w -= rate * gradient``), in the loop or in a function that it calls.
For such a loop, :func:`how_to_measure` says what a voirfile has to name, so that its steps are recorded.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from .nodes import leaves, tested
from .parsed_file import LOOPS, functions_in, inside

LARGEST = 2_000_000
"""The most bytes that are parsed, of all files together."""
_WRAPPERS = ("enumerate", "tqdm", "track")
"""Functions that yield what they are given."""
_SCALING = (ast.Mult, ast.MatMult, ast.Div)


_TRAINS = re.compile(
    r"(^|_)(train(?!ed|ing$)|fit($|_)|backward($|_)|optim($|_)|optimizers?($|_)|partial_fit|value_and_grad$)"
    r"|Trainer|Optimizer|GradientTape|^grad$|^learn$"
)
"""Names by which libraries train. ``training`` is none: it is the mode of a model."""


class HandmadeLoop(NamedTuple):
    """A loop that trains by hand."""

    line: int
    call: str | None
    """The call in a voirfile that records its steps, as ``ov.step("//update")`` or
    ``ov.step("//train > #loop_epoch")``; None if nothing has a name."""


def how_to_measure(file: str) -> list[str]:
    """What to write so that the steps of the program in ``file`` are recorded, as sentences.

    Empty if it does not train by hand in a loop, or cannot be read.
    """
    try:
        with open(file, "rb") as source:
            loop = handmade_loop(source.read(LARGEST))
    except OSError:
        return []
    if loop is None:
        return []
    place = f"the loop at {os.path.basename(file)}:{loop.line}"
    if loop.call is None:
        return [
            f"{place} has nothing that ov.step or ov.loader could name: to measure its steps, "
            'write `with injector.region("step"):` around its body'
        ]
    return [
        f"to measure {place}, save a voirfile FILE with `def instrument_loop(ov): {loop.call}` "
        "and run it with inject run --voirfile FILE"
    ]


def may_train(files: Iterable[str]) -> bool:
    """Whether one of the source ``files`` uses a name by which libraries train, or cannot be read."""
    bytes_left = LARGEST
    for file in files:
        try:
            with open(file, "rb") as source:
                text = source.read(bytes_left + 1)
        except OSError:
            return True
        bytes_left -= len(text)
        tree = _parsed(text) if bytes_left >= 0 else None
        if tree is None or any(_TRAINS.search(name) for name in _names(tree)):
            return True
    return False


def _names(tree: ast.AST) -> Iterator[str]:
    """The names, the names of attributes, and the imported names in ``tree``."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield _name(node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.name.rpartition(".")[2] for alias in node.names)


def _updates_given(function: ast.AST) -> bool:
    """Whether ``function`` updates weights, which it has from elsewhere.

    A variable that it computes and then corrects, as in ``p = f(x); p -= log(c * (1 - y))``, is none.
    """
    nodes = list(inside(function))
    computed = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Call, ast.BinOp))
        for target in node.targets
        if isinstance(target, ast.Name) and not _is_update(node)
    }
    return any(
        _is_update(node)
        and not (
            isinstance(node, ast.AugAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id in computed
        )
        for node in nodes
    )


def _parsed(text: str | bytes) -> ast.AST | None:
    try:
        # The compiler has given its warnings when the program was compiled.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def handmade_loop(text: str | bytes) -> HandmadeLoop | None:
    """The innermost loop of ``text`` that trains by hand; None if there is none, or it does not parse.

    A loop with an update in itself is preferred to one that calls a function with an update. Where the
    innermost loop goes over the weights, it is the one around that trains.
    """
    tree = _parsed(text)
    # Weights are arrays, and arrays come from a package.
    if tree is None or not any(map(_imports_package, ast.walk(tree))):
        return None
    functions = dict(functions_in(tree))
    updating = {path for path, function in functions.items() if _updates_given(function)}
    calling: HandmadeLoop | None = None
    over_weights: HandmadeLoop | None = None
    for path, scope in [("", tree), *functions.items()]:
        loops = [node for node in inside(scope) if isinstance(node, LOOPS)]
        for loop in loops:
            body = list(inside(loop))
            if any(isinstance(node, LOOPS) for node in body):
                continue
            updates = [node for node in body if _is_update(node)]
            if updates:
                pacing = loop
                if all(_is_of(loop, update) for update in updates):
                    around = [one for one in loops if any(node is loop for node in inside(one))]
                    if not around:
                        over_weights = over_weights or _handmade(loop, path, loops)
                        continue
                    pacing = around[-1]
                return _handmade(pacing, path, loops)
            names = [_name(node.func) for node in body if isinstance(node, ast.Call)]
            steps = [update for update in updating if update.rpartition("/")[2] in names]
            if len(steps) == 1:
                calling = calling or HandmadeLoop(loop.lineno, f'ov.step("//{steps[0]}")')
    return calling or over_weights


def _handmade(loop: ast.stmt, path: str, loops: Iterable[ast.stmt]) -> HandmadeLoop:
    """``loop``, one of the ``loops`` of the function ``path``, with the call that records its steps."""
    call = _loader_call(loop, path)
    if call is None:
        others = {name for one in loops if one is not loop for name in _names_of(one)}
        name = next((name for name in _names_of(loop) if name not in others), None)
        call = None if name is None else f'ov.step("//{path} > #loop_{name}")'
    return HandmadeLoop(loop.lineno, call)


def _names_of(loop: ast.AST) -> list[str]:
    """The names by which a selector can name ``loop``: of ``#loop_x`` the x."""
    if isinstance(loop, ast.While):
        return [word for word in tested(loop.test) if word.isidentifier()]
    return [node.id for node in leaves(loop.target) if isinstance(node, ast.Name)]  # type: ignore[attr-defined]


def _is_of(loop: ast.AST, update: ast.AST) -> bool:
    """Whether ``update`` changes what ``loop`` goes over: it goes over the weights, in each step anew.

    As in ``for w, g in zip(weights, grads): w -= rate * g`` or ``for n in layers: W[n] -= rate * g[n]``.
    """
    bound = () if isinstance(loop, ast.While) else _names_of(loop)
    changed: list[ast.AST] = [getattr(update, "target", update)]
    if isinstance(update, ast.Assign):
        changed = list(update.targets)
    elif isinstance(update, ast.Call):
        changed = [key.value for key in update.keywords if key.arg == "out"]
    return any(
        isinstance(node, ast.Name) and node.id in bound for one in changed for node in ast.walk(one)
    )


def _imports_package(node: ast.AST) -> bool:
    """Whether ``node`` imports what does not come with Python."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and not node.level:
        names = [node.module or ""]
    return any(name.partition(".")[0] not in sys.stdlib_module_names for name in names)


def _is_update(node: ast.AST) -> bool:
    """Whether ``node`` updates weights in one of the usual ways.

    These are ``w -= rate * g``, ``w[:] += x.T @ y``, ``w = w - rate * g``,
    ``np.subtract(w, rate * g, out=w)`` and ``ws = [w - rate * g for w, g in zip(ws, gs)]``.
    """
    if isinstance(node, ast.AugAssign):
        return _may_update(node.op, node.value)
    if isinstance(node, ast.Call):
        out = next((key.value for key in node.keywords if key.arg == "out"), None)
        return out is not None and _has(_SCALING, node) and any(map(_is_name_of(out), node.args))
    if isinstance(node, ast.Assign) and isinstance(node.value, (ast.ListComp, ast.DictComp)):
        made = node.value
        each = made.value if isinstance(made, ast.DictComp) else made.elt
        changed = any(
            isinstance(n, ast.BinOp) and _may_update(n.op, n.right) for n in ast.walk(each)
        )
        over = [n for generator in made.generators for n in ast.walk(generator.iter)]
        return changed and any(any(map(_is_name_of(n), node.targets)) for n in over if _name(n))
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
        value = node.value
        return _may_update(value.op, value.right) and any(
            map(_is_name_of(value.left), node.targets)
        )
    return False


def _may_update(operator: ast.operator, change: ast.AST) -> bool:
    """Whether weights may be updated by ``change``.

    To add products is not enough: any sum of prices does. One that begins with a minus, as in
    ``w += -rate * g``, is subtracted.
    """
    if isinstance(operator, ast.Sub):
        return _has(_SCALING, change)
    if not isinstance(operator, ast.Add):
        return False
    first = change
    while isinstance(first, ast.BinOp):
        first = first.left
    negative = isinstance(first, ast.UnaryOp) and isinstance(first.op, ast.USub)
    return _has(_SCALING if negative else (ast.MatMult,), change)


def _has(operators: tuple[type[ast.operator], ...], tree: ast.AST) -> bool:
    """Whether one of the ``operators`` is used in ``tree``."""
    return any(
        isinstance(node, ast.BinOp) and isinstance(node.op, operators) for node in ast.walk(tree)
    )


def _is_name_of(left: ast.AST) -> Callable[[ast.AST], bool]:
    """What says of a node whether it is the name, attribute or element ``left``."""
    name = ast.unparse(left)
    kinds = (ast.Name, ast.Attribute, ast.Subscript)
    return lambda node: isinstance(node, kinds) and ast.unparse(node) == name


def _loader_call(loop: ast.AST, path: str) -> str | None:
    """The call ``ov.loader`` for a loop over a variable, which ``enumerate`` and its like may wrap.

    ``path`` is that of the function around the loop. None for other loops.
    """
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return None
    iterable: ast.AST = loop.iter
    while isinstance(iterable, ast.Call) and _name(iterable.func) in _WRAPPERS and iterable.args:
        iterable = iterable.args[0]
    place = f"//{path} >" if path else "// >"
    return f'ov.loader("{place} {iterable.id}")' if isinstance(iterable, ast.Name) else None


def _name(function: ast.AST) -> str:
    return str(getattr(function, "attr", getattr(function, "id", "")))
