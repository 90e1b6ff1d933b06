"""Syntax tree in, syntax tree out: hooks at the places that requests name, and nothing else changed.

Hooks are found by their names in builtins, where a global name is looked for last. The names are no
identifiers: no program can have one of its own, and neither ``globals()`` nor a module's dictionary shows
them (``globals_scan.py`` of ``tests/programs``). An object among a code's constants would need no name, but
Dynamo refuses such code, while it looks through a name (``tests/rewrite/test_dynamo.py``). That a name is
any text is a habit of CPython's compiler: where a Python compiled no such name, ``compile`` would raise, each
request would be unmatched with that as its reason, and the program would run as it was written.

What the rewritten code calls, for a request whose hook is ``"injector:7"``:

========================  ===================================================================
``injector:7``            ``(value, *captures)``; a wildcard's ``(value, "name", *captures)``;
                          returns the value (or another one, to override it)
``injector:7?``           the same without the captures: it reads them from its caller's frame
``injector:7!``           ``()`` inside an ``except`` block
``injector:7.``           ``("name", wild)``, ``("name.attribute", wild, name)``: the hook of a
                          variable whose value may not be read as the program would, since that
                          runs code of the program (a property, a class's own namespace); it looks
                          itself, and captures are read from its caller's frame
``injector:7@``           ``(iterable)``: what ``yield from`` shall delegate to instead; a wildcard's
                          for what is sent is ``injector:7@>``
``injector:7+``, ``7-``   ``()``: a scope begins, goes on; it is left, suspended (in ``yield from``
                          neither is called). In generators both may come more often than in pairs
                          and must know their frame
``injector:7&``           ``(object)``: what a name was bound to, whose attributes are wanted
``injector:7~``           no call: the class ``NameError``, caught where an outer variable that is
                          only read may not exist
``injector:.to``          ``(method)``: what to call in place of ``a.to``
``injector:.to=``         ``(value)``: what that call gave
========================  ===================================================================
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .facts import COMPREHENSIONS, tags
from .nodes import (
    FUNCTIONS,
    NOWHERE,
    Spot,
    around,
    call,
    constant,
    docstring_end,
    ended,
    entry,
    future_end,
    name,
    put,
    run,
)
from .request import ANYWHERE, Match, Request
from .scopes import Hook, MatchLog, NamedScope, ScopeHooks, find, imports
from .statements import StatementRewriter

MOST_BLOCKS = 20
"""So many blocks may be nested in one function, says the compiler."""

SHORT = 8
"""Lines of a body that is there twice, with hooks and without, where there is a gate. What takes longer
to run does not notice a gate."""

_SURROUNDING = ("#exit", "#error", "#scope")
_UNSHARED = (*FUNCTIONS, ast.ClassDef, ast.Lambda, *COMPREHENSIONS, ast.Yield, ast.YieldFrom)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPOUND = {*_LOOPS, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.Match}
_COMPOUND |= {getattr(ast, "TryStar", ast.Try)}


def rewrite(
    tree: ast.Module, requests: Sequence[Request], *, module: str, filename: str, source: str
) -> tuple[list[Match], list[Request]]:
    """Put hooks into ``tree``, in place, where ``requests`` say.

    Returns where they matched, in the order of the source, and the requests that found nothing.
    """
    matches, unmatched = explain(tree, requests, module=module, filename=filename, source=source)
    return matches, [request for request, _ in unmatched]


def explain(
    tree: ast.Module, requests: Sequence[Request], *, module: str, filename: str, source: str
) -> tuple[list[Match], list[tuple[Request, str]]]:
    """Like :func:`rewrite`, with a reason for each request that found nothing (``""`` if plain)."""
    record = MatchLog(module, filename, source)
    places = find(tree, requests)
    bindings, imported = _bindings(tree, requests, places)
    if (bindings or imported) and not (places and places[0].node is tree):
        places.insert(0, NamedScope(tree, "", None))
    for place in places:
        place.requests = [r for r in place.requests if _is_tagged(place, r, record)]
        top = place.node is tree
        plan = ScopeHooks(place, bindings if top else (), imported if top else ())
        _ScopeRewriter(plan, record).instrument()
    record.matches.sort(key=lambda match: match.line)
    missed = [request for request in requests if id(request) not in record.matched]
    return record.matches, [(request, record.reasons.get(id(request), "")) for request in missed]


def _is_tagged(place: NamedScope, request: Request, record: MatchLog) -> bool:
    """Whether a function's result has the tag that a request wants of it."""
    if request.returns is None:
        return True
    annotation = getattr(place.node, "returns", None)
    if annotation is not None and request.returns in tags(annotation):
        return True
    record.refuse(request, f"what {place.function} returns does not have the tag {request.returns}")
    return False


