"""Syntax tree in, syntax tree out: hooks at the places that requests name, and nothing else changed.

With requests for ``loss`` and ``#exit`` of ``train``, whose hooks are ``injector:1`` and ``injector:2``::

    def train(batch):                      def train(batch):
        loss = model(batch)                    try:
        loss.backward()                            loss = injector:1(model(batch))
                                                   loss.backward()
                                                   return
                                               finally:
                                                   injector:2(True)

:mod:`.scopes` finds the functions that requests name, :mod:`.facts` what each of them binds and reads,
:mod:`.statements` and :mod:`.expressions` rewrite what is inside, and this module the frame around it.
Added code stands at lines of the program (:mod:`.nodes`).

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
"""CPython's compiler refuses functions with more blocks nested (``CO_MAXBLOCKS``)."""

SHORT = 8
"""Where a function has a gate, its body is there twice, with hooks and without, up to this many lines. A
longer body takes so much longer than its hooks that a gate would save nothing."""

# Points whose hooks need a `try` around the whole body.
_SURROUNDING = ("#exit", "#error", "#scope")
# Nodes that make a code object, or turn the function into a generator: they must not be there twice.
_UNSHARED = (*FUNCTIONS, ast.ClassDef, ast.Lambda, *COMPREHENSIONS, ast.Yield, ast.YieldFrom)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPOUND = {*_LOOPS, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.Match}
_COMPOUND |= {getattr(ast, "TryStar", ast.Try)}


def rewrite(
    tree: ast.Module, requests: Sequence[Request], *, module: str, filename: str, source: str
) -> tuple[list[Match], list[Request]]:
    """Put hooks into ``tree``, in place, where ``requests`` say.

    Returns the matches in the order of the source, and the requests that found nothing.
    """
    matches, unmatched = explain(tree, requests, module=module, filename=filename, source=source)
    return matches, [request for request, _ in unmatched]


def explain(
    tree: ast.Module, requests: Sequence[Request], *, module: str, filename: str, source: str
) -> tuple[list[Match], list[tuple[Request, str]]]:
    """Put hooks into ``tree`` as :func:`rewrite` does, and say why where a request found nothing.

    The reason is ``""`` where the text simply holds no such name.
    """
    log = MatchLog(module, filename, source)
    places = find(tree, requests)
    bindings, imported = _bindings(tree, requests, places)
    # Hooks on what gets bound go into the module's own level, which no request may have named.
    if (bindings or imported) and not (places and places[0].node is tree):
        places.insert(0, NamedScope(tree, "", None))
    for place in places:
        place.requests = [r for r in place.requests if _is_tagged(place, r, log)]
        is_module = place.node is tree
        plan = ScopeHooks(place, bindings if is_module else (), imported if is_module else ())
        _ScopeRewriter(plan, log).instrument()
    log.matches.sort(key=lambda match: match.line)
    unmatched = [request for request in requests if id(request) not in log.matched]
    return log.matches, [(request, log.reasons.get(id(request), "")) for request in unmatched]


def _is_tagged(place: NamedScope, request: Request, record: MatchLog) -> bool:
    """Whether a function's result has the tag that a request demands; if not, ``record`` has why."""
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
    """Requests to be met where the module binds a name to an object that is defined elsewhere.

    Returns hooks for names that the module does not define itself, and hooks for those that it defines and
    also imports, on another branch.
    """
    defined = {id(request) for place in places for request in place.requests}
    outward = [request for request in requests if request.path and request.path != ANYWHERE]
    imported = imports(tree.body) if outward else set()
    bindings = [Hook(r, "&", "binding") for r in outward if id(r) not in defined]
    also_imported = [r for r in outward if id(r) in defined and r.path[0] in imported]
    return bindings, [Hook(request, "&", "binding") for request in also_imported]


def add_star_hooks(tree: ast.Module, requests: Sequence[Request]) -> dict[Request, int]:
    """After each ``from … import *`` of the module, call a hook that looks if it brought a requested name.

    Returns the requests that wait for such an import, each with the line of the last one.
    """
    named = [request for request in requests if request.path and request.path != ANYWHERE]
    blocks: list[list[ast.stmt]] = [tree.body] if named else []
    last_line = 0
    for block in blocks:  # grows as nested blocks are met
        for statement in list(block):
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                last_line = max(last_line, statement.lineno)
                calls = [_star_call(request, statement) for request in named]
                at = block.index(statement) + 1
                block[at:at] = calls
            elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                parts = [statement, *getattr(statement, "handlers", ())]
                fields = ("body", "orelse", "finalbody")
                blocks += [b for part in parts for f in fields if (b := getattr(part, f, None))]
    return dict.fromkeys(named, last_line) if last_line else {}


