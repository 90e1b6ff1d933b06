"""What a function, class body or module binds, reads and contains, found in one pass.

The pass is a loop, not a recursion: a sum of two thousand terms is two thousand nodes deep.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Set
from typing import Any

from .nodes import FUNCTIONS, ScopeNode, dotted, imported, leaves, parameters

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Inner:
    """A comprehension: a scope inside the scope, in which hooks must not make new closures."""

    __slots__ = ("bound", "loaded", "outer", "targets")

    def __init__(self, outer: Inner | None) -> None:
        self.outer = outer
        self.targets: set[str] = set()
        self.loaded: set[str] = set()
        self.bound: set[str] = set()
        """Those targets that surely have a value where a hook is being put."""

    def element(self) -> Inner:
        """The same scope as the element sees it: every target has a value."""
        view = Inner(self.outer)
        view.loaded = self.loaded
        view.targets = view.bound = self.targets
        return view


class Site:
    """An expression that the rewriter may touch, and the slot in which it stands."""

    __slots__ = ("field", "index", "inner", "node", "own", "parent")

    def __init__(
        self, node: ast.expr, parent: ast.AST, field: str, index: int, inner: Inner | None
    ) -> None:
        self.node = node
        self.parent = parent
        self.field = field
        self.index = index
        self.inner = inner
        """The comprehension around it."""
        self.own: Inner | None = None
        """The scope it opens, if it is a comprehension."""

    def replace(self, new: ast.expr) -> None:
        """Put another expression into the slot."""
        if self.index < 0:
            setattr(self.parent, self.field, new)
        else:
            getattr(self.parent, self.field)[self.index] = new


class Facts:
    """What one pass over a scope found."""

    __slots__ = (
        "assigned",
        "cramped",
        "declarations",
        "declared",
        "deleted",
        "generator",
        "loaded",
        "loads",
        "nested",
        "params",
        "quiet",
        "sites",
        "tags",
        "targets",
    )

    def __init__(self) -> None:
        self.params: list[ast.arg] = []
        self.assigned: set[str] = set()
        """Names and dotted names that some statement or walrus binds here."""
        self.targets: set[str] = set()
        """Names bound by comprehensions only."""
        self.quiet: set[str] = set()
        """Names that ``x: int`` makes local without a value."""
        self.loaded: set[str] = set()
        self.loads: dict[str, list[Site]] = {}
        """Where each name is read, in the order of the source."""
        self.deleted: set[str] = set()
        self.declared: set[str] = set()
        self.declarations: list[ast.Global | ast.Nonlocal] = []
        self.tags: dict[str, set[str]] = {}
        self.sites: dict[int, list[Site]] = {}
        """By identity of the statement (0 in a lambda): walruses, comprehensions, yields, method calls."""
        self.nested: list[tuple[ScopeNode, str | None]] = []
        self.generator = False
        self.cramped: set[int] = set()
        """Identities of lambdas in which nothing may be assigned: see :meth:`_Scan.cramp`."""

    def names(self) -> set[str]:
        """Every name that is a variable of this scope, however it came about."""
        own = {arg.arg for arg in self.params}
        return own | self.assigned | self.targets | self.loaded | self.declared


_Entry = tuple[Any, ast.AST, str, int, int, "Inner | None"]
"""A node of the kind that its visitor is for, the slot that it stands in (parent, field, index), the
identity of its statement; the comprehension around it."""


class _Scan:
    """The work list of one pass."""

    def __init__(self, scope: ScopeNode, methods: Set[str] = frozenset()) -> None:
        self.facts = Facts()
        self.methods = methods
        self.stack: list[_Entry] = []
        self.lambdas: dict[int, str] = {}
        if isinstance(scope, FUNCTIONS):
            self.facts.params = parameters(scope.args)
            for arg in self.facts.params:
                self.tag(arg.arg, arg.annotation)
        if isinstance(scope, ast.Lambda):
            self.push(scope.body, scope, "body", 0, None)
        else:
            self.push_list(scope, "body", 0, None)

    def run(self) -> Facts:
        stack = self.stack
        visitors = _VISITORS
        while stack:
            entry = stack.pop()
            visitor = visitors.get(type(entry[0]))
            if visitor is None:
                node = entry[0]
                statement = id(node) if isinstance(node, ast.stmt) else entry[4]
                self.children(node, statement, entry[5])
            else:
                visitor(self, entry)
        return self.facts

    # -- the work list

    def push(
        self, node: ast.AST | None, parent: ast.AST, field: str, statement: int, inner: Inner | None
    ) -> None:
        if node is not None:
            self.stack.append((node, parent, field, -1, statement, inner))

    def push_list(self, parent: ast.AST, field: str, statement: int, inner: Inner | None) -> None:
        items = getattr(parent, field)
        for index in range(len(items) - 1, -1, -1):
            if items[index] is not None:
                self.stack.append((items[index], parent, field, index, statement, inner))

    def children(self, node: ast.AST, statement: int, inner: Inner | None) -> None:
        for field in reversed(node._fields):
            value = getattr(node, field, None)
            if isinstance(value, list):
                if value and isinstance(value[-1], ast.AST):
                    self.push_list(node, field, statement, inner)
            elif isinstance(value, ast.AST) and value._fields:
                self.stack.append((value, node, field, -1, statement, inner))

    def site(self, entry: _Entry) -> Site:
        node, parent, field, index, statement, inner = entry
        found = Site(node, parent, field, index, inner)
        self.facts.sites.setdefault(statement, []).append(found)
        return found

    # -- names

    def tag(self, variable: str, annotation: ast.expr | None) -> None:
        if annotation is not None:
            found = tags(annotation)
            if found:
                self.facts.tags.setdefault(variable, set()).update(found)

    def bind(self, target: ast.expr) -> None:
        """Note what a target binds; what it evaluates on the way is noted by the general pass."""
        for leaf in leaves(target):
            key = dotted(leaf)
            if key is not None:
                self.facts.assigned.add(key)

    def read(self, entry: _Entry) -> None:
        node, parent, field, index, _, inner = entry
        identifier = node.id
        ring = inner
        while ring is not None:
            if identifier in ring.targets:
                return
            ring.loaded.add(identifier)
            ring = ring.outer
        self.facts.loaded.add(identifier)
        site = Site(node, parent, field, index, inner)
        self.facts.loads.setdefault(identifier, []).append(site)

    # -- visitors

    def on_name(self, entry: _Entry) -> None:
        node = entry[0]
        if isinstance(node.ctx, ast.Load):
            self.read(entry)
        elif isinstance(node.ctx, ast.Store):
            self.facts.assigned.add(node.id)
        else:
            self.facts.deleted.add(node.id)

    def on_attribute(self, entry: _Entry) -> None:
        node = entry[0]
        if isinstance(node.ctx, ast.Store):
            key = dotted(node)
            if key is not None:
                self.facts.assigned.add(key)
        self.push(node.value, node, "value", entry[4], entry[5])

    def on_walrus(self, entry: _Entry) -> None:
        node = entry[0]
        self.site(entry)
        self.facts.assigned.add(node.target.id)
        if isinstance(node.value, ast.Lambda):
            self.lambdas[id(node.value)] = node.target.id
        self.push(node.value, node, "value", entry[4], entry[5])

    def on_call(self, entry: _Entry) -> None:
        node = entry[0]
        if self.methods and isinstance(node.func, ast.Attribute) and node.func.attr in self.methods:
            self.site(entry)
        self.children(node, entry[4], entry[5])

    def on_yield(self, entry: _Entry) -> None:
        self.facts.generator = True
        self.site(entry)
        self.children(entry[0], entry[4], entry[5])

    def on_comprehension(self, entry: _Entry) -> None:
        node, _, _, _, statement, outer = entry
        inner = self.site(entry).own = Inner(outer)
        for generator in node.generators:
            for leaf in leaves(generator.target):
                key = dotted(leaf)
                if key is not None:
                    self.facts.targets.add(key)
                    if isinstance(leaf, ast.Name):
                        inner.targets.add(leaf.id)
        # The first iterable is evaluated outside, everything else inside.
        for generator in reversed(node.generators):
            self.push_list(generator, "ifs", statement, inner)
            outside = generator is node.generators[0]
            self.push(generator.iter, generator, "iter", statement, outer if outside else inner)
            self.target(generator, statement, inner)
            self.cramp(generator.iter)
        element = inner.element()
        for field in ("value", "key", "elt"):
            self.push(getattr(node, field, None), node, field, statement, element)

    def cramp(self, iterable: ast.expr) -> None:
        """Python allows no walrus in a comprehension's iterable, not even inside a lambda there."""
        if not isinstance(iterable, ast.Name):
            nodes = ast.walk(iterable)
            self.facts.cramped.update(id(node) for node in nodes if isinstance(node, ast.Lambda))

    def target(self, generator: ast.comprehension, statement: int, inner: Inner) -> None:
        """What a comprehension's target evaluates (``for a[i].x in``), without its own names."""
        for part in ast.walk(generator.target):
            if isinstance(part, (ast.Attribute, ast.Subscript)):
                self.children(part, statement, inner)

    def on_lambda(self, entry: _Entry) -> None:
        node = entry[0]
        self.facts.nested.append((node, self.lambdas.get(id(node))))
        self.defaults(node.args, entry[4], entry[5])

    def defaults(self, args: ast.arguments, statement: int, inner: Inner | None) -> None:
        self.push_list(args, "kw_defaults", statement, inner)
        self.push_list(args, "defaults", statement, inner)

    def on_function(self, entry: _Entry) -> None:
        node = entry[0]
        self.facts.assigned.add(node.name)
        self.facts.nested.append((node, node.name))
        self.defaults(node.args, id(node), None)
        self.push_list(node, "decorator_list", id(node), None)

    def on_class(self, entry: _Entry) -> None:
        node = entry[0]
        self.facts.assigned.add(node.name)
        self.facts.nested.append((node, node.name))
        if not getattr(node, "type_params", None):
            # A generic class evaluates its bases in a scope of its own.
            self.push_list(node, "keywords", id(node), None)
            self.push_list(node, "bases", id(node), None)
        self.push_list(node, "decorator_list", id(node), None)

    def on_assign(self, entry: _Entry) -> None:
        node = entry[0]
        if isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self.lambdas[id(node.value)] = target.id
        self.children(node, id(node), None)

    def on_annotated(self, entry: _Entry) -> None:
        node = entry[0]
        key = dotted(node.target)
        if key is not None:
            self.tag(key, node.annotation)
        if node.value is None and isinstance(node.target, ast.Name):
            self.facts.quiet.add(node.target.id)
            return
        if isinstance(node.value, ast.Lambda) and isinstance(node.target, ast.Name):
            self.lambdas[id(node.value)] = node.target.id
        self.push(node.value, node, "value", id(node), None)
        if node.value is not None:
            self.push(node.target, node, "target", id(node), None)

    def on_import(self, entry: _Entry) -> None:
        node = entry[0]
        for alias in node.names:
            bound = imported(alias, node)
            if bound is not None:
                self.facts.assigned.add(bound)

    def on_handler(self, entry: _Entry) -> None:
        node = entry[0]
        if node.name:
            self.facts.assigned.add(node.name)
            self.facts.deleted.add(node.name)
        self.push_list(node, "body", entry[4], None)
        self.push(node.type, node, "type", entry[4], None)

    def on_declaration(self, entry: _Entry) -> None:
        node = entry[0]
        self.facts.declared.update(node.names)
        self.facts.declarations.append(node)

    def on_capture(self, entry: _Entry) -> None:
        node = entry[0]
        bound = getattr(node, "name", None) or getattr(node, "rest", None)
        if isinstance(bound, str):
            self.facts.assigned.add(bound)
        self.children(node, entry[4], None)

    def on_alias(self, entry: _Entry) -> None:
        # Its value is evaluated lazily, in a scope of its own.
        self.facts.assigned.add(entry[0].name.id)


