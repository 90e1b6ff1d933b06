"""Which functions, classes and module levels a path names, and which hooks act in each of them.

:func:`find` walks from the module's level along the paths of the requests, and gives every scope that one of
them names as a :class:`NamedScope`. :class:`ScopeHooks` sorts the requests of one scope by what they wait
for. :class:`MatchLog` collects the matches, and the reasons why others found nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from .facts import Facts, outline, scan
from .method_calls import is_method
from .nodes import FUNCTIONS, ScopeNode, imported, own_statements, parameters
from .request import ANYWHERE, Match, Request

CALL_POINTS = frozenset({"#enter", "#exit", "#error", "#value", "#yield", "#receive", "#scope"})
"""Points of a call. A class body, which nothing calls, has none of them."""

_AROUND = frozenset({"#enter", "#exit", "#error"})

Child = tuple["str | None", ScopeNode]


class NamedScope:
    """One scope of the module that requests name."""

    __slots__ = ("_facts", "cramped", "function", "node", "owner", "requests")

    def __init__(self, node: ScopeNode, function: str, owner: str | None) -> None:
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
        """What the scope binds and reads. It is found once, before anything in the scope is changed."""
        if self._facts is None:
            methods = {
                r.variable[1:] for r in self.requests if r.variable and is_method(r.variable)
            }
            self._facts = outline(self.node) if self.around else scan(self.node, methods)
        return self._facts

    @property
    def around(self) -> bool:
        """Whether hooks only go before and behind the body of a function, which stays as it is.

        Then the body is not scanned at all. Hooks may capture parameters, at the beginning only: later the
        function may have deleted them.
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


class _ScopeFinder:
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
        self.places: list[NamedScope] = []

    def run(self, tree: ast.Module) -> list[NamedScope]:
        """Find the scopes that the requests name, outer ones first."""
        stack: list[tuple[NamedScope, tuple[str, ...] | None]] = [(NamedScope(tree, "", None), ())]
        while stack:
            place, path = stack.pop()
            self.claim(place, path)
            children = [
                (self.inside(place, name, node), self.extend(path, name))
                for name, node in self.children(place, path)
            ]
            stack.extend(
                (inner, inner_path)
                for inner, inner_path in reversed(children)
                if self.wanted(inner_path)
            )
        return self.places

    def wanted(self, path: tuple[str, ...] | None) -> bool:
        """Whether requests may name the scope at ``path``, or one inside of it."""
        return bool(self.anywhere) or path in self.prefixes

    def extend(self, path: tuple[str, ...] | None, name: str | None) -> tuple[str, ...] | None:
        """The path of the scope ``name`` in ``path``; None for a nameless lambda and all inside of it."""
        return None if path is None or name is None else (*path, name)

    def children(self, place: NamedScope, path: tuple[str, ...] | None) -> Sequence[Child]:
        """The scopes directly inside of ``place`` by their names.

        Only a request for every function of the module needs nameless ones, and those in expressions.
        """
        if self.anywhere:
            return [(name, node) for node, name in place.facts.nested]
        if isinstance(place.node, ast.Lambda) or path is None or len(path) >= self.depth:
            return ()
        return list(definitions(place.node.body))

    def claim(self, place: NamedScope, path: tuple[str, ...] | None) -> None:
        """Give a scope the requests that name it, and keep it if there are any."""
        for request in (*self.anywhere, *(self.by_path.get(path, ()) if path is not None else ())):
            if not (isinstance(place.node, ast.ClassDef) and request.variable in CALL_POINTS):
                place.requests.append(request)
        if place.requests:
            self.places.append(place)

    def inside(self, outer: NamedScope, name: str | None, node: ScopeNode) -> NamedScope:
        """The scope of ``node``, which ``outer`` holds under ``name``."""
        separator = ".<locals>." if isinstance(outer.node, FUNCTIONS) else "."
        prefix = outer.function + separator if outer.function else ""
        own_name = (
            name if isinstance(node, ast.Lambda) and name else getattr(node, "name", "<lambda>")
        )
        owner = node.name if isinstance(node, ast.ClassDef) else outer.owner
        place = NamedScope(node, prefix + own_name, owner)
        if isinstance(node, ast.Lambda) and self.anywhere:
            place.cramped = outer.cramped or id(node) in outer.facts.cramped
        return place


def find(tree: ast.Module, requests: Sequence[Request]) -> list[NamedScope]:
    """The scopes that ``requests`` name, each with its requests, outer ones first."""
    return _ScopeFinder(requests).run(tree)


