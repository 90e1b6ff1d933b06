"""By what a training step is known in a source: gradients are computed, weights are updated."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from enum import Flag, auto
from functools import cache

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOP = (ast.For, ast.AsyncFor, ast.While)


class Sign(Flag):
    """What a piece of a program does of a training step."""

    NONE = 0
    BACKWARD = auto()
    UPDATE = auto()


_STEPS = re.compile(r"opt|engine|solver|scaler|accelerator")
_NO_STEPS = re.compile(r"sched|profil|env|progress|timer|ema")
_UPDATES = re.compile(r"(optimizer_step|apply_gradients|apply_updates|train_on_batch|minimize)$")


def of_call(node: ast.Call) -> Sign:
    """What a call does by itself, as far as its name tells."""
    if isinstance(node.func, ast.Name):
        return Sign.UPDATE if _UPDATES.search(node.func.id) else Sign.NONE
    if not isinstance(node.func, ast.Attribute):
        return Sign.NONE
    name, of = node.func.attr, ast.unparse(node.func.value).lower()
    if name in ("backward", "manual_backward", "scaled_backward"):
        return Sign.BACKWARD
    if name == "gradient" and "tape" in of:
        return Sign.BACKWARD
    if name == "step" and _STEPS.search(of) and not _NO_STEPS.search(of):
        return Sign.UPDATE
    return Sign.UPDATE if _UPDATES.search(name) else Sign.NONE


@cache
def is_loop(node: ast.AST) -> bool:
    """Whether ``node`` is a loop that may go through steps.

    One that goes through optimizers, to have each of them update its weights, is a part of one step.
    """
    if not isinstance(node, (ast.For, ast.AsyncFor)):
        return isinstance(node, ast.While)
    if not isinstance(node.target, ast.Name):
        return True
    inside = (each for each in ast.walk(node) if isinstance(each, ast.Call))
    done = [each.func for each in inside if of_call(each) is Sign.UPDATE]
    ours = [
        f for f in done if isinstance(f, ast.Attribute) and ast.unparse(f.value) == node.target.id
    ]
    return not done or len(ours) != len(done)


@cache
def own(node: ast.AST, loops: bool = True) -> tuple[ast.AST, ...]:
    """The nodes of a scope: without functions and classes in it, and without its loops if so wanted."""
    found: list[ast.AST] = []
    waiting = list(ast.iter_child_nodes(node))[::-1]
    while waiting:
        child = waiting.pop()
        if isinstance(child, (*FUNCTION, ast.ClassDef, ast.Lambda)):
            continue
        found.append(child)
        if loops or not is_loop(child):
            waiting += list(ast.iter_child_nodes(child))[::-1]
    return tuple(found)


def calls(node: ast.AST, loops: bool = True) -> Iterator[ast.Call]:
    """The calls in a scope."""
    return (each for each in own(node, loops) if isinstance(each, ast.Call))


def certain(body: Sequence[ast.stmt], does: frozenset[int]) -> bool:
    """Whether every way through ``body`` makes one of the calls ``does`` (by ``id``).

    Ending the loop or the function is no way through it; going on with the next turn is one. What is
    in a loop of its own may happen any number of times, and is not certain.
    """
    for statement in body:
        if _certain(statement, does):
            return True
        if any(isinstance(each, ast.Continue) for each in (statement, *own(statement, False))):
            return False
    return False


def _certain(node: ast.stmt, does: frozenset[int]) -> bool:
    if isinstance(node, ast.If):
        return certain(node.body, does) and certain(node.orelse, does)
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return certain(node.body, does)
    if isinstance(node, ast.Try):
        return certain(node.body, does) or certain(node.finalbody, does)
    if isinstance(node, (ast.For, ast.AsyncFor)) and not is_loop(node):
        return certain(node.body, does)
    if isinstance(node, (*LOOP, *FUNCTION, ast.ClassDef, ast.Match)):
        return False
    return any(id(each) in does for each in ast.walk(node))