def _star_call(request: Request, statement: ast.stmt) -> ast.stmt:
    name = ast.Name(id=request.hook + "*", ctx=ast.Load())
    node = ast.Expr(value=ast.Call(func=name, args=[], keywords=[]))
    return ast.fix_missing_locations(ast.copy_location(node, statement))


class _ScopeRewriter(StatementRewriter):
    """Rewrites one scope: what happens when it is entered and left, around its statements."""

    def instrument(self) -> None:
        """Put the hooks into the scope's node."""
        node = self.plan.place.node
        if isinstance(node, ast.Lambda):
            self.expression_body(node)
            self.reads(entry_of(node))
            return
        self.limit(node)
        kept_end = (
            future_end(node.body) if isinstance(node, ast.Module) else docstring_end(node.body)
        )
        kept, rest = node.body[:kept_end], node.body[kept_end:]
        if not rest and not kept:
            return
        where = entry(rest, node)
        plain = self.gated(node, rest)
        is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        # The order matters: these note which variables have a value at their place. What runs first and last
        # may capture what is bound at the start, the statements also what was bound before them.
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
        """The call of the function's gate, and a copy of its body as it was written.

        None if its hooks have no gate in common, or if its body may not be there twice.
        """
        gates = {request.gate for request in self.plan.place.requests}
        gate = gates.pop() if len(gates) == 1 else None
        if gate is None or not body or not isinstance(node, ast.FunctionDef):
            return None
        if (body[-1].end_lineno or 0) - body[0].lineno >= SHORT:
            return None
        if any(isinstance(inner, _UNSHARED) for part in body for inner in ast.walk(part)):
            # Two code objects of one name and line: a loaded function could not be found in the new code.
            return None
        from copy import deepcopy

        where = entry(body, node)
        return call(gate, [], where, where), deepcopy(body)

    def limit(
        self, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    ) -> None:
        """Give up hooks that would nest blocks deeper than the compiler takes.

        A SyntaxError for them would cost all the hooks of the module. Hooks of loops go first, since those
        around the body need one block only.
        """
        points = self.plan.points
        nested_points = [p for p in points if p in _SURROUNDING or p.startswith("#endloop")]
        if not nested_points:
            return
        depth, loops = nesting(node.body)
        for point in sorted(nested_points, key=lambda point: point in _SURROUNDING):
            depth += 1 if point in _SURROUNDING else loops
        for point in sorted(nested_points, key=lambda point: point in _SURROUNDING):
            if depth <= MOST_BLOCKS:
                break
            depth -= 1 if point in _SURROUNDING else loops
            for hook in points.pop(point):
                where = self.plan.place.function or "the module"
                self.record.refuse(hook.request, f"{where} nests its blocks too deeply for {point}")

    def start(self, where: Spot) -> list[ast.stmt]:
        """The statements that run first: ``#enter``, outer variables that are only read, the arguments."""
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
        """Add ``return hook(None)`` wherever the function ends without a ``return``.

        Inside a ``try`` of ours the return is written out even without a hook: each hook then runs as part of
        the line that ended the function, as the return itself would.
        """
        is_surrounded = any(self.plan.point(point) for point in _SURROUNDING)
        if not (hooks or is_surrounded) or ended(body):
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
        """The hooks of ``#scope``, ``#error`` and ``#exit``, which go around the body."""
        line = getattr(self.plan.place.node, "lineno", 1)
        scopes = self.plan.point("#scope")
        begin = self.bare(scopes, "+", where, "scope", line)
        error = self.bare(self.plan.point("#error"), "!", kind="error", line=line)
        # A generator left its scope when it yielded. If it is closed meanwhile, GeneratorExit is raised at
        # that yield, and the hooks that see it must find the scope entered.
        again = self.bare(scopes, "+") if self.facts.generator else []
        error = [*again, *error] if error else error
        # In reverse order of entering, so that the spans of two hooks around one call nest.
        leaving = tuple(reversed(self.plan.point("#exit")))
        final = self.signal("#exit", leaving, "exit", line)
        final = [*again, *final] if final else final
        final += self.bare(scopes, "-")
        return _Enclosing(begin, error, final)

    def reads(self, where: Spot) -> list[ast.stmt]:
        """Hooks for variables that the scope reads and never binds.

        One that observes is called once at the start; one that overrides is put around each read.
        """
        statements: list[ast.stmt] = []
        facts = self.facts
        bound = facts.assigned | facts.targets | facts.quiet | facts.deleted
        bound |= {arg.arg for arg in facts.params}
        is_function = isinstance(self.plan.place.node, (ast.FunctionDef, ast.AsyncFunctionDef))
        may_match = self.plan.variables or (is_function and self.plan.wild)
        for variable in sorted(facts.loads.keys() - bound) if may_match else ():
            hooks = [hook for hook in self.plan.variable(variable) if hook.kind is None]
            hooks = [hook for hook in hooks if not hook.wild or (is_function and not hook.override)]
            if not hooks:
                continue
            if isinstance(self.plan.place.node, ast.Lambda):
                self.override_reads(variable, hooks, most=1)
            elif any(hook.override for hook in hooks):
                self.override_reads(variable, hooks)
            else:
                statements += self.shown(variable, hooks, where)
                # The compiler takes each ``super`` in a function for a use of ``__class__`` as well.
                used = {variable, "__class__"} if variable == "super" else {variable}
                self.declared_first |= not used.isdisjoint(facts.declared)
        # `global x` after a use of x is a SyntaxError: the declaration comes before our own uses.
        if self.declared_first:
            repeated = [put(type(d)(names=list(d.names)), where) for d in facts.declarations]
            return [*repeated, *statements]
        return statements

    def shown(self, variable: str, hooks: Sequence[Hook], where: Spot) -> list[ast.stmt]:
        """``hook(x)`` at the start, in a ``try`` that passes if the variable does not exist (yet)."""
        line = min(site.node.lineno for site in self.facts.loads[variable])
        if self.in_class:
            return self.after(name(variable, where), hooks, variable, "read", line, where)
        value = self.wrap(name(variable, where), hooks, variable, "read", where, where, line=line)
        name_error = name(hooks[0].name + "~", where)
        self.used.add(hooks[0].name + "~")
        handler = put(
            ast.ExceptHandler(type=name_error, name=None, body=[put(ast.Pass(), where)]), where
        )
        statement = run(value, where)
        return [put(ast.Try(body=[statement], handlers=[handler], orelse=[], finalbody=[]), where)]


