"""Syntax tree in, syntax tree out: hooks at the places that requests name, and nothing else changed.

What the rewritten code calls, for a request whose hook is ``"injector:7"``; all are found by name in
builtins:

========================  ===================================================================
``injector:7``            ``(value, *captures)``; a wildcard's ``(value, "name", *captures)``;
                          returns the value (or another one, to override it)
``injector:7?``           the same without the captures: it reads them from its caller's frame
``injector:7!``           ``()`` inside an ``except`` block
``injector:7@``           ``(iterable)``: what ``yield from`` shall delegate to instead
``injector:7+``, ``7-``   ``()``: a scope begins, goes on; it is left, suspended. In generators
                          both may come more often than in pairs and must know their frame
``injector:7&``           ``(object)``: what a name was bound to, whose attributes are wanted
``injector:7~``           no call: the class ``NameError``, caught where an outer variable that is
                          only read may not exist
========================  ===================================================================
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .nodes import (
    FUNCTIONS,
    NOWHERE,
    Spot,
    constant,
    docstring_end,
    entry,
    future_end,
    name,
    put,
    run,
)
from .paths import Place, find
from .plan import Hook, Plan, Record
from .request import ANYWHERE, Landing, Request
from .weave import Weaver, guarded

MOST_BLOCKS = 20
"""So many blocks may be nested in one function, says the compiler."""


def rewrite(
    tree: ast.Module, requests: Sequence[Request], *, module: str, filename: str, source: str
) -> tuple[list[Landing], list[Request]]:
    """Put hooks into ``tree``, in place, where ``requests`` say.

    Returns where they landed, in the order of the source, and the requests that found nothing.
    """
    landings, misses = explain(tree, requests, module=module, filename=filename, source=source)
    return landings, [request for request, _ in misses]


def explain(
    tree: ast.Module, requests: Sequence[Request], *, module: str, filename: str, source: str
) -> tuple[list[Landing], list[tuple[Request, str]]]:
    """Like :func:`rewrite`, with a reason for each request that found nothing (``""`` if plain)."""
    record = Record(module, filename, source)
    places = find(tree, requests)
    bindings, imports = _bindings(tree, requests, places)
    if (bindings or imports) and not (places and places[0].node is tree):
        places.insert(0, Place(tree, "", None))
    for place in places:
        top = place.node is tree
        plan = Plan(place, bindings if top else (), imports if top else ())
        _Scope(plan, record).weave()
    record.landings.sort(key=lambda landing: landing.line)
    missed = [request for request in requests if id(request) not in record.landed]
    return record.landings, [(request, record.reasons.get(id(request), "")) for request in missed]


def _bindings(
    tree: ast.Module, requests: Sequence[Request], places: Sequence[Place]
) -> tuple[list[Hook], list[Hook]]:
    """Requests for what a name of the module is bound to by something else than its definition.

    A function that is defined here may also be imported under the same name, on another branch.
    """
    found = {id(request) for place in places for request in place.requests}
    bindings: list[Hook] = []
    imports: list[Hook] = []
    for request in requests:
        if request.path and request.path != ANYWHERE:
            where = imports if id(request) in found else bindings
            where.append(Hook(request, "&", "binding"))
    return bindings, imports


class _Scope(Weaver):
    """The frame of one scope: what happens when it is entered and left."""

    def weave(self) -> None:
        """Put the hooks into the scope's node."""
        node = self.plan.place.node
        if isinstance(node, ast.Lambda):
            self.expression_body(node)
            self.reads(entry_of(node))
            return
        keep = future_end(node.body) if isinstance(node, ast.Module) else docstring_end(node.body)
        kept, rest = node.body[:keep], node.body[keep:]
        if not rest and not kept:
            return
        where = entry(rest, node)
        body = self.block(rest)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = self.function(node, body, where)
        elif isinstance(node, ast.Module):
            body = self.surrounded(self.start(where) + body, where, 1)
        else:
            body = self.reads(where) + body
        if not isinstance(node, FUNCTIONS):
            body = self.declaration(where) + body
        node.body = kept + body

    def function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, body: list[ast.stmt], where: Spot
    ) -> list[ast.stmt]:
        """A function's body from its first event to its last."""
        body = self.start(where) + body
        if falls_off(node.body):
            body += self.fall_off(self.values())
        return self.surrounded(body, where, node.lineno)

    def start(self, where: Spot) -> list[ast.stmt]:
        """What runs first: ``#enter``, the outer variables that are read, the arguments."""
        line = getattr(self.plan.place.node, "lineno", 1)
        body = self.signal("#enter", self.plan.point("#enter"), "enter", line, where)
        body += self.reads(where)
        for arg in self.facts.params:
            hooks = self.plan.variable(arg.arg)
            if hooks:
                leaf = name(arg.arg, where)
                body += self.after(leaf, hooks, arg.arg, "argument", arg.lineno, where)
        return body

    def fall_off(self, hooks: Sequence[Hook]) -> list[ast.stmt]:
        """``return hook(None)`` where the function ends without a ``return``.

        Inside a ``try`` of ours the return is written out even without a hook: the compiler then
        makes one for each way that leads there, with the line of that way.
        """
        if not hooks:
            inside = any(self.plan.point(point) for point in ("#exit", "#error", "#scope"))
            return [put(ast.Return(value=None), NOWHERE)] if inside else []
        line = self.plan.place.node.body[-1].lineno  # type: ignore[union-attr, index]
        none = constant(None, NOWHERE)
        value = self.wrap(none, hooks, "#value", "return", NOWHERE, NOWHERE, line=line)
        return [put(ast.Return(value=value), NOWHERE)]

    def surrounded(self, body: list[ast.stmt], where: Spot, line: int) -> list[ast.stmt]:
        """The body between ``#scope``, ``#error`` and ``#exit``."""
        scopes = self.plan.point("#scope")
        begin = self.bare(scopes, "+", where, "scope", line)
        error = self.bare(self.plan.point("#error"), "!", kind="error", line=line)
        final = self.signal("#exit", self.plan.point("#exit"), "exit", line)
        final += self.bare(scopes, "-")
        if not error and not final:
            return begin + body
        if not body:
            body = [put(ast.Pass(), where)]
        return [*begin, guarded(body, error, final, where)]

    def reads(self, where: Spot) -> list[ast.stmt]:
        """Variables that are only read here: shown once at the start, or exchanged at each read."""
        statements: list[ast.stmt] = []
        facts = self.facts
        bound = facts.assigned | facts.targets | facts.quiet | facts.deleted
        bound |= {arg.arg for arg in facts.params}
        for variable in sorted(facts.loads.keys() - bound) if self.plan.variables else ():
            hooks = [h for h in self.plan.variable(variable) if not h.wild and h.kind is None]
            if not hooks:
                continue
            if isinstance(self.plan.place.node, ast.Lambda):
                self.override_reads(variable, hooks, most=1)
            elif any(hook.override for hook in hooks):
                self.override_reads(variable, hooks)
            else:
                statements += self.shown(variable, hooks, where)
        return statements

    def shown(self, variable: str, hooks: Sequence[Hook], where: Spot) -> list[ast.stmt]:
        """``hook(x)`` at the start, silent while the variable does not exist."""
        line = min(site.node.lineno for site in self.facts.loads[variable])
        value = self.wrap(
            name(variable, where), hooks, variable, "read", where, where, line=line
        )
        missing = name(hooks[0].name + "~", where)
        self.used.add(hooks[0].name + "~")
        handler = put(
            ast.ExceptHandler(type=missing, name=None, body=[put(ast.Pass(), where)]), where
        )
        shown = run(value, where)
        return [put(ast.Try(body=[shown], handlers=[handler], orelse=[], finalbody=[]), where)]


def entry_of(node: ast.Lambda) -> Spot:
    """Where a lambda's body begins."""
    return Spot(node.body.lineno, node.body.col_offset, node.body.lineno, node.body.col_offset)


def falls_off(body: Sequence[ast.stmt]) -> bool:
    """Whether control may reach the end of a block. Says so too where only the compiler knows."""
    last = body[-1]
    while isinstance(last, ast.If) and last.orelse:
        if falls_off(last.body):
            return True
        last = last.orelse[-1]
    return not isinstance(last, (ast.Return, ast.Raise))