_VISITORS: dict[type[ast.AST], Callable[[_Scan, _Entry], None]] = {
    ast.Name: _Scan.on_name,
    ast.Attribute: _Scan.on_attribute,
    ast.NamedExpr: _Scan.on_walrus,
    ast.Call: _Scan.on_call,
    ast.Yield: _Scan.on_yield,
    ast.YieldFrom: _Scan.on_yield,
    ast.Lambda: _Scan.on_lambda,
    ast.FunctionDef: _Scan.on_function,
    ast.AsyncFunctionDef: _Scan.on_function,
    ast.ClassDef: _Scan.on_class,
    ast.Assign: _Scan.on_assign,
    ast.AnnAssign: _Scan.on_annotated,
    ast.Import: _Scan.on_import,
    ast.ImportFrom: _Scan.on_import,
    ast.ExceptHandler: _Scan.on_handler,
    ast.Global: _Scan.on_declaration,
    ast.Nonlocal: _Scan.on_declaration,
    ast.MatchAs: _Scan.on_capture,
    ast.MatchStar: _Scan.on_capture,
    ast.MatchMapping: _Scan.on_capture,
    **dict.fromkeys(COMPREHENSIONS, _Scan.on_comprehension),
}
if sys.version_info >= (3, 12):
    _VISITORS[ast.TypeAlias] = _Scan.on_alias


