"""Building the few syntax nodes that the rewriter adds, each with a place in the program.

The place of a node decides what tracebacks, tracers and coverage tools see. The name of a hook stands where
the first thing that it wraps is evaluated, its call where the result is used: so a tracer sees the lines of
the program in the order in which it would have seen them without us (tests/rewrite/test_stdlib.py).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

LOAD = ast.Load()
STORE = ast.Store()

NestedNode = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ScopeNode = ast.Module | NestedNode
"""The nodes whose code has a namespace of its own and can be named by a path."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

_Node = TypeVar("_Node", bound=ast.AST)


class Spot(NamedTuple):
    """A place in the source, in the terms of :mod:`ast`."""

    line: int
    column: int
    end_line: int
    end_column: int


NOWHERE = Spot(-1, -1, -1, -1)
"""No place: what the compiler itself uses for the ``return None`` it adds.

Such an instruction takes the line of whatever ran before it, so that no tracer sees a new line.
What only runs after an exception has no line at all.
"""


def spot(node: ast.AST) -> Spot:
    """The whole extent of an expression or simple statement."""
    line: int = node.lineno  # type: ignore[attr-defined]
    column: int = node.col_offset  # type: ignore[attr-defined]
    end_line = getattr(node, "end_lineno", None)
    end_column = getattr(node, "end_col_offset", None)
    if end_line is None or end_column is None:
        return Spot(line, column, line, column)
    return Spot(line, column, end_line, end_column)


def reading(node: ast.Attribute) -> Spot:
    """The place that the compiler gives to the read of an attribute: in a chain over lines, its own."""
    where = spot(node)
    if where.line == where.end_line:
        return where
    column = where.end_column - len(node.attr)
    return Spot(where.end_line, column, where.end_line, where.end_column)


def calling(node: ast.Call, function: ast.Attribute) -> Spot:
    """The place that the compiler gives to a call of a method. It differs from that of a function."""
    where = spot(node)
    starred = any(isinstance(value, ast.Starred) for value in node.args)
    doubled = any(keyword.arg is None for keyword in node.keywords)
    if starred or doubled or (node.keywords and sys.version_info < (3, 11)):
        return where  # such calls are compiled as those of functions are
    start = reading(function)
    return Spot(start.line, start.column, where.end_line, where.end_column)


def head(node: ast.AST) -> Spot:
    """The beginning of a compound statement, whose extent would cover its body."""
    line: int = node.lineno  # type: ignore[attr-defined]
    column: int = node.col_offset  # type: ignore[attr-defined]
    return Spot(line, column, line, column)


def put(node: _Node, where: Spot) -> _Node:
    """Give a new node its place."""
    node.lineno, node.col_offset, node.end_lineno, node.end_col_offset = where  # type: ignore[attr-defined]
    return node


def name(identifier: str, where: Spot) -> ast.Name:
    """A node that reads a name."""
    return put(ast.Name(id=identifier, ctx=LOAD), where)


def constant(value: object, where: Spot) -> ast.Constant:
    """A literal."""
    return put(ast.Constant(value=value, kind=None), where)  # type: ignore[arg-type]


def call(hook: str, args: list[ast.expr], where: Spot, first: Spot | None = None) -> ast.Call:
    """``hook(*args)``; the name stands at ``first``."""
    return put(ast.Call(func=name(hook, first or where), args=args, keywords=[]), where)


def run(expression: ast.expr, where: Spot) -> ast.Expr:
    """An expression as a statement."""
    return put(ast.Expr(value=expression), where)


def load(node: ast.Name | ast.Attribute, where: Spot) -> ast.expr:
    """A new node that reads what ``node`` names."""
    if isinstance(node, ast.Name):
        return name(node.id, where)
    assert isinstance(node.value, (ast.Name, ast.Attribute))
    value = load(node.value, where)
    return put(ast.Attribute(value=value, attr=node.attr, ctx=LOAD), where)