def _bindings(
    tree: ast.Module, requests: Sequence[Request], places: Sequence[NamedScope]
) -> tuple[list[Hook], list[Hook]]:
    """Requests for what a name of the module is bound to by something else than its definition.

    A function that is defined here may also be imported under the same name, on another branch.
    """
    found = {id(request) for place in places for request in place.requests}
    outward = [request for request in requests if request.path and request.path != ANYWHERE]
    imported = imports(tree.body) if outward else set()
    bindings = [Hook(r, "&", "binding") for r in outward if id(r) not in found]
    also = [r for r in outward if id(r) in found and r.path[0] in imported]
    return bindings, [Hook(request, "&", "binding") for request in also]


def add_star_hooks(tree: ast.Module, requests: Sequence[Request]) -> dict[Request, int]:
    """After each ``from … import *`` of the module ask whether it brought what ``requests`` name."""
    wanted = [request for request in requests if request.path and request.path != ANYWHERE]
    blocks: list[list[ast.stmt]] = [tree.body] if wanted else []
    last = 0
    for block in blocks:  # grows as nested blocks are met
        for statement in list(block):
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                last = max(last, statement.lineno)
                calls = [_star_call(request, statement) for request in wanted]
                at = block.index(statement) + 1
                block[at:at] = calls
            elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                parts = [statement, *getattr(statement, "handlers", ())]
                fields = ("body", "orelse", "finalbody")
                blocks += [b for part in parts for f in fields if (b := getattr(part, f, None))]
    return dict.fromkeys(wanted, last) if last else {}


def _star_call(request: Request, statement: ast.stmt) -> ast.stmt:
    name = ast.Name(id=request.hook + "*", ctx=ast.Load())
    node = ast.Expr(value=ast.Call(func=name, args=[], keywords=[]))
    return ast.fix_missing_locations(ast.copy_location(node, statement))