def definitions(body: Sequence[ast.stmt]) -> Iterator[Child]:
    """What a scope's statements define: functions, classes and lambdas that get a name.

    Conditional definitions and those inside loops, ``with`` and ``try`` belong to the scope as well.
    """
    for node in own_statements(body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            yield from _named_lambda(node)


def imports(body: Sequence[ast.stmt]) -> set[str]:
    """The names that the import statements of a scope bind."""
    return {
        name
        for node in own_statements(body)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
        if (name := imported(alias, node))
    }


def _named_lambda(node: ast.Assign | ast.AnnAssign) -> Iterator[Child]:
    if isinstance(node.value, ast.Lambda):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value


WILD_POINTS = ("#enter", "#receive", "#yield", "#exit")
"""Points of a function that a request for all of its variables includes."""


class Hook:
    """One request as it acts in one scope."""

    __slots__ = ("kind", "name", "override", "request", "wild")

    def __init__(self, request: Request, suffix: str = "", kind: str | None = None) -> None:
        self.request = request
        self.name = request.hook + suffix
        # A hook on what gets bound may return a stand-in for it.
        self.override = request.override or suffix == "&"
        self.wild = request.variable is None and not suffix
        """Whether it is called with the name of the variable too, since it acts on all of them."""
        self.kind = kind
        """The kind of its matches, where it is not that of the place."""


class ScopeHooks:
    """The hooks of one scope, by what they act on.

    ``bindings`` and ``imports`` act on what a module binds to a name: the former wherever that happens, the
    latter at its imports only.
    """

    def __init__(
        self, place: NamedScope, bindings: Iterable[Hook] = (), imports: Iterable[Hook] = ()
    ) -> None:
        self.place = place
        self.variables: dict[str, list[Hook]] = {}
        self.wild: list[Hook] = []
        self.points: dict[str, list[Hook]] = {}
        self.methods: dict[str, Hook] = {}
        """By name of a method the hook on its calls, which all probes share."""
        self.captures = False
        """Whether any hook captures other variables."""
        self._merged: dict[str, list[Hook]] = {}
        for request in place.requests:
            self._sort(Hook(request))
        for hook in bindings:
            self.variables.setdefault(hook.request.path[0], []).append(hook)
        self.imports: dict[str, list[Hook]] = {}
        for hook in imports:
            self.imports.setdefault(hook.request.path[0], []).append(hook)
        self.dotted = any("." in variable for variable in self.variables)

    def _sort(self, hook: Hook) -> None:
        variable = hook.request.variable
        self.captures = self.captures or bool(hook.request.captures)
        if variable is None:
            self.wild.append(hook)
            if hook.request.category is None and isinstance(self.place.node, FUNCTIONS):
                for point in WILD_POINTS:
                    self.points.setdefault(point, []).append(hook)
        elif is_method(variable):
            self.methods[variable[1:]] = hook
        elif variable.startswith("#"):
            self.points.setdefault(variable, []).append(hook)
        else:
            self.variables.setdefault(variable, []).append(hook)

    def variable(self, key: str) -> list[Hook]:
        """The hooks for a variable as it is written, in the order in which they act."""
        hooks = self._merged.get(key)
        if hooks is None:
            hooks = self._merged[key] = self._collect(key)
        return hooks

    def _collect(self, key: str) -> list[Hook]:
        """The hooks for a variable, under its own and its mangled name, and those for every variable."""
        hooks = list(self.variables.get(key, ()))
        mangled_key = self.mangled(key)
        if mangled_key != key:
            hooks += self.variables.get(mangled_key, ())
        if "." not in key:
            hooks += self.wild
        order = {id(request): n for n, request in enumerate(self.place.requests)}
        tags = self.place.facts.tags.get(key, ()) if any(h.request.category for h in hooks) else ()
        tagged = [
            h for h in hooks if h.kind or not h.request.category or h.request.category in tags
        ]
        return ordered(tagged, order)

    def mangled(self, key: str) -> str:
        """A variable's name as the compiler mangles it: ``self.__x`` in class ``A`` is ``self._A__x``."""
        owner = (self.place.owner or "").lstrip("_")
        if not owner or "__" not in key:
            return key
        return ".".join(
            f"_{owner}{part}" if part.startswith("__") and not part.endswith("__") else part
            for part in key.split(".")
        )

    def point(self, variable: str) -> list[Hook]:
        """The hooks for ``#enter`` and the like, in the order in which they act."""
        return ordered(self.points.get(variable, []), {})

    def loops(self, prefix: str, names: Iterable[str]) -> list[Hook]:
        """The hooks for a loop over ``names``: those of ``#loop_i``, and of the bare ``#loop``."""
        wanted = [prefix, *(f"{prefix}_{name}" for name in names)]
        return [hook for variable in wanted for hook in self.points.get(variable, ())]


def ordered(hooks: list[Hook], order: dict[int, int]) -> list[Hook]:
    """Hooks that override first, then in the order of their requests: others observe what these give."""
    if len(hooks) < 2:
        return hooks
    return sorted(hooks, key=lambda hook: (not hook.override, order.get(id(hook.request), -1)))


class MatchLog:
    """The matches of the requests on one module, and the reasons why others found nothing."""

    def __init__(self, module: str, filename: str, source: str) -> None:
        self.module = module
        self.filename = filename
        self.source = source
        self.matches: list[Match] = []
        self.matched: set[int] = set()
        """Identities of the requests that were met."""
        self.reasons: dict[int, str] = {}
        self._lines: list[str] | None = None

    def add_match(self, hook: Hook, function: str, line: int, kind: str) -> None:
        """Note a place where a hook was put."""
        self.matched.add(id(hook.request))
        self.matches.append(
            Match(
                hook.request,
                self.module,
                function,
                self.filename,
                line,
                self.line(line),
                hook.kind or kind,
            )
        )

    def refuse(self, request: Request, reason: str) -> None:
        """Note why a hook could not be put somewhere. The first reason counts."""
        self.reasons.setdefault(id(request), reason)

    def line(self, number: int) -> str:
        """One line of the source, stripped."""
        if self._lines is None:
            # str.splitlines would also split at form feeds, which are no line ends in Python.
            text = self.source.replace("\r\n", "\n").replace("\r", "\n")
            self._lines = text.split("\n")
        return self._lines[number - 1].strip() if 0 < number <= len(self._lines) else ""
