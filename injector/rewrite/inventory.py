"""What a module's source offers to be named: its functions, and the variables set in each.

The words are those of selectors: `x`, `self.x`, `#loop_x`, `#yield`. Nothing is imported or run;
`transform.py` decides alone where a hook really goes, this says what could be requested.
"""

from __future__ import annotations

import ast

from .nodes import dotted, ended, leaves, parameters, tested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    _Inner = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


class Function:
    """A function, method, class body, lambda or module level, by its qualified name."""

    __slots__ = (
        "arguments", "events", "file", "kind", "kinds", "line", "module", "path", "reads", "tags",
        "variables",
    )  # fmt: skip

    def __init__(self, module: str, file: str, path: tuple[str, ...], kind: str, line: int) -> None:
        self.module = module
        self.file = file
        self.path = path
        self.kind = kind
        """`module`, `class`, `function`, `method` or `lambda`."""
        self.line = line
        self.arguments: list[str] = []
        self.variables: dict[str, int] = {}
        """Each variable that is set, with the line where this happens first."""
        self.kinds: dict[str, str] = {}
        """How each is set there first: `assignment`, `argument`, `loop`, `import`, …"""
        self.events: dict[str, int] = {}
        """What happens in it: `#enter`, `#value`, `#loop_x` and the like, with a line."""
        self.tags: dict[str, str] = {}
        """The text of a variable's annotation where it names tags."""
        self.reads: dict[str, int] = {}
        """Names that are only read: globals and variables of outer functions."""

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def target(self) -> str:
        """The function as a selector names it: `//Trainer/step`, `/pkg.mod/f`, `//`."""
        module = "" if self.module == "__main__" else self.module
        return f"/{module}/{'/'.join(self.path)}"

    @property
    def runs(self) -> bool:
        """Whether it is called, so that `#enter` and its kin mean something."""
        return self.kind in ("function", "method", "lambda")

    def offers(self) -> Iterator[tuple[str, int]]:
        """Everything that can stand after `>`, with its line."""
        yield from self.variables.items()
        yield from self.events.items()

    def has(self, variable: str) -> bool:
        return variable in self.variables or variable in self.events or variable in self.reads


def inventory(text: str | bytes, module: str = "__main__", file: str = "") -> list[Function]:
    """Every function of a source, its own level first. Raises SyntaxError."""
    found: list[Function] = []
    level = Function(module, file, (), "module", 1)
    _add(found, level, ast.parse(text, file or "<unknown>").body)
    return found


def _add(
    found: list[Function],
    function: Function,
    body: Sequence[ast.AST],
    arguments: ast.arguments | None = None,
) -> None:
    """Add a scope to those that were found, and then the scopes in it."""
    found.append(function)
    scope = _InventoryScope(function)
    if arguments is not None:
        scope.take_parameters(arguments)
    for node in body:
        scope.visit(node)
    for name in function.variables:
        function.reads.pop(name, None)
    if function.kind != "class":
        for event in ("#enter", "#exit", "#error"):
            function.events.setdefault(event, function.line)
    if function.kind == "lambda" or (function.runs and not ended(body)):
        function.events.setdefault("#value", function.line)
    for inner, name in scope.inner:
        about = function.module, function.file, (*function.path, name)
        if isinstance(inner, ast.ClassDef):
            _add(found, Function(*about, "class", inner.lineno), inner.body)
        elif isinstance(inner, ast.Lambda):
            _add(found, Function(*about, "lambda", inner.lineno), [inner.body], inner.args)
        else:
            kind = "method" if function.kind == "class" else "function"
            _add(found, Function(*about, kind, inner.lineno), inner.body, inner.args)


class _InventoryScope(ast.NodeVisitor):
    """Collects what one scope sets, and the functions that begin in it."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.inner: list[tuple[_Inner, str]] = []
        self.target_of = "assignment"

    def set(self, name: str, node: ast.AST, kind: str) -> None:
        self.function.variables.setdefault(name, getattr(node, "lineno", self.function.line))
        self.function.kinds.setdefault(name, kind)

    def event(self, name: str, node: ast.AST) -> None:
        self.function.events.setdefault(name, getattr(node, "lineno", self.function.line))

    def take_parameters(self, arguments: ast.arguments) -> None:
        for arg in parameters(arguments):
            self.function.arguments.append(arg.arg)
            self.set(arg.arg, arg, "argument")
            self.tag(arg.arg, arg.annotation)

    def tag(self, name: str, annotation: ast.expr | None) -> None:
        text = ast.unparse(annotation).strip("'\"") if annotation is not None else ""
        if text.startswith("@") or "tag." in text:
            self.function.tags[name] = text

    # Scopes that begin here: their heads belong to this one, their bodies do not.

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.set(node.name, node, "definition")
        self.inner.append((node, node.name))
        self.all(node.decorator_list)
        self.visit_head(node.args)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_head(self, arguments: ast.arguments) -> None:
        self.all(arguments.defaults)
        self.all(default for default in arguments.kw_defaults if default is not None)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.set(node.name, node, "definition")
        self.inner.append((node, node.name))
        self.all(node.decorator_list)
        self.all(node.bases)
        self.all(node.keywords)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit_head(node.args)

    def all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    # What sets variables.

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.set(node.id, node, self.target_of)
        elif isinstance(node.ctx, ast.Load):
            self.function.reads.setdefault(node.id, node.lineno)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = dotted(node)
        if name and isinstance(node.ctx, ast.Store):
            self.set(name, node, self.target_of)
        self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.all(node.targets)
        self.named_lambda(node.targets, node.value)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        name = dotted(node.target)
        if name:
            self.tag(name, node.annotation)
        if node.value is not None:
            self.visit(node.target)
            self.named_lambda([node.target], node.value)
            self.visit(node.value)

    def named_lambda(self, targets: Iterable[ast.expr], value: ast.expr) -> None:
        if isinstance(value, ast.Lambda):
            self.inner += [(value, t.id) for t in targets if isinstance(t, ast.Name)]

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name != "*":
                self.set(alias.asname or alias.name.partition(".")[0], node, "import")

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.set(node.name, node, "except")
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self.set(node.name, node, "match")
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.set(node.rest, node, "match")
        self.generic_visit(node)

    def targets(self, node: ast.AST, kind: str) -> None:
        self.target_of, before = kind, self.target_of
        self.visit(node)
        self.target_of = before

    def visit_withitem(self, node: ast.withitem) -> None:
        self.visit(node.context_expr)
        if node.optional_vars is not None:
            self.targets(node.optional_vars, "with")

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.targets(node.target, "comprehension")
        self.visit(node.iter)
        self.all(node.ifs)

    # Loops, generators and results.

    def visit_Return(self, node: ast.Return) -> None:
        self.event("#value", node)
        self.generic_visit(node)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.loop(map(dotted, leaves(node.target)), node)
        self.targets(node.target, "loop")
        self.all([node.iter, *node.body, *node.orelse])

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.loop([name for name in tested(node.test) if name.isidentifier()], node)
        self.generic_visit(node)

    def loop(self, names: Iterable[str | None], node: ast.AST) -> None:
        for name in filter(None, names):
            self.event(f"#loop_{name}", node)
            self.event(f"#endloop_{name}", node)

    def visit_Yield(self, node: ast.Yield | ast.YieldFrom) -> None:
        self.event("#yield", node)
        self.event("#receive", node)
        self.generic_visit(node)

    visit_YieldFrom = visit_Yield