class _ScopeRewriter(StatementRewriter):
    """The frame of one scope: what happens when it is entered and left."""

    def instrument(self) -> None:
        """Put the hooks into the scope's node."""
        node = self.plan.place.node
        if isinstance(node, ast.Lambda):
            self.expression_body(node)
            self.reads(entry_of(node))
            return
        self.limit(node)
        keep = future_end(node.body) if isinstance(node, ast.Module) else docstring_end(node.body)
        kept, rest = node.body[:keep], node.body[keep:]
        if not rest and not kept:
            return
        where = entry(rest, node)
        plain = self.gated(node, rest)
        is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        # What runs first and last sees what is bound at the start, the statements what they bound.
        enclosing = None if isinstance(node, ast.ClassDef) else self.enclosing(where)
        start = self.reads(where) if enclosing is None else self.start(where)
        body = rest if self.plan.place.around else self.block(rest)
        if is_function:
            self.fall_off(self.values(), body)
        body = start + body
        if enclosing is not None:
            body = enclosing.put(body, where)
        if is_function and plain is not None:
            body = [put(ast.If(test=plain[0], body=plain[1], orelse=body), where)]
        if not isinstance(node, FUNCTIONS):
            body = self.declaration(where) + body
        node.body = kept + body

    def gated(self, node: ast.AST, body: list[ast.stmt]) -> tuple[ast.expr, list[ast.stmt]] | None:
        """The test of the function's gate and its body as it was written; None if there is no gate."""
        gates = {request.gate for request in self.plan.place.requests}
        gate = gates.pop() if len(gates) == 1 else None
        if gate is None or not body or not isinstance(node, ast.FunctionDef):
            return None
        if (body[-1].end_lineno or 0) - body[0].lineno >= SHORT:
            return None
        if any(isinstance(inner, _UNSHARED) for part in body for inner in ast.walk(part)):
            return None  # its code would be there twice, and the two could not be distinguished
        from copy import deepcopy

        where = entry(body, node)
        return call(gate, [], where, where), deepcopy(body)

    def limit(
        self, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    ) -> None:
        """Give up the hooks that would nest blocks deeper than the compiler takes."""
        points = self.plan.points
        wanted = [p for p in points if p in _SURROUNDING or p.startswith("#endloop")]
        if not wanted:
            return
        depth, loops = nesting(node.body)
        for point in sorted(wanted, key=lambda point: point in _SURROUNDING):
            depth += 1 if point in _SURROUNDING else loops
        for point in sorted(wanted, key=lambda point: point in _SURROUNDING):
            if depth <= MOST_BLOCKS:
                break
            depth -= 1 if point in _SURROUNDING else loops
            for hook in points.pop(point):
                where = self.plan.place.function or "the module"
                self.record.refuse(hook.request, f"{where} nests its blocks too deeply for {point}")

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

    def fall_off(self, hooks: Sequence[Hook], body: list[ast.stmt]) -> None:
        """``return hook(None)`` wherever the function ends without a ``return``.

        Inside a ``try`` of ours the return is written out even without a hook: each of our calls then
        runs as part of the line that ended the function, as the return itself would.
        """
        inside = any(self.plan.point(point) for point in _SURROUNDING)
        if not (hooks or inside) or ended(body):
            return
        line = self.plan.place.node.body[-1].lineno  # type: ignore[index]
        for hook in hooks:
            self.record.add_match(hook, self.plan.place.function, line, "return")

        def leave() -> ast.stmt:
            value: ast.expr | None = constant(None, NOWHERE) if hooks else None
            for hook in hooks:
                assert value is not None
                value = self.call(hook, value, "#value", NOWHERE, NOWHERE)
            return put(ast.Return(value=value), NOWHERE)

        end(body, leave)

    def enclosing(self, where: Spot) -> _Enclosing:
        """What ``#scope``, ``#error`` and ``#exit`` put around the body."""
        line = getattr(self.plan.place.node, "lineno", 1)
        scopes = self.plan.point("#scope")
        begin = self.bare(scopes, "+", where, "scope", line)
        error = self.bare(self.plan.point("#error"), "!", kind="error", line=line)
        # A generator that is closed while it waits is back in its scope.
        again = self.bare(scopes, "+") if self.facts.generator else []
        error = [*again, *error] if error else error
        # What began last ends first: the spans of two hooks around one call lie inside of each other.
        leaving = tuple(reversed(self.plan.point("#exit")))
        final = self.signal("#exit", leaving, "exit", line)
        final = [*again, *final] if final else final
        final += self.bare(scopes, "-")
        return _Enclosing(begin, error, final)

    def reads(self, where: Spot) -> list[ast.stmt]:
        """Variables that are only read here: shown once at the start, or exchanged at each read."""
        statements: list[ast.stmt] = []
        facts = self.facts
        bound = facts.assigned | facts.targets | facts.quiet | facts.deleted
        bound |= {arg.arg for arg in facts.params}
        wild = isinstance(self.plan.place.node, (ast.FunctionDef, ast.AsyncFunctionDef))
        named = self.plan.variables or (wild and self.plan.wild)
        for variable in sorted(facts.loads.keys() - bound) if named else ():
            hooks = [hook for hook in self.plan.variable(variable) if hook.kind is None]
            hooks = [hook for hook in hooks if not hook.wild or (wild and not hook.override)]
            if not hooks:
                continue
            if isinstance(self.plan.place.node, ast.Lambda):
                self.override_reads(variable, hooks, most=1)
            elif any(hook.override for hook in hooks):
                self.override_reads(variable, hooks)
            else:
                statements += self.shown(variable, hooks, where)
                # The compiler takes each ``super`` of a function for a use of ``__class__`` as well.
                used = {variable, "__class__"} if variable == "super" else {variable}
                self.declared_first |= not used.isdisjoint(facts.declared)
        if self.declared_first:
            again = [put(type(d)(names=list(d.names)), where) for d in facts.declarations]
            return [*again, *statements]
        return statements

    def shown(self, variable: str, hooks: Sequence[Hook], where: Spot) -> list[ast.stmt]:
        """``hook(x)`` at the start, silent while the variable does not exist."""
        line = min(site.node.lineno for site in self.facts.loads[variable])
        if self.in_class:
            return self.after(name(variable, where), hooks, variable, "read", line, where)
        value = self.wrap(name(variable, where), hooks, variable, "read", where, where, line=line)
        missing = name(hooks[0].name + "~", where)
        self.used.add(hooks[0].name + "~")
        handler = put(
            ast.ExceptHandler(type=missing, name=None, body=[put(ast.Pass(), where)]), where
        )
        shown = run(value, where)
        return [put(ast.Try(body=[shown], handlers=[handler], orelse=[], finalbody=[]), where)]