def outline(scope: ScopeNode) -> Facts:
    """Of a function nothing but its parameters, without a look at its body."""
    facts = Facts()
    facts.params = parameters(scope.args) if isinstance(scope, FUNCTIONS) else []
    return facts


def scan(scope: ScopeNode, methods: Set[str] = frozenset()) -> Facts:
    """Find out everything about one scope; the scopes inside it are listed, not entered.

    Calls of methods are noted where their name is one of ``methods``.
    """
    return _Scan(scope, methods).run()


def tags(annotation: ast.expr) -> set[str]:
    """The tags that an annotation names: ``"@A & @B"``, ``tag.A``, ``ptera.tag.A & B``, ``A``."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        words = (word.strip() for word in annotation.value.split("&"))
        return {word.lstrip("@").rpartition(".")[2] for word in words if word}
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitAnd):
        return tags(annotation.left) | tags(annotation.right)
    if isinstance(annotation, ast.Attribute):
        return {annotation.attr}
    if isinstance(annotation, ast.Name):
        return {annotation.id}
    return set()


def foreign(scope: ScopeNode, nested: Iterable[tuple[ScopeNode, str | None]]) -> set[str]:
    """Names of this scope that scopes inside it may unbind (``nonlocal``, ``global``)."""
    kind = ast.Global if isinstance(scope, ast.Module) else ast.Nonlocal
    found: set[str] = set()
    for inner, _ in nested:
        for node in ast.walk(inner):
            if isinstance(node, kind):
                found.update(node.names)
    return found
