"""What a function, class body or module binds, reads and contains, found in one pass.

:func:`scan` walks over one scope and gives its :class:`Facts`. Functions and classes inside of it are listed
and not entered; comprehensions, which share its variables, are part of it.

The pass is a loop with a stack of nodes, not a recursion: a sum of two thousand terms is a tree two thousand
nodes deep. :mod:`.inventory` adds to it how each name is bound.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Set
from typing import Any

from .nodes import FUNCTIONS, NestedNode, ScopeNode, dotted, imported, leaves, parameters

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Inner:
    """A comprehension: a scope inside of the scope.

    A hook in it must not read a variable of the function that the comprehension does not read itself. That
    would make a closure variable of it, in functions whose cells are those of the loaded code.
    """

    __slots__ = ("bound", "loaded", "outer", "targets")

    def __init__(self, outer: Inner | None) -> None:
        self.outer = outer
        self.targets: set[str] = set()
        """Names that its clauses bind."""
        self.loaded: set[str] = set()
        """Names that it, or one inside of it, reads from outside."""
        self.bound: set[str] = set()
        """Those targets that surely have a value at the clause that is being rewritten."""

    def element(self) -> Inner:
        """The same scope as its element sees it, which runs when every target has a value."""
        view = Inner(self.outer)
        view.loaded = self.loaded
        view.targets = view.bound = self.targets
        return view


class Site:
    """An expression that the rewriter may replace, and the slot of its parent in which it stands."""

    __slots__ = ("field", "index", "inner", "node", "own", "parent")

    def __init__(
        self, node: ast.expr, parent: ast.AST, field: str, index: int, inner: Inner | None
    ) -> None:
        self.node = node
        self.parent = parent
        self.field = field
        self.index = index
        self.inner = inner
        """The comprehension around it, if there is one."""
        self.own: Inner | None = None
        """The scope that it opens, if it is a comprehension itself."""

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
        """Names that it reads, comprehensions included."""
        self.loads: dict[str, list[Site]] = {}
        """Where each name is read, in the order of the source."""
        self.deleted: set[str] = set()
        self.declared: set[str] = set()
        """Names in its ``global`` and ``nonlocal`` statements."""
        self.declarations: list[ast.Global | ast.Nonlocal] = []
        self.tags: dict[str, set[str]] = {}
        self.sites: dict[int, list[Site]] = {}
        """By identity of the statement (0 in a lambda): walruses, comprehensions, yields, method calls."""
        self.nested: list[tuple[NestedNode, str | None]] = []
        """Functions, classes and lambdas directly inside of it, with their names."""
        self.generator = False
        self.cramped: set[int] = set()
        """Identities of lambdas in which no walrus may stand: see :meth:`ScopeScan.add_cramped`."""

    def names(self) -> set[str]:
        """Every name that is a variable of this scope, in whatever way it became one."""
        arguments = {arg.arg for arg in self.params}
        return arguments | self.assigned | self.targets | self.loaded | self.declared


Entry = tuple[Any, ast.AST, str, int, int, "Inner | None"]
"""A node to visit, the slot in which it stands (parent, field, index, which is -1 outside of a list), the
identity of its statement, and the comprehension around it."""


class ScopeScan:
    """One pass over a scope. Its stack holds what is still to be visited, the next node last."""

    visitors: dict[type[ast.AST], Callable[[Any, Entry], None]]
    """By type of node what visits it. Of nodes of all other types, the children are visited."""

    def __init__(self, scope: ScopeNode, methods: Set[str] = frozenset()) -> None:
        self.facts = Facts()
        self.methods = methods
        self.stack: list[Entry] = []
        self.lambdas: dict[int, str] = {}
        """By identity of a lambda the name that it is assigned to."""
        if isinstance(scope, FUNCTIONS):
            self.facts.params = parameters(scope.args)
            for arg in self.facts.params:
                self.add_tags(arg.arg, arg.annotation)
        if isinstance(scope, ast.Lambda):
            self.push(scope.body, scope, "body", 0, None)
        else:
            self.push_list(scope, "body", 0, None)

    def run(self) -> Facts:
        stack = self.stack
        visitors = self.visitors
        while stack:
            entry = stack.pop()
            visitor = visitors.get(type(entry[0]))
            if visitor is None:
                node = entry[0]
                statement = id(node) if isinstance(node, ast.stmt) else entry[4]
                self.push_children(node, statement, entry[5])
            else:
                visitor(self, entry)
        return self.facts

    # -- the stack

    def push(
        self, node: ast.AST | None, parent: ast.AST, field: str, statement: int, inner: Inner | None
    ) -> None:
        if node is not None:
            self.stack.append((node, parent, field, -1, statement, inner))

    def push_list(self, parent: ast.AST, field: str, statement: int, inner: Inner | None) -> None:
        """Push the nodes of a list, the last one first: so they are visited in the order of the source."""
        items = getattr(parent, field)
        for index in range(len(items) - 1, -1, -1):
            if items[index] is not None:
                self.stack.append((items[index], parent, field, index, statement, inner))

    def push_children(self, node: ast.AST, statement: int, inner: Inner | None) -> None:
        """Push all nodes inside of ``node``. Those without fields, such as ``Load``, say nothing."""
        for field in reversed(node._fields):
            value = getattr(node, field, None)
            if isinstance(value, list):
                if value and isinstance(value[-1], ast.AST):
                    self.push_list(node, field, statement, inner)
            elif isinstance(value, ast.AST) and value._fields:
                self.stack.append((value, node, field, -1, statement, inner))

    def add_site(self, entry: Entry) -> Site:
        """Note an expression that the rewriter may have to replace."""
        node, parent, field, index, statement, inner = entry
        site = Site(node, parent, field, index, inner)
        self.facts.sites.setdefault(statement, []).append(site)
        return site

    # -- names

    def bind(self, name: str, node: ast.AST, kind: str = "assignment") -> None:
        """Note that ``node`` binds ``name`` in the scope, and how (which only an inventory needs)."""
        self.facts.assigned.add(name)

    def bind_inside(self, name: str, node: ast.AST) -> None:
        """Note that a clause of a comprehension binds ``name``."""
        self.facts.targets.add(name)

    def add_tags(self, variable: str, annotation: ast.expr | None) -> None:
        if annotation is not None:
            named = tags(annotation)
            if named:
                self.facts.tags.setdefault(variable, set()).update(named)

    def add_read(self, entry: Entry) -> None:
        """Note that a name is read, in every comprehension around the place up to the one that binds it."""
        node, parent, field, index, _, inner = entry
        identifier = node.id
        comprehension = inner
        while comprehension is not None:
            if identifier in comprehension.targets:
                return
            comprehension.loaded.add(identifier)
            comprehension = comprehension.outer
        self.facts.loaded.add(identifier)
        site = Site(node, parent, field, index, inner)
        self.facts.loads.setdefault(identifier, []).append(site)

    # -- visitors

    def on_name(self, entry: Entry) -> None:
        node = entry[0]
        if isinstance(node.ctx, ast.Load):
            self.add_read(entry)
        elif isinstance(node.ctx, ast.Store):
            self.bind(node.id, node)
        else:
            self.facts.deleted.add(node.id)

    def on_attribute(self, entry: Entry) -> None:
        node = entry[0]
        if isinstance(node.ctx, ast.Store):
            key = dotted(node)
            if key is not None:
                self.bind(key, node)
        self.push(node.value, node, "value", entry[4], entry[5])

    def on_walrus(self, entry: Entry) -> None:
        node = entry[0]
        self.add_site(entry)
        self.bind(node.target.id, node.target)
        if isinstance(node.value, ast.Lambda):
            self.lambdas[id(node.value)] = node.target.id
        self.push(node.value, node, "value", entry[4], entry[5])

    def on_call(self, entry: Entry) -> None:
        node = entry[0]
        if self.methods and isinstance(node.func, ast.Attribute) and node.func.attr in self.methods:
            self.add_site(entry)
        self.push_children(node, entry[4], entry[5])

    def on_yield(self, entry: Entry) -> None:
        self.facts.generator = True
        self.add_site(entry)
        self.push_children(entry[0], entry[4], entry[5])

    def on_comprehension(self, entry: Entry) -> None:
        node, _, _, _, statement, outer = entry
        inner = self.add_site(entry).own = Inner(outer)
        for generator in node.generators:
            for leaf in leaves(generator.target):
                key = dotted(leaf)
                if key is not None:
                    self.bind_inside(key, leaf)
                    if isinstance(leaf, ast.Name):
                        inner.targets.add(leaf.id)
        # The first iterable is evaluated outside, everything else inside.
        for generator in reversed(node.generators):
            self.push_list(generator, "ifs", statement, inner)
            outside = generator is node.generators[0]
            self.push(generator.iter, generator, "iter", statement, outer if outside else inner)
            self.push_target(generator, statement, inner)
            self.add_cramped(generator.iter)
        element = inner.element()
        for field in ("value", "key", "elt"):
            self.push(getattr(node, field, None), node, field, statement, element)

    def add_cramped(self, iterable: ast.expr) -> None:
        """Note the lambdas in a comprehension's iterable.

        Python allows no walrus there, not even inside of a lambda, so a hook cannot exchange its argument.
        """
        if not isinstance(iterable, ast.Name):
            nodes = ast.walk(iterable)
            self.facts.cramped.update(id(node) for node in nodes if isinstance(node, ast.Lambda))

    def push_target(self, generator: ast.comprehension, statement: int, inner: Inner) -> None:
        """Visit what a comprehension's target evaluates (``for a[i].x in``), not the names it binds."""
        for part in ast.walk(generator.target):
            if isinstance(part, (ast.Attribute, ast.Subscript)):
                self.push_children(part, statement, inner)

    def on_lambda(self, entry: Entry) -> None:
        node = entry[0]
        self.facts.nested.append((node, self.lambdas.get(id(node))))
        self.push_defaults(node.args, entry[4], entry[5])

    def push_defaults(self, args: ast.arguments, statement: int, inner: Inner | None) -> None:
        self.push_list(args, "kw_defaults", statement, inner)
        self.push_list(args, "defaults", statement, inner)

    def on_function(self, entry: Entry) -> None:
        node = entry[0]
        self.bind(node.name, node, "definition")
        self.facts.nested.append((node, node.name))
        self.push_defaults(node.args, id(node), None)
        self.push_list(node, "decorator_list", id(node), None)

    def on_class(self, entry: Entry) -> None:
        node = entry[0]
        self.bind(node.name, node, "definition")
        self.facts.nested.append((node, node.name))
        if not getattr(node, "type_params", None):
            # A generic class evaluates its bases in a scope of its own.
            self.push_list(node, "keywords", id(node), None)
            self.push_list(node, "bases", id(node), None)
        self.push_list(node, "decorator_list", id(node), None)

    def on_assign(self, entry: Entry) -> None:
        node = entry[0]
        if isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self.lambdas[id(node.value)] = target.id
        self.push_children(node, id(node), None)

    def on_annotated(self, entry: Entry) -> None:
        node = entry[0]
        key = dotted(node.target)
        if key is not None:
            self.add_tags(key, node.annotation)
        if node.value is None and isinstance(node.target, ast.Name):
            self.facts.quiet.add(node.target.id)
            return
        if isinstance(node.value, ast.Lambda) and isinstance(node.target, ast.Name):
            self.lambdas[id(node.value)] = node.target.id
        self.push(node.value, node, "value", id(node), None)
        if node.value is not None:
            self.push(node.target, node, "target", id(node), None)

    def on_import(self, entry: Entry) -> None:
        node = entry[0]
        for alias in node.names:
            bound = imported(alias, node)
            if bound is not None:
                self.bind(bound, node, "import")

    def on_handler(self, entry: Entry) -> None:
        node = entry[0]
        if node.name:
            self.bind(node.name, node, "except")
            self.facts.deleted.add(node.name)
        self.push_list(node, "body", entry[4], None)
        self.push(node.type, node, "type", entry[4], None)

    def on_declaration(self, entry: Entry) -> None:
        node = entry[0]
        self.facts.declared.update(node.names)
        self.facts.declarations.append(node)

    def on_capture(self, entry: Entry) -> None:
        node = entry[0]
        bound = getattr(node, "name", None) or getattr(node, "rest", None)
        if isinstance(bound, str):
            self.bind(bound, node, "match")
        self.push_children(node, entry[4], None)

    def on_alias(self, entry: Entry) -> None:
        # `type X = value`: the value is evaluated lazily, in a scope of its own.
        self.bind(entry[0].name.id, entry[0])


