"""Hooks inside of expressions: walruses, comprehensions, yields, calls of methods, reads of outer variables.

Here everything has to stay one expression::

    (x := f())                       (x := hook(f()))
    [g(x) for x in it if c(x)]       [g(x) for x in it for x in (hook(x),) if c(x)]
    y = yield v                      y = received((yield produced(v)))
    yield from it                    yield from hook@(it)
    a.to(device)                     gave(called(a.to)(device))
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .facts import COMPREHENSIONS, Inner, Site
from .hook_calls import HookCalls
from .nodes import (
    LOAD,
    NOWHERE,
    STORE,
    Spot,
    call,
    calling,
    constant,
    dotted,
    first,
    leaves,
    load,
    put,
    reading,
    spot,
)
from .scopes import Hook


class ExpressionRewriter(HookCalls):
    """Rewrites the expressions of one scope, where no statement can be added."""

    def sites(self, statement: int) -> None:
        """Rewrite the expressions of one statement, the innermost first.

        A hook around an outer expression then goes around the rewritten inner one.
        """
        for site in reversed(self.facts.sites.get(statement, ())):
            node = site.node
            if isinstance(node, ast.NamedExpr):
                self.walrus(node, site)
            elif isinstance(node, COMPREHENSIONS):
                self.comprehension(node, site)
            elif isinstance(node, ast.Yield):
                self.produce(node, site)
            elif isinstance(node, ast.YieldFrom):
                self.delegate(node)
            elif isinstance(node, ast.Call):
                self.method(node, site)

    def walrus(self, node: ast.NamedExpr, site: Site) -> None:
        """``(x := e)`` becomes ``(x := hook(e))``."""
        key = node.target.id
        hooks = self.plan.variable(key)
        if hooks:
            where = spot(node)
            node.value = self.wrap(
                node.value, hooks, key, "assignment", where, first(node.value), site.inner
            )

    def method(self, node: ast.Call, site: Site) -> None:
        """``a.f(x)`` becomes ``gave(hook(a.f)(x))``.

        Both hooks have returned before, or begin after, the method runs: its caller is the program's frame.
        """
        function = node.func
        assert isinstance(function, ast.Attribute)
        hook = self.plan.methods[function.attr]
        start, where = first(function), calling(node, function)
        self.record.add_match(hook, self.plan.place.function, where.line, "call")
        self.used.add(hook.name)
        node.func = call(hook.name, [function], reading(function), start)
        result = self.suffixed(hook, "=", [put(node, where)], where)
        assert isinstance(result, ast.Call)
        put(result.func, start)
        site.replace(result)

    # -- comprehensions

    def comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, site: Site
    ) -> None:
        """``for x in it if c`` becomes ``for x in it for x in (hook(x),) if c``."""
        inner = site.own
        assert inner is not None
        generators: list[ast.comprehension] = []
        for generator in node.generators:
            inner.bound.update(
                leaf.id for leaf in leaves(generator.target) if isinstance(leaf, ast.Name)
            )
            generators.append(generator)
            generators.extend(self.clauses(generator, inner))
        # Later clauses may capture what earlier ones bound; after the last, nothing of it is in sight.
        node.generators = generators
        inner.bound.clear()

    def clauses(self, generator: ast.comprehension, inner: Inner) -> list[ast.comprehension]:
        """The clauses to be added behind ``generator``, one for each hooked name of its target."""
        added: list[ast.comprehension] = []
        seen: set[str] = set()
        conditions, last = generator.ifs, generator
        for leaf in leaves(generator.target):
            key = dotted(leaf)
            if key is None or key in seen:
                continue
            seen.add(key)
            hooks = self.usable(self.plan.variable(key))
            if not hooks:
                continue
            if isinstance(leaf, ast.Attribute) and not any(hook.override for hook in hooks):
                line = leaf.lineno
                lookups = self.looked_up(leaf, hooks, key, "comprehension", line, NOWHERE)
                last.ifs.insert(0, put(ast.Tuple(elts=lookups, ctx=LOAD), NOWHERE))
                continue
            # The conditions of the clause move behind the last added one: they use what the hooks return.
            conditions = last.ifs if last is generator else conditions
            last.ifs = []
            last = self.clause(leaf, hooks, key, inner)
            added.append(last)
        if last is not generator:
            last.ifs = conditions
        return added

    def clause(
        self, leaf: ast.Name | ast.Attribute, hooks: Sequence[Hook], key: str, inner: Inner
    ) -> ast.comprehension:
        """``for x in (hook(x),)``, which the compiler turns into an assignment.

        It has done so since Python 3.9. On one that does not, the clause is a loop over one item, and means
        the same.
        """
        value = self.wrap(
            load(leaf, NOWHERE), hooks, key, "comprehension", NOWHERE, NOWHERE, inner, leaf.lineno
        )
        target = load(leaf, NOWHERE)
        assert isinstance(target, (ast.Name, ast.Attribute))
        target.ctx = STORE
        source = put(ast.Tuple(elts=[value], ctx=LOAD), NOWHERE)
        return ast.comprehension(target=target, iter=source, ifs=[], is_async=0)

    # -- generators

    def produce(self, node: ast.Yield, site: Site) -> None:
        """``(yield v)`` becomes ``received((yield produced(v)))``, and the scope is left meanwhile.

        Hooks of ``#scope`` are called after ``v`` has been evaluated, when the generator is about to be
        suspended, and before ``received``, when it goes on.
        """
        where = spot(node)
        produced = self.plan.point("#yield")
        received = self.plan.point("#receive")
        scopes = self.plan.point("#scope")
        value = node.value
        start = first(value) if value is not None else where
        if produced or scopes:
            value = value if value is not None else constant(None, where)
            value = self.wrap(value, produced, "#yield", "yield", where, start)
            node.value = self.beside(value, scopes, "-", where)
        result: ast.expr = self.beside(node, scopes, "+", where)
        result = self.wrap(result, received, "#receive", "receive", where, start)
        if result is not node:
            site.replace(result)

    def beside(self, value: ast.expr, hooks: Sequence[Hook], suffix: str, where: Spot) -> ast.expr:
        """``(value, hook(), …)[0]``: the value of an expression, with calls right after it."""
        if not hooks:
            return value
        calls = [self.suffixed(hook, suffix, [], where) for hook in hooks]
        every = put(ast.Tuple(elts=[value, *calls], ctx=LOAD), where)
        index = constant(0, where)
        return put(ast.Subscript(value=every, slice=index, ctx=LOAD), where)

    def delegate(self, node: ast.YieldFrom) -> None:
        """``yield from it`` becomes ``yield from hook@(it)``, which passes on what goes in and out."""
        where = spot(node)
        for variable, kind in (("#yield", "yield"), ("#receive", "receive")):
            for hook in self.plan.point(variable):
                suffix = "@>" if hook.wild and variable == "#receive" else "@"
                node.value = self.suffixed(hook, suffix, [node.value], where)
                self.record.add_match(hook, self.plan.place.function, where.line, kind)

    # -- reads

    def override_reads(self, variable: str, hooks: Sequence[Hook], most: int = 0) -> None:
        """Put hooks around the reads of a variable that the scope never binds: around ``most``, 0 for all."""
        sites = self.facts.loads.get(variable, [])
        for site in sites[:most] if most else sites:
            where = spot(site.node)
            site.replace(self.wrap(site.node, hooks, variable, "read", where, where, site.inner))

    # -- lambdas

    def expression_body(self, node: ast.Lambda) -> None:
        """Rewrite a lambda: hooks for its arguments, ``#enter`` and ``#value``."""
        self.sites(0)
        for variable in ("#exit", "#error", "#scope"):
            for hook in self.plan.point(variable):
                self.record.refuse(hook.request, f"{variable} needs a statement; this is a lambda")
        body = node.body
        start = first(body)
        before = self.before(start)
        value = self.wrap(body, self.plan.point("#value"), "#value", "return", spot(body), start)
        # The hooks stand in a tuple, which is true as it is not empty: `(hook(x),) and body`.
        if before:
            every = put(ast.Tuple(elts=before, ctx=LOAD), start)
            value = put(ast.BoolOp(op=ast.And(), values=[every, value]), spot(body))
        node.body = value

    def before(self, where: Spot) -> list[ast.expr]:
        """What a lambda evaluates before its body: ``#enter``, and the hooks of its arguments."""
        calls: list[ast.expr] = []
        for hook in self.usable(self.plan.point("#enter")):
            entered = self.wrap(constant(True, where), [hook], "#enter", "enter", where, where)
            calls.append(entered)
        for arg in self.facts.params:
            hooks = self.allowed(self.usable(self.plan.variable(arg.arg)))
            if not hooks:
                continue
            leaf = put(ast.Name(id=arg.arg, ctx=LOAD), where)
            value: ast.expr = self.wrap(
                leaf, hooks, arg.arg, "argument", where, where, line=arg.lineno
            )
            if any(hook.override for hook in hooks):
                target = put(ast.Name(id=arg.arg, ctx=STORE), where)
                value = put(ast.NamedExpr(target=target, value=value), where)
            calls.append(value)
        return calls

    def allowed(self, hooks: list[Hook]) -> list[Hook]:
        """Those of ``hooks`` that can be placed in this lambda; none overrides where no walrus may stand."""
        if not self.plan.place.cramped:
            return hooks
        for hook in hooks:
            if hook.override:
                reason = "a lambda's argument cannot be exchanged in a comprehension's iterable"
                self.record.refuse(hook.request, reason)
        return [hook for hook in hooks if not hook.override]