def store(node: ast.Name | ast.Attribute, value: ast.expr, where: Spot) -> ast.Assign:
    """A statement that assigns to what ``node`` names."""
    target = load(node, where)
    assert isinstance(target, (ast.Name, ast.Attribute))
    target.ctx = STORE
    return put(ast.Assign(targets=[target], value=value, type_comment=None), where)


def dotted(node: ast.expr) -> str | None:
    """``"self.net.loss"`` for a plain chain of names, None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))


def leaves(target: ast.expr) -> Iterator[ast.Name | ast.Attribute]:
    """The names and attributes that an assignment target binds, from left to right."""
    stack: list[ast.expr] = [target]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield node
        elif isinstance(node, (ast.Tuple, ast.List)):
            stack.extend(reversed(node.elts))
        elif isinstance(node, ast.Starred):
            stack.append(node.value)


def own_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a scope in the order of the source, those inside of its blocks included.

    Those of functions and classes belong to their own scopes.
    """
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for field in ("finalbody", "orelse", "handlers", "cases", "body"):
                inside = getattr(node, field, None)
                if isinstance(inside, list):
                    stack.extend(reversed(inside))


def is_lazy(node: ast.AST) -> bool:
    """Whether a node is an import of Python 3.15 that waits for the first use of the name."""
    return bool(getattr(node, "is_lazy", False))


def imported(alias: ast.alias, statement: ast.stmt) -> str | None:
    """The name that one part of an import binds; None for ``*``."""
    if alias.name == "*":
        return None
    if alias.asname or isinstance(statement, ast.ImportFrom):
        return alias.asname or alias.name
    return alias.name.partition(".")[0]


def parameters(args: ast.arguments) -> list[ast.arg]:
    """Every parameter, in the order in which a function's local variables are written."""
    params = [*args.posonlyargs, *args.args]
    if args.vararg:
        params.append(args.vararg)
    params.extend(args.kwonlyargs)
    if args.kwarg:
        params.append(args.kwarg)
    return params


def captured(pattern: ast.pattern) -> list[str]:
    """The names that a ``case`` pattern binds, each once, in the order of the source."""
    names: list[str] = []
    stack: list[ast.AST] = [pattern]
    while stack:
        node = stack.pop()
        bound = getattr(node, "name", None) or getattr(node, "rest", None)
        if isinstance(bound, str) and bound not in names:
            names.append(bound)
        stack.extend(
            reversed(
                [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.pattern)]
            )
        )
    return names


# The field with the part of an expression that is evaluated first, by kind of node.
_FIRST = {
    ast.Attribute: "value",
    ast.Subscript: "value",
    ast.Starred: "value",
    ast.Await: "value",
    ast.YieldFrom: "value",
    ast.Yield: "value",
    ast.NamedExpr: "value",
    ast.Call: "func",
    ast.BinOp: "left",
    ast.Compare: "left",
    ast.UnaryOp: "operand",
    ast.IfExp: "test",
    ast.BoolOp: "values",
    ast.Tuple: "elts",
    ast.List: "elts",
    ast.Set: "elts",
}


def first(expression: ast.expr) -> Spot:
    """Where the evaluation of an expression begins.

    The compiler may fold a literal at the beginning into a constant that stands elsewhere. Then this is the
    place of the whole expression.
    """
    node: object = expression
    while True:
        field = _FIRST.get(type(node))
        inner = getattr(node, field) if field else None
        if isinstance(inner, list):
            inner = inner[0] if inner else None
        if not isinstance(inner, ast.AST):
            break
        node = inner
    assert isinstance(node, ast.expr)
    literal = isinstance(node, (ast.Constant, ast.Tuple))
    return spot(expression if literal else node)


def always(guard: ast.expr) -> bool:
    """Whether a condition is a literal that holds: the compiler then drops the other branch."""
    if isinstance(guard, ast.JoinedStr):
        return any(isinstance(part, ast.Constant) and part.value for part in guard.values) and all(
            isinstance(part, ast.Constant) for part in guard.values
        )
    return isinstance(guard, ast.Constant) and bool(guard.value)