ScopeScan.visitors = {
    ast.Name: ScopeScan.on_name,
    ast.Attribute: ScopeScan.on_attribute,
    ast.NamedExpr: ScopeScan.on_walrus,
    ast.Call: ScopeScan.on_call,
    ast.Yield: ScopeScan.on_yield,
    ast.YieldFrom: ScopeScan.on_yield,
    ast.Lambda: ScopeScan.on_lambda,
    ast.FunctionDef: ScopeScan.on_function,
    ast.AsyncFunctionDef: ScopeScan.on_function,
    ast.ClassDef: ScopeScan.on_class,
    ast.Assign: ScopeScan.on_assign,
    ast.AnnAssign: ScopeScan.on_annotated,
    ast.Import: ScopeScan.on_import,
    ast.ImportFrom: ScopeScan.on_import,
    ast.ExceptHandler: ScopeScan.on_handler,
    ast.Global: ScopeScan.on_declaration,
    ast.Nonlocal: ScopeScan.on_declaration,
    ast.MatchAs: ScopeScan.on_capture,
    ast.MatchStar: ScopeScan.on_capture,
    ast.MatchMapping: ScopeScan.on_capture,
    **dict.fromkeys(COMPREHENSIONS, ScopeScan.on_comprehension),
}
if sys.version_info >= (3, 12):
    ScopeScan.visitors[ast.TypeAlias] = ScopeScan.on_alias


def outline(scope: ScopeNode) -> Facts:
    """The facts of a function of which nothing but the parameters is needed: its body is not looked at."""
    facts = Facts()
    facts.params = parameters(scope.args) if isinstance(scope, FUNCTIONS) else []
    return facts


def scan(scope: ScopeNode, methods: Set[str] = frozenset()) -> Facts:
    """Find everything about one scope.

    Calls of methods are noted where the method's name is one of ``methods``.
    """
    return ScopeScan(scope, methods).run()


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
    """Names of this scope that code of scopes inside of it may unbind (``nonlocal``, ``global``)."""
    kind = ast.Global if isinstance(scope, ast.Module) else ast.Nonlocal
    names: set[str] = set()
    for function, _ in nested:
        for node in ast.walk(function):
            if isinstance(node, kind):
                names.update(node.names)
    return names