class _Enclosing(NamedTuple):
    """Statements before a body, in an ``except`` around it, and in a ``finally`` around it."""

    begin: list[ast.stmt]
    error: list[ast.stmt]
    final: list[ast.stmt]

    def put(self, body: list[ast.stmt], where: Spot) -> list[ast.stmt]:
        """``body`` with these statements around it."""
        if not self.error and not self.final:
            return self.begin + body
        return [*self.begin, *around(body, self.error, self.final, where)]


def nesting(body: Sequence[ast.stmt]) -> tuple[int, int]:
    """How deep a body nests blocks and how deep it nests loops.

    Blocks are counted as the compiler does or a little higher: a hook too few is better than a SyntaxError.
    """
    blocks = loops = 0
    stack = [(body, 0, 0)]
    while stack:
        block, outer_blocks, outer_loops = stack.pop()
        for statement in block:
            if type(statement) not in _COMPOUND:
                continue
            blocks_around, loops_around = outer_blocks + _blocks(statement), outer_loops
            if isinstance(statement, _LOOPS):
                loops_around += 1
            blocks, loops = max(blocks, blocks_around), max(loops, loops_around)
            inside = [getattr(statement, field, ()) for field in ("body", "orelse", "finalbody")]
            parts = (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ()))
            inside += [part.body for part in parts]
            stack += [(block, blocks_around, loops_around) for block in inside]
    return blocks, loops


def _blocks(statement: ast.stmt) -> int:
    """How many of the compiler's blocks are around what is inside of one statement."""
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return len(statement.items)
    if hasattr(statement, "handlers"):
        return 2 + bool(statement.finalbody)  # type: ignore[attr-defined]
    return int(isinstance(statement, _LOOPS))


def entry_of(node: ast.Lambda) -> Spot:
    """Where a lambda's body begins."""
    return Spot(node.body.lineno, node.body.col_offset, node.body.lineno, node.body.col_offset)


def end(body: list[ast.stmt], leave: Callable[[], ast.stmt]) -> None:
    """Append a return to a function's last block, or to each of several last blocks.

    ``leave`` makes the return. It goes into branches, so that each return stands beside the line that it
    belongs to, but only into those after which nothing of the program runs.
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
