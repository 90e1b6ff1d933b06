"""Which functions, classes and module levels a path names, found without looking at expressions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .methods import is_method
from .nodes import FUNCTIONS, Scope, imported, parameters
from .request import ANYWHERE, Request
from .scope import Facts, outline, scan

CALL_POINTS = frozenset({"#enter", "#exit", "#error", "#value", "#yield", "#receive", "#scope"})
"""What happens when something is called: a class body has none of it."""

_AROUND = frozenset({"#enter", "#exit", "#error"})

Child = tuple["str | None", Scope]


class Place:
    """One scope of the module that requests name."""

    __slots__ = ("_facts", "cramped", "function", "node", "owner", "requests")

    def __init__(self, node: Scope, function: str, owner: str | None) -> None:
        self.node = node
        self.function = function
        """Its ``__qualname__``, ``""`` for the module."""
        self.owner = owner
        """The class whose name private names are mangled with."""
        self.cramped = False
        """Whether it is a lambda in which nothing may be assigned."""
        self.requests: list[Request] = []
        self._facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        """What the scope binds and reads; found out once, before anything in it is changed."""
        if self._facts is None:
            methods = {
                r.variable[1:] for r in self.requests if r.variable and is_method(r.variable)
            }
            self._facts = outline(self.node) if self.around else scan(self.node, methods)
        return self._facts

    @property
    def around(self) -> bool:
        """Whether hooks are only put before and behind the body of a function, which stays as it is.

        What they may ask for is parameters, at its beginning: nothing has been unbound then.
        """
        if not (self.requests and isinstance(self.node, (ast.FunctionDef, ast.AsyncFunctionDef))):
            return False
        own: set[str] | None = None
        for request in self.requests:
            if request.variable not in _AROUND or request.path == ANYWHERE:
                return False
            if request.captures:
                own = own or {arg.arg for arg in parameters(self.node.args)}
                if request.variable != "#enter" or not own.issuperset(request.captures):
                    return False
        return True


class _Finder:
    """One walk over a module for a set of requests."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.anywhere = [request for request in requests if request.path == ANYWHERE]
        self.by_path: dict[tuple[str, ...], list[Request]] = {}
        self.prefixes: set[tuple[str, ...]] = {()}
        for request in requests:
            if request.path != ANYWHERE:
                self.by_path.setdefault(request.path, []).append(request)
                self.prefixes.update(request.path[:end] for end in range(len(request.path) + 1))
        self.depth = max(map(len, self.prefixes))
        self.places: list[Place] = []

    def run(self, tree: ast.Module) -> list[Place]:
        stack: list[tuple[Place, tuple[str, ...] | None]] = [(Place(tree, "", None), ())]
        while stack:
            place, path = stack.pop()
            self.claim(place, path)
            below = [
                (self.inside(place, name, node), self.extend(path, name))
                for name, node in self.children(place, path)
            ]
            stack.extend(
                (inner, longer) for inner, longer in reversed(below) if self.wanted(longer)
            )
        return self.places

    def wanted(self, path: tuple[str, ...] | None) -> bool:
        return bool(self.anywhere) or path in self.prefixes

    def extend(self, path: tuple[str, ...] | None, name: str | None) -> tuple[str, ...] | None:
        """The path of a scope inside; None from a nameless lambda on."""
        return None if path is None or name is None else (*path, name)

    def children(self, place: Place, path: tuple[str, ...] | None) -> Sequence[Child]:
        if self.anywhere:
            return [(name, node) for node, name in place.facts.nested]
        if isinstance(place.node, ast.Lambda) or path is None or len(path) >= self.depth:
            return ()
        return list(definitions(place.node.body))

    def claim(self, place: Place, path: tuple[str, ...] | None) -> None:
        """Give a scope the requests that name it."""
        for request in (*self.anywhere, *(self.by_path.get(path, ()) if path is not None else ())):
            if not (isinstance(place.node, ast.ClassDef) and request.variable in CALL_POINTS):
                place.requests.append(request)
        if place.requests:
            self.places.append(place)

    def inside(self, outer: Place, name: str | None, node: Scope) -> Place:
        between = ".<locals>." if isinstance(outer.node, FUNCTIONS) else "."
        prefix = outer.function + between if outer.function else ""
        own = name if isinstance(node, ast.Lambda) and name else getattr(node, "name", "<lambda>")
        owner = node.name if isinstance(node, ast.ClassDef) else outer.owner
        place = Place(node, prefix + own, owner)
        if isinstance(node, ast.Lambda) and self.anywhere:
            place.cramped = outer.cramped or id(node) in outer.facts.cramped
        return place


def find(tree: ast.Module, requests: Sequence[Request]) -> list[Place]:
    """The scopes that ``requests`` name, each with its requests, outer ones first."""
    return _Finder(requests).run(tree)


def definitions(body: Sequence[ast.stmt]) -> Iterator[Child]:
    """What a scope's statements define: functions, classes and lambdas that get a name.

    Conditional definitions and those inside loops, ``with`` and ``try`` belong to the scope as well.
    """
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            yield from _named_lambda(node)
        else:
            for field in ("finalbody", "orelse", "handlers", "cases", "body"):
                inside = getattr(node, field, None)
                if isinstance(inside, list):
                    stack.extend(reversed(inside))


def imports(body: Sequence[ast.stmt]) -> set[str]:
    """The names that import statements of a scope bind."""
    found: set[str] = set()
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(name for alias in node.names if (name := imported(alias, node)))
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for field in ("finalbody", "orelse", "handlers", "cases", "body"):
                inside = getattr(node, field, None)
                if isinstance(inside, list):
                    stack.extend(inside)
    return found


def _named_lambda(node: ast.Assign | ast.AnnAssign) -> Iterator[Child]:
    if isinstance(node.value, ast.Lambda):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
