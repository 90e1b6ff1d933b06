"""What a module's source offers to be named: its functions, and the variables that each of them sets.

The words are those of selectors: ``x``, ``self.x``, ``#loop_x``, ``#yield``. Nothing is imported or run. The
pass over a scope is that of :mod:`.facts`, by which :mod:`.transform` decides where hooks go.
"""

from __future__ import annotations

import ast

from .facts import Entry, ScopeScan
from .nodes import ScopeNode, dotted, ended, leaves, tested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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
        """``module``, ``class``, ``function``, ``method`` or ``lambda``."""
        self.line = line
        self.arguments: list[str] = []
        self.variables: dict[str, int] = {}
        """The variables that it sets, each with the line of the first time."""
        self.kinds: dict[str, str] = {}
        """How each is set the first time: ``assignment``, ``argument``, ``loop``, ``import``, …"""
        self.events: dict[str, int] = {}
        """What happens in it, each with a line: ``#enter``, ``#value``, ``#loop_x`` and the like."""
        self.tags: dict[str, str] = {}
        """The text of a variable's annotation, if that names tags."""
        self.reads: dict[str, int] = {}
        """The names that it only reads (globals, variables of outer functions), each with the first line."""

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def target(self) -> str:
        """The function as a selector names it: ``//Trainer/step``, ``/pkg.mod/f``, ``//``."""
        module = "" if self.module == "__main__" else self.module
        return f"/{module}/{'/'.join(self.path)}"

    @property
    def runs(self) -> bool:
        """Whether it can be called, and so entered."""
        return self.kind in ("function", "method", "lambda")

    def offers(self) -> Iterator[tuple[str, int]]:
        """Everything that can stand after ``>``, with its line."""
        yield from self.variables.items()
        yield from self.events.items()

    def has(self, variable: str) -> bool:
        """Whether the function sets or reads ``variable``, or it is one of its events."""
        return variable in self.variables or variable in self.events or variable in self.reads


def inventory(text: str | bytes, module: str = "__main__", file: str = "") -> list[Function]:
    """Every function of a source, the module's own level first. Raises SyntaxError."""
    functions: list[Function] = []
    level = Function(module, file, (), "module", 1)
    _add(functions, level, ast.parse(text, file or "<unknown>"))
    return functions


def _add(functions: list[Function], function: Function, scope: ScopeNode) -> None:
    """Add ``function``, whose code is ``scope``, and then those that are defined in it."""
    functions.append(function)
    facts = _InventoryScan(function, scope).run()
    function.reads = {
        name: sites[0].node.lineno
        for name, sites in facts.loads.items()
        if name not in function.variables
    }
    # What ends a lambda needs a statement, which it has none of.
    begins_and_ends = (
        ("#enter",) if isinstance(scope, ast.Lambda) else ("#enter", "#exit", "#error")
    )
    for event in begins_and_ends if function.kind != "class" else ():
        function.events.setdefault(event, function.line)
    if isinstance(scope, ast.AsyncFunctionDef) and facts.generator:
        function.events.pop("#value", None)  # a `return` of one has no value
    elif isinstance(scope, ast.Lambda) or (function.runs and not ended(scope.body)):
        function.events.setdefault("#value", function.line)
    for node, name in facts.nested:
        if name is None:  # a lambda that is bound to no name
            continue
        kind = "method" if function.kind == "class" else "function"
        kind = {ast.ClassDef: "class", ast.Lambda: "lambda"}.get(type(node), kind)
        path = (*function.path, name)
        _add(functions, Function(function.module, function.file, path, kind, node.lineno), node)


class _InventoryScan(ScopeScan):
    """A pass over a scope that also finds where and how each variable is set first, and the events."""

    def __init__(self, function: Function, scope: ScopeNode) -> None:
        self.function = function
        self.target_kinds: dict[int, str] = {}
        """By identity of a target, how it is set if not by an assignment."""
        super().__init__(scope)
        for arg in self.facts.params:
            function.arguments.append(arg.arg)
            self.bind(arg.arg, arg, "argument")

    def bind(self, name: str, node: ast.AST, kind: str = "assignment") -> None:
        self.function.variables.setdefault(name, getattr(node, "lineno", self.function.line))
        self.function.kinds.setdefault(name, self.target_kinds.get(id(node), kind))

    def bind_inside(self, name: str, node: ast.AST) -> None:
        self.bind(name, node, "comprehension")

    def add_tags(self, variable: str, annotation: ast.expr | None) -> None:
        text = ast.unparse(annotation).strip("'\"") if annotation is not None else ""
        if text.startswith("@") or "tag." in text:
            self.function.tags[variable] = text

    def add_event(self, name: str, node: ast.stmt | ast.expr) -> None:
        self.function.events.setdefault(name, node.lineno)

    def add_loop(self, names: Iterable[str | None], node: ast.stmt) -> None:
        """Note the events of a loop, by each of the names that a selector may call it by."""
        for name in filter(None, names):
            self.add_event(f"#loop_{name}", node)
            self.add_event(f"#endloop_{name}", node)

    def set_kinds(self, target: ast.expr, kind: str) -> None:
        """Note how the names in ``target`` are set, before they are visited."""
        self.target_kinds.update((id(leaf), kind) for leaf in leaves(target))

    def on_for(self, entry: Entry) -> None:
        node = entry[0]
        self.add_loop(map(dotted, leaves(node.target)), node)
        self.set_kinds(node.target, "loop")
        self.push_children(node, id(node), None)

    def on_while(self, entry: Entry) -> None:
        node = entry[0]
        self.add_loop([name for name in tested(node.test) if name.isidentifier()], node)
        self.push_children(node, id(node), None)

    def on_with_item(self, entry: Entry) -> None:
        node = entry[0]
        if node.optional_vars is not None:
            self.set_kinds(node.optional_vars, "with")
        self.push_children(node, entry[4], None)

    def on_return(self, entry: Entry) -> None:
        self.add_event("#value", entry[0])
        self.push_children(entry[0], id(entry[0]), None)

    def on_yield(self, entry: Entry) -> None:
        self.add_event("#yield", entry[0])
        self.add_event("#receive", entry[0])
        super().on_yield(entry)


_InventoryScan.visitors = {
    **ScopeScan.visitors,
    ast.For: _InventoryScan.on_for,
    ast.AsyncFor: _InventoryScan.on_for,
    ast.While: _InventoryScan.on_while,
    ast.withitem: _InventoryScan.on_with_item,
    ast.Return: _InventoryScan.on_return,
    ast.Yield: _InventoryScan.on_yield,
    ast.YieldFrom: _InventoryScan.on_yield,
}
