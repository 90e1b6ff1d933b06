"""Hook calls for one scope: how they are written, and which variables they may take along.

A hook that captures other variables gets them as arguments where it is sure that they have a value. Where it
is not, reading one could raise UnboundLocalError into the program: the form ``injector:7?`` is called
instead, which looks into its caller's frame for those that exist.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from .facts import Facts, Inner, foreign
from .nodes import FUNCTIONS, NOWHERE, Spot, call, constant, name, put, run, store
from .nodes import load as read
from .scopes import Hook, MatchLog, ScopeHooks


class HookCalls:
    """Writes the hook calls of a scope, records matches, and knows which variables surely have a value."""

    def __init__(self, plan: ScopeHooks, record: MatchLog) -> None:
        self.plan = plan
        self.facts: Facts = plan.place.facts
        self.record = record
        self.used: set[str] = set()
        """Names of the hooks called in this scope."""
        self.declared_first = False
        """Whether all ``global`` and ``nonlocal`` of the scope stand at its start."""
        self.bound: set[str] | None = None
        """Variables that surely have a value here; None where no hook has captures."""
        self.unsafe: set[str] = set()
        """Variables that are never sure to have a value: other code may delete them at any time."""
        if plan.captures:
            self.bound = set()
            self.unsafe = self.facts.deleted | self.facts.declared
            self.unsafe |= foreign(plan.place.node, self.facts.nested)
            self.bind(arg.arg for arg in self.facts.params)

    # -- what is bound

    def bind(self, names: Iterable[str]) -> None:
        """Note variables that surely have a value from here on."""
        if self.bound is not None:
            self.bound.update(variable for variable in names if variable not in self.unsafe)

    def reachable(self, variable: str, inner: Inner | None) -> bool:
        """Whether a hook may read ``variable`` directly, inside of the comprehension ``inner`` if any.

        It must be bound, and reading it must not turn it into a closure variable: a function's cells would
        differ from those of the loaded code, and it could not be exchanged.
        """
        comprehension = inner
        while comprehension is not None:
            if variable in comprehension.bound:
                return True
            if variable in comprehension.targets or variable not in comprehension.loaded:
                return False
            comprehension = comprehension.outer
        if inner is not None and isinstance(self.plan.place.node, ast.ClassDef):
            return False
        return self.bound is not None and variable in self.bound and not self.in_class

    # -- calls

    def call(
        self,
        hook: Hook,
        value: ast.expr,
        key: str,
        where: Spot,
        start: Spot,
        inner: Inner | None = None,
    ) -> ast.expr:
        """``hook(value)``, with the name of the variable for wildcards, and with its captures."""
        args = [value]
        if hook.wild:
            args.append(constant(key, where))
        captures = hook.request.captures if hook.kind is None else ()
        target = hook.name
        if captures:
            if all(self.reachable(variable, inner) for variable in captures):
                args.extend(name(variable, where) for variable in captures)
            else:
                target += "?"
        self.used.add(target)
        return call(target, args, where, start)

    def wrap(
        self,
        value: ast.expr,
        hooks: Iterable[Hook],
        key: str,
        kind: str,
        where: Spot,
        start: Spot,
        inner: Inner | None = None,
        line: int = 0,
    ) -> ast.expr:
        """``value`` with ``hooks`` around it, the first of them innermost: ``second(first(value))``."""
        for hook in self.usable(hooks):
            value = self.call(hook, value, key, where, start, inner)
            self.record.add_match(hook, self.plan.place.function, line or where.line, kind)
        return value

    def usable(self, hooks: Iterable[Hook]) -> list[Hook]:
        """The hooks whose captures are variables of this scope. The others are refused."""
        all_hooks = list(hooks)
        if not self.plan.captures:
            return all_hooks
        return [hook for hook in all_hooks if self._known(hook)]

    def _known(self, hook: Hook) -> bool:
        """Whether all variables that a hook captures exist in this scope. If not, the hook is refused."""
        if hook.kind is not None or not hook.request.captures:
            return True
        names = self.facts.names()
        for variable in hook.request.captures:
            if variable.partition(".")[0] not in names:
                where = self.plan.place.function or "the module"
                self.record.refuse(hook.request, f"{where} has no variable {variable}")
                return False
        return True

    def after(
        self,
        leaf: ast.Name | ast.Attribute,
        hooks: Iterable[Hook],
        key: str,
        kind: str,
        line: int,
        where: Spot = NOWHERE,
    ) -> list[ast.stmt]:
        """A statement that observes, or overrides, what a variable was just bound to."""
        usable = self.usable(hooks)
        if not usable or not self.readable(leaf, usable):
            return []
        overriding = any(hook.override for hook in usable)
        if not overriding and (isinstance(leaf, ast.Attribute) or self.in_class):
            return [
                run(value, where) for value in self.looked_up(leaf, usable, key, kind, line, where)
            ]
        value = self.wrap(read(leaf, where), usable, key, kind, where, where, line=line)
        return [store(leaf, value, where) if overriding else run(value, where)]

    @property
    def in_class(self) -> bool:
        """Whether reading a name may run code: a class body has the namespace that ``__prepare__`` gave."""
        return isinstance(self.plan.place.node, ast.ClassDef)

    def looked_up(
        self,
        leaf: ast.Name | ast.Attribute,
        hooks: Iterable[Hook],
        key: str,
        kind: str,
        line: int,
        where: Spot,
    ) -> list[ast.expr]:
        """Calls of hooks that look for the value themselves, by its name.

        Reading an attribute would run a property, or ``__getattr__``: code that the program did not run.
        """
        calls: list[ast.expr] = []
        for hook in hooks:
            args: list[ast.expr] = [constant(self.plan.mangled(key), where)]
            args.append(constant(hook.wild, where))
            if not self.in_class:
                args.append(name(key.partition(".")[0], where))
            calls.append(self.suffixed(hook, ".", args, where))
            self.record.add_match(hook, self.plan.place.function, line, kind)
        return calls

    def readable(self, leaf: ast.Name | ast.Attribute, hooks: Iterable[Hook]) -> bool:
        """Whether reading a variable leaves the function's closure as it is.

        The compiler gives every function that reads the name ``super`` a cell for ``__class__``, even if
        ``super`` is a local variable.
        """
        node: ast.expr = leaf
        while isinstance(node, ast.Attribute):
            node = node.value
        if not (isinstance(node, ast.Name) and node.id == "super"):
            return True
        if "super" in self.facts.loaded or not isinstance(self.plan.place.node, FUNCTIONS):
            return True
        for hook in hooks:
            self.record.refuse(hook.request, "a variable called super cannot be looked at")
        return False

    def signal(
        self, variable: str, hooks: Iterable[Hook], kind: str, line: int, where: Spot = NOWHERE
    ) -> list[ast.stmt]:
        """``hook(True)`` as a statement, for each hook."""
        statements: list[ast.stmt] = []
        for hook in self.usable(hooks):
            value = self.wrap(
                constant(True, where), [hook], variable, kind, where, where, line=line
            )
            statements.append(run(value, where))
        return statements

    def bare(
        self,
        hooks: Iterable[Hook],
        suffix: str,
        where: Spot = NOWHERE,
        kind: str | None = None,
        line: int = 0,
    ) -> list[ast.stmt]:
        """``hook_with_suffix()`` as a statement, for each hook. With a ``kind``, each is a match."""
        statements: list[ast.stmt] = []
        for hook in hooks:
            if kind is not None:
                self.record.add_match(hook, self.plan.place.function, line, kind)
            statements.append(run(self.suffixed(hook, suffix, [], where), where))
        return statements

    def suffixed(self, hook: Hook, suffix: str, args: list[ast.expr], where: Spot) -> ast.expr:
        """A call of another form of ``hook``, which ``suffix`` names (:mod:`.transform`)."""
        self.used.add(hook.name + suffix)
        return call(hook.name + suffix, args, where)

    def declaration(self, where: Spot) -> list[ast.stmt]:
        """``global`` for the hooks of a module or class body, so that they are looked up as in a function.

        Without it, the namespace of a class body would be searched first, and one that answers every name
        (``__prepare__``) would answer for ours; a loop at module level would search two dictionaries for each
        event.
        """
        return [put(ast.Global(names=sorted(self.used)), where)] if self.used else []
