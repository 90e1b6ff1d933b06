"""Hooks as statements: what is put into the blocks of a function, class body or module.

Each visitor appends a statement to the rewritten block, changed or followed by hooks::

    x = f()                   x = hook(f())              a value that is wrapped
    a, b = f()                a, b = f()                 targets that are shown afterwards
                              hook(a)
    for i in it:              for i in it:               #loop_i and #endloop_i
        body                      hook(True)
                                  try: body
                                  finally: hook(True)

On the way it keeps ``bound``, the variables that surely have a value at the place reached: a hook may read
these directly as its captures. After branches, only what all of them bind is bound.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

from .expressions import ExpressionRewriter
from .nodes import (
    NOWHERE,
    always,
    block_start,
    captured,
    constant,
    dotted,
    first,
    guarded,
    imported,
    is_lazy,
    leaves,
    name,
    put,
    spot,
    tested,
)
from .scopes import Hook


class StatementRewriter(ExpressionRewriter):
    """Rewrites the statements of one scope. Scopes inside it are left alone."""

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements of one block with their hooks."""
        out: list[ast.stmt] = []
        for statement in statements:
            self.sites(id(statement))
            visitor = _VISITORS.get(type(statement))
            if visitor is None:
                out.append(statement)
            else:
                visitor(self, statement, out)
        return out

    def branch(
        self, statements: Sequence[ast.stmt], bound: Iterable[str] = ()
    ) -> tuple[list[ast.stmt], set[str] | None]:
        """Rewrite a block that may not run, with the variables ``bound`` at its start.

        Returns it and the variables bound at its end; None in their place if nothing comes after it, or if
        bound variables are not kept.
        """
        if self.bound is None:
            return self.block(statements), None
        saved, self.bound = self.bound, set(self.bound)
        self.bind(bound)
        rewritten = self.block(statements)
        after, self.bound = self.bound, saved
        never_ends = bool(statements) and isinstance(statements[-1], _LEAVING)
        return rewritten, None if never_ends else after

    def merge(self, *after: set[str] | None) -> None:
        """Note what is bound after one of several blocks has run: what is in each of ``after``."""
        known = [bound for bound in after if bound is not None]
        if known and self.bound is not None:
            self.bound |= set.intersection(*known)

    # -- targets

    def targets(self, targets: Iterable[ast.expr], kind: str) -> list[ast.stmt]:
        """Statements that call hooks with what ``targets`` were bound to, each name once."""
        statements: list[ast.stmt] = []
        seen: set[str] = set()
        for target in targets:
            for leaf in leaves(target):
                key = dotted(leaf)
                if key is None or key in seen:
                    continue
                seen.add(key)
                hooks = self.plan.variable(key)
                if hooks:
                    statements += self.after(leaf, hooks, key, kind, leaf.lineno)
        return statements

    def bind_targets(self, targets: Iterable[ast.expr]) -> None:
        if self.bound is not None:
            for target in targets:
                self.bind(leaf.id for leaf in leaves(target) if isinstance(leaf, ast.Name))

    def bind_test(self, test: ast.expr) -> None:
        """Note what a condition binds whether it holds or not: ``if (x := f()):``, ``if (x := f()) > 1:``."""
        if isinstance(test, ast.Compare):
            test = test.left
        if isinstance(test, ast.NamedExpr):
            self.bind([test.target.id])

    def named(self, identifier: str, kind: str, line: int) -> list[ast.stmt]:
        """Statements that call hooks with what a bare name was bound to."""
        self.bind([identifier])
        hooks = self.plan.variable(identifier)
        if not hooks:
            return []
        return self.after(name(identifier, NOWHERE), hooks, identifier, kind, line)

    # -- simple statements

    def on_assign(self, node: ast.Assign, out: list[ast.stmt]) -> None:
        out.append(node)
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, (ast.Name, ast.Attribute)):
            node.value = self.assigned(target, node.value)
            self.bind_targets(node.targets)
            return
        self.bind_targets(node.targets)
        out += self.targets(node.targets, "assignment")

    def assigned(self, target: ast.Name | ast.Attribute, value: ast.expr) -> ast.expr:
        """``value`` with the hooks of the one ``target`` that it is assigned to around it."""
        key = dotted(target)
        hooks = self.plan.variable(key) if key is not None else []
        if key is None or not hooks:
            return value
        return self.wrap(value, hooks, key, "assignment", spot(target), first(value))

    def on_annotated(self, node: ast.AnnAssign, out: list[ast.stmt]) -> None:
        out.append(node)
        if node.value is not None and isinstance(node.target, (ast.Name, ast.Attribute)):
            node.value = self.assigned(node.target, node.value)
            self.bind_targets([node.target])

    def on_augmented(self, node: ast.AugAssign, out: list[ast.stmt]) -> None:
        out.append(node)
        self.bind_targets([node.target])
        out += self.targets([node.target], "assignment")

    def on_import(self, node: ast.Import | ast.ImportFrom, out: list[ast.stmt]) -> None:
        out.append(node)
        for alias in node.names:
            bound = imported(alias, node)
            if bound is None:
                continue
            hooks = self.plan.imports.get(bound)
            # Reading the name would run the import now.
            if is_lazy(node):
                for hook in [*(hooks or ()), *self.plan.variable(bound)]:
                    reason = f"{bound} is imported lazily, and to show it would be to import it"
                    self.record.refuse(hook.request, reason)
                continue
            if hooks:
                out += self.after(name(bound, NOWHERE), hooks, bound, "import", node.lineno)
            out += self.named(bound, "import", node.lineno)

    def on_definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, out: list[ast.stmt]
    ) -> None:
        out.append(node)
        out += self.named(node.name, "definition", node.lineno)

    def on_declaration(self, node: ast.Global | ast.Nonlocal, out: list[ast.stmt]) -> None:
        """Replace a declaration that stands at the start of the scope already, before a hook that reads the
        name.

        A name may not be declared after it is used. In its place stands a declaration of a name that nothing
        uses, since a block may not become empty.
        """
        if self.declared_first:
            node = put(ast.Global(names=["injector:"]), spot(node))
        out.append(node)

    def on_alias(self, node: ast.stmt, out: list[ast.stmt]) -> None:
        out.append(node)
        target: ast.Name = node.name  # type: ignore[attr-defined]
        out += self.named(target.id, "definition", node.lineno)

    def on_return(self, node: ast.Return, out: list[ast.stmt]) -> None:
        out.append(node)
        hooks = self.values()
        if hooks:
            where = spot(node)
            value = node.value if node.value is not None else constant(None, where)
            node.value = self.wrap(value, hooks, "#value", "return", where, first(value))

    def values(self) -> list[Hook]:
        """The hooks for what the function returns."""
        hooks = self.usable(self.plan.point("#value"))
        if isinstance(self.plan.place.node, ast.AsyncFunctionDef) and self.facts.generator:
            for hook in hooks:
                self.record.refuse(hook.request, "an async generator returns no value")
            return []
        return hooks

    # -- blocks

    def on_if(self, node: ast.If, out: list[ast.stmt]) -> None:
        out.append(node)
        bound_after: list[set[str] | None] = []
        # Each elif is an If inside of the orelse before it. A loop instead of a recursion, since a chain
        # may be longer than Python lets calls nest.
        while True:
            self.bind_test(node.test)
            node.body, end = self.branch(node.body)
            bound_after.append(end)
            if len(node.orelse) != 1 or not isinstance(node.orelse[0], ast.If):
                break
            node = node.orelse[0]
            self.sites(id(node))
        node.orelse, end = self.branch(node.orelse)
        self.merge(*bound_after, end)

    def on_for(self, node: ast.For | ast.AsyncFor, out: list[ast.stmt]) -> None:
        out.append(node)
        names = [key for leaf in leaves(node.target) if (key := dotted(leaf)) is not None]
        # A loop may turn no time at all: nothing that it binds is sure after it.
        bound_before = None if self.bound is None else set(self.bound)
        self.bind_targets([node.target])
        line = node.target.lineno
        start = self.signal("#loop", self.plan.loops("#loop", names), "loop", line)
        start += self.targets([node.target], "assignment")
        body, _ = self.branch(node.body)
        self.bound = bound_before
        node.body = self.ended(start + body, names, line)
        node.orelse, _ = self.branch(node.orelse)

    def on_while(self, node: ast.While, out: list[ast.stmt]) -> None:
        out.append(node)
        names = tested(node.test)
        self.bind_test(node.test)
        hooks = self.plan.loops("#loop", names)
        where = block_start(node.body, True) or NOWHERE
        start = self.signal("#loop", hooks, "loop", node.lineno, where)
        body, _ = self.branch(node.body)
        node.body = self.ended(start + body, names, node.lineno)
        node.orelse, _ = self.branch(node.orelse)

    def ended(self, body: list[ast.stmt], names: Sequence[str], line: int) -> list[ast.stmt]:
        """A loop's ``body`` with ``#endloop`` after each iteration, however the iteration ends."""
        hooks = self.plan.loops("#endloop", names)
        final = self.signal("#endloop", hooks, "loop", line)
        return [guarded(body, [], [*self.resumed(body), *final])] if final else body

    def on_with(self, node: ast.With | ast.AsyncWith, out: list[ast.stmt]) -> None:
        out.append(node)
        # A context manager may swallow an exception, and what the block binds is missing after it.
        bound_before = None if self.bound is None else set(self.bound)
        items = node.items
        while True:
            taken = 0
            for item in items:
                taken += 1
                shown = self.item(item)
                if shown:
                    break
            node.items = items[:taken]
            if taken == len(items):
                break
            # `with a as x, b(x):` is split after a hooked item, so that `b` gets what the hook made of x.
            items = items[taken:]
            rest = type(node)(items=items, body=node.body, type_comment=None)
            put(rest, spot(node))
            node.body = [*shown, rest]
            node = rest
        body, _ = self.branch(node.body)
        node.body = shown + body
        self.bound = bound_before

    def item(self, item: ast.withitem) -> list[ast.stmt]:
        """Statements that call hooks with what one item of a ``with`` was bound to."""
        if item.optional_vars is None:
            return []
        self.bind_targets([item.optional_vars])
        return self.targets([item.optional_vars], "with")

    def on_try(self, node: ast.Try, out: list[ast.stmt]) -> None:
        out.append(node)
        node.body, after_body = self.branch(node.body)
        bound_before = self.bound
        # `else` runs only after the whole body; handlers and `finally` may run after any part of it.
        if after_body is not None:
            self.bound = set(after_body)
        node.orelse, after_else = self.branch(node.orelse)
        self.bound = bound_before
        bound_after = [after_else if after_body is not None else None]
        bound_after += [self.handler(handler) for handler in node.handlers]
        resumed = self.resumed(node.finalbody)
        final, after_final = self.branch(node.finalbody)
        node.finalbody = resumed + final
        self.merge(*bound_after)
        self.merge(after_final)

    def handler(self, node: ast.ExceptHandler) -> set[str] | None:
        """Rewrite an ``except`` block. Returns what is bound after it, as :meth:`branch` does."""
        start = self.resumed(node.body)
        if node.name:
            start += self.named(node.name, "except", node.lineno)
        body, after = self.branch(node.body)
        node.body = start + body
        return after

    def resumed(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The hooks with which a generator enters its scope again where it handles an exception.

        It left its scope at a ``yield``. An exception thrown in there skips the hook behind the ``yield``.
        """
        hooks = self.plan.point("#scope")
        if not body or not hooks or not self.facts.generator:
            return []
        return self.bare(hooks, "+")

    def on_match(self, node: ast.Match, out: list[ast.stmt]) -> None:
        out.append(node)
        for case in node.cases:
            names = captured(case.pattern)
            hooked = [key for key in names if self.plan.variable(key)]
            bound_before = None if self.bound is None else set(self.bound)
            self.bind(names)
            line = case.pattern.lineno
            start: list[ast.stmt] = []
            if case.guard is not None and not always(case.guard):
                case.guard = self.guard(case.guard, hooked, line)
            else:
                for key in hooked:
                    start += self.named(key, "match", line)
            body, _ = self.branch(case.body)
            case.body = start + body
            self.bound = bound_before

    def guard(self, guard: ast.expr, names: Sequence[str], line: int) -> ast.expr:
        """A guard of a ``case`` with the hooks of the names that its pattern binds.

        The names are bound before the guard runs, so hooks go before it, whether it holds or not: ``case x if
        (hook(x),) and guard:``.
        """
        shows: list[ast.expr] = []
        for key in names:
            hooks = self.usable(self.plan.variable(key))
            if not hooks:
                continue
            if self.in_class and not any(hook.override for hook in hooks):
                leaf = name(key, NOWHERE)
                lookups = self.looked_up(leaf, hooks, key, "match", line, NOWHERE)
                shows.append(put(ast.Tuple(elts=lookups, ctx=ast.Load()), NOWHERE))
                continue
            value = self.wrap(name(key, NOWHERE), hooks, key, "match", NOWHERE, NOWHERE, line=line)
            if any(hook.override for hook in hooks):
                target = put(ast.Name(id=key, ctx=ast.Store()), NOWHERE)
                value = put(ast.NamedExpr(target=target, value=value), NOWHERE)
            shows.append(value)
        if not shows:
            return guard
        every = put(ast.Tuple(elts=shows, ctx=ast.Load()), NOWHERE)
        return put(ast.BoolOp(op=ast.And(), values=[every, guard]), spot(guard))


# Statements after which nothing else of their block runs.
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


_VISITORS: dict[type[ast.stmt], Callable[..., None]] = {
    ast.Assign: StatementRewriter.on_assign,
    ast.AnnAssign: StatementRewriter.on_annotated,
    ast.AugAssign: StatementRewriter.on_augmented,
    ast.Import: StatementRewriter.on_import,
    ast.ImportFrom: StatementRewriter.on_import,
    ast.FunctionDef: StatementRewriter.on_definition,
    ast.AsyncFunctionDef: StatementRewriter.on_definition,
    ast.ClassDef: StatementRewriter.on_definition,
    ast.Global: StatementRewriter.on_declaration,
    ast.Nonlocal: StatementRewriter.on_declaration,
    ast.Return: StatementRewriter.on_return,
    ast.If: StatementRewriter.on_if,
    ast.For: StatementRewriter.on_for,
    ast.AsyncFor: StatementRewriter.on_for,
    ast.While: StatementRewriter.on_while,
    ast.With: StatementRewriter.on_with,
    ast.AsyncWith: StatementRewriter.on_with,
    ast.Try: StatementRewriter.on_try,
    ast.Match: StatementRewriter.on_match,
}
if hasattr(ast, "TryStar"):
    _VISITORS[ast.TryStar] = StatementRewriter.on_try
if hasattr(ast, "TypeAlias"):
    _VISITORS[ast.TypeAlias] = StatementRewriter.on_alias
