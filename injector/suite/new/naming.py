"""How a voirfile names what drives a loop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .loops import Finder, Loop, Scope
from .signs import LOOP, own

_AROUND = re.compile(
    r"enumerate|zip|iter|islice|chain|cycle|track|tqdm|progress|bar$|prefetch|log_every|wrap",
    re.IGNORECASE,
)
"""What is put around a loader, and draws from it."""


def loader(finder: Finder, loop: Loop) -> str | None:
    """A selector of the iterable that drives ``loop``, if one can be told that drives nothing else.

    Each turn of whatever loop it drives will count as a step of training. So it must be a variable
    that no other loop draws from, and every turn must be a step.
    """
    if isinstance(loop.node, ast.While) or not loop.sure:
        return None
    driver = _inside(loop.node.iter, loop.scope)
    if isinstance(driver, ast.Name):
        return _variable(finder, loop, driver.id)
    if isinstance(driver, ast.Attribute) and ast.unparse(driver.value) == "self":
        return _attribute(finder, loop, driver.attr)
    return None


def _inside(node: ast.expr, scope: Scope) -> ast.expr:
    """What an expression iterates over, without counters and progress bars around it."""
    for _ in range(8):
        if isinstance(node, ast.Call) and node.args and _AROUND.search(_called(node)):
            node = node.args[0]
        elif isinstance(node, ast.Name) and (bar := _bar(scope, node.id)) is not None:
            node = bar
        else:
            break
    return node


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]


def _bar(scope: Scope, name: str) -> ast.expr | None:
    """What a variable was made of, if that is a progress bar or the like around something."""
    made = [
        node.value
        for node in own(scope.node)
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    if len(made) == 1 and isinstance(made[0], ast.Call):
        call = made[0]
        if call.args and _AROUND.search(_called(call)):
            return call
    return None


def _variable(finder: Finder, loop: Loop, name: str) -> str | None:
    scope = loop.scope
    drawn = [
        each for each in own(scope.node) if isinstance(each, LOOP) and _draws(each, scope, name)
    ]
    if len(drawn) != 1 or _handed_on(finder, scope, name):
        return None
    values = list(_values(scope.node, name))
    if any(isinstance(value, ast.Call) and _called(value) == "range" for value in values):
        return None  # numbers are no batches
    if not scope.path and not values:
        return None
    return f"{scope.selector} > {name}"


def _draws(node: ast.AST, scope: Scope, name: str) -> bool:
    if isinstance(node, ast.While):
        return False
    assert isinstance(node, (ast.For, ast.AsyncFor))
    driver = _inside(node.iter, scope)
    return isinstance(driver, ast.Name) and driver.id == name


def _values(node: ast.AST, name: str) -> Iterator[ast.expr]:
    """What a variable is set to in a scope."""
    for each in own(node):
        if isinstance(each, ast.Assign):
            for target in each.targets:
                names = [t.id for t in ast.walk(target) if isinstance(t, ast.Name)]
                if name in names:
                    yield each.value


def _handed_on(finder: Finder, scope: Scope, name: str) -> bool:
    """Whether a function of the program is given the variable: it may draw from it as well."""
    for node in own(scope.node):
        if not isinstance(node, ast.Call) or finder.called(scope, node) is None:
            continue
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if any(isinstance(each, ast.Name) and each.id == name for each in given):
            return True
    return False


def _attribute(finder: Finder, loop: Loop, name: str) -> str | None:
    """Where ``self.NAME`` is set, if that is one place and nothing else iterates over it."""
    family = finder.family(loop.scope.owner)
    methods = [scope for scope in finder.scopes if scope.owner in family]
    places = [scope for scope in methods if _sets(scope, name)]
    drawn = [
        node
        for scope in methods
        for node in own(scope.node)
        if isinstance(node, (ast.For, ast.AsyncFor))
        and ast.unparse(_inside(node.iter, scope)) == f"self.{name}"
    ]
    if len(places) != 1 or len(drawn) != 1:
        return None
    return f"{places[0].selector} > self.{name}"


def _sets(scope: Scope, name: str) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node) == f"self.{name}"
        for node in own(scope.node)
    )