class _Enclosing(NamedTuple):
    """Statements before a body, in an ``except`` and in a ``finally`` around it."""

    begin: list[ast.stmt]
    error: list[ast.stmt]
    final: list[ast.stmt]

    def put(self, body: list[ast.stmt], where: Spot) -> list[ast.stmt]:
        """The body with them."""
        if not self.error and not self.final:
            return self.begin + body
        return [*self.begin, *around(body, self.error, self.final, where)]


def nesting(body: Sequence[ast.stmt]) -> tuple[int, int]:
    """How deeply a body nests blocks, as the compiler counts or a little more, and how deeply loops."""
    blocks = loops = 0
    stack = [(body, 0, 0)]
    while stack:
        block, outer, around = stack.pop()
        for statement in block:
            if type(statement) not in _COMPOUND:
                continue
            deeper, turning = outer + _blocks(statement), around
            if isinstance(statement, _LOOPS):
                turning += 1
            blocks, loops = max(blocks, deeper), max(loops, turning)
            inside = [getattr(statement, field, ()) for field in ("body", "orelse", "finalbody")]
            parts = (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ()))
            inside += [part.body for part in parts]
            stack += [(block, deeper, turning) for block in inside]
    return blocks, loops


def _blocks(statement: ast.stmt) -> int:
    """The compiler's own blocks around what is inside one statement."""
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return len(statement.items)
    if hasattr(statement, "handlers"):
        return 2 + bool(statement.finalbody)  # type: ignore[attr-defined]
    return int(isinstance(statement, _LOOPS))


def entry_of(node: ast.Lambda) -> Spot:
    """Where a lambda's body begins."""
    return Spot(node.body.lineno, node.body.col_offset, node.body.lineno, node.body.col_offset)


def end(body: list[ast.stmt], leave: Callable[[], ast.stmt]) -> None:
    """Return from a function at the end of its last block, or of each of several last blocks.

    Going into the branches keeps each return beside the line it belongs to. Only those are entered
    where nothing of the program would run between the return and the function's end.
    """
    last = body[-1] if body else None
    while isinstance(last, ast.If):
        end(last.body, leave)
        if len(last.orelse) == 1 and isinstance(last.orelse[0], ast.If):
            last = last.orelse[0]
            continue
        end(last.orelse, leave)
        return
    if isinstance(last, _LOOPS):
        end(last.orelse, leave)
    elif isinstance(last, ast.Match):
        for case in last.cases:
            end(case.body, leave)
    elif getattr(last, "handlers", None) and not getattr(last, "finalbody", None):
        end(last.orelse, leave)  # type: ignore[union-attr]
    if not ended(body):
        body.append(leave())