def ended(body: Sequence[ast.AST]) -> bool:
    """Whether a block plainly does not run into what follows it."""
    return bool(body) and isinstance(body[-1], (ast.Return, ast.Raise))


def docstring_end(body: Sequence[ast.stmt]) -> int:
    """How many statements have to stay first because they are a docstring: 0 or 1."""
    if body and isinstance(body[0], ast.Expr):
        value = body[0].value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return 1
    return 0


def future_end(body: Sequence[ast.stmt]) -> int:
    """How many statements of a module have to stay first: a docstring and ``from __future__`` imports."""
    end = docstring_end(body)
    while end < len(body):
        statement = body[end]
        if not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        end += 1
    return end


# Statements for which the compiler emits nothing, so that their line is no line of the code.
_SILENT = (ast.Global, ast.Nonlocal)


def entry(body: Sequence[ast.stmt], scope: ScopeNode) -> Spot:
    """Where a body begins to run, which is the place of what is added at its start."""
    start = block_start(body, isinstance(scope, FUNCTIONS))
    if start is not None:
        return start
    if isinstance(scope, ast.Module):
        return Spot(1, 0, 1, 0)
    return begin(scope) if isinstance(scope, ast.stmt) else head(scope)


def block_start(body: Sequence[ast.stmt], function: bool) -> Spot | None:
    """Where the first statement begins for which the compiler emits code, or None."""
    for statement in body:
        is_declaration = isinstance(statement, ast.AnnAssign) and statement.value is None
        if not isinstance(statement, _SILENT) and not (function and is_declaration):
            return begin(statement)
    return None


def begin(statement: ast.stmt) -> Spot:
    """Where evaluation of a statement begins."""
    for field in ("value", "test", "iter", "subject", "exc"):
        inner = getattr(statement, field, None)
        if isinstance(inner, ast.expr) and not isinstance(inner, ast.Constant):
            return first(inner)
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return first(statement.items[0].context_expr)
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        decorators = statement.decorator_list
        return first(decorators[0]) if decorators else head(statement)
    return head(statement)


def tested(test: ast.expr) -> list[str]:
    """The names and constants in a loop's condition, by which ``#loop_…`` names it."""
    words: list[str] = []
    for node in ast.walk(test):
        if isinstance(node, ast.Constant):
            words.append(str(node.value))
        elif isinstance(node, (ast.Name, ast.Attribute)):
            key = dotted(node)
            if key is not None:
                words.append(key)
    return list(dict.fromkeys(words))


def guarded(
    body: list[ast.stmt], error: list[ast.stmt], final: list[ast.stmt], where: Spot = NOWHERE
) -> ast.stmt:
    """``try: body``, ``except: error; raise``, ``finally: final``."""
    handlers: list[ast.ExceptHandler] = []
    if error:
        again = put(ast.Raise(exc=None, cause=None), NOWHERE)
        handlers = [put(ast.ExceptHandler(type=None, name=None, body=[*error, again]), NOWHERE)]
    return put(ast.Try(body=body, handlers=handlers, orelse=[], finalbody=final), where)


def around(
    body: list[ast.stmt], error: list[ast.stmt], final: list[ast.stmt], where: Spot
) -> list[ast.stmt]:
    """A body between its hooks, with Python 3.15's lazy imports outside: they may stand in no ``try``.

    What comes before such an import ends the scope only if it raises. An ``if`` with one in it stays outside
    as a whole: what is raised there passes the hooks by.
    """
    statements: list[ast.stmt] = []
    rest = body
    while sys.version_info >= (3, 15):
        lazy = next((n for n, node in enumerate(rest) if any(map(is_lazy, ast.walk(node)))), None)
        if lazy is None:
            break
        if lazy:
            statements.append(guarded(rest[:lazy], [*error, *final], [], where))
        statements.append(rest[lazy])
        rest = rest[lazy + 1 :]
    return [*statements, guarded(rest or [put(ast.Pass(), where)], error, final, where)]
