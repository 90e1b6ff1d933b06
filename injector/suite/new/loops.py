"""Training loops in the sources of a program, and names by which a voirfile can say them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .modules import Module, absolute
from .signs import FUNCTION, Sign, calls, certain, is_loop, of_call, own

_TOO_COMMON = {
    *("train", "eval", "fit", "run", "step", "update", "forward", "backward", "main", "close"),
    *("get", "set", "load", "save", "add", "append", "log", "write", "reset", "to", "call", "test"),
}
"""A method of any object may be called so: whose it is cannot be told from its name."""


_COMMAND = re.compile(r"\b(command|main|hydra|callback|record)\b")
_CALLED_BY_LIBRARIES = ("training_step", "train_step", "compute_loss", "forward", "step")
"""Methods that a library's loop calls, once a step: loops in them are parts of a step."""


@dataclass(eq=False)
class Scope:
    """A function, or the own level of a module."""

    module: Module
    path: tuple[str, ...]
    node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
    owner: str = ""
    """The class that it is a method of."""
    does: Sign = Sign.NONE
    """What a call of it does of a training step, outside of loops of its own."""
    sure: bool = False
    """Whether every call of it does that."""

    @property
    def selector(self) -> str:
        """As a selector names it: ``//main``, ``/pkg.mod/Class/method``."""
        module = "" if self.module.name == "__main__" else self.module.name
        return f"/{module}/{'/'.join(self.path)}"

    @property
    def body(self) -> list[ast.stmt]:
        return self.node.body


@dataclass(eq=False)
class Loop:
    """A loop that trains."""

    scope: Scope
    node: ast.For | ast.AsyncFor | ast.While
    does: Sign
    sure: bool
    """Whether every turn of it is a step: of one that accumulates gradients, only some are."""
    depth: int = 0
    """Calls between the loop and what computes gradients."""
    losses: list[str] = field(default_factory=list)
    """Variables that gradients are computed of, with their functions, as selectors."""

    @property
    def line(self) -> int:
        return self.node.lineno

    @property
    def left(self) -> bool:
        """Whether a ``break`` may end it."""
        waiting: list[ast.AST] = list(self.node.body)
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Break):
                return True
            if not isinstance(node, (*FUNCTION, ast.ClassDef, ast.For, ast.AsyncFor, ast.While)):
                waiting += ast.iter_child_nodes(node)
        return False

    @property
    def text(self) -> str:
        """The line that it begins with."""
        if isinstance(self.node, ast.While):
            return f"while {ast.unparse(self.node.test)}:"
        return f"for {_plain(self.node.target)} in {ast.unparse(self.node.iter)}:"

    @property
    def rank(self) -> tuple[int, ...]:
        """The smaller, the likelier it is the one that is meant."""
        name = "/".join(self.scope.path).lower()
        file = self.scope.module.name.lower()
        return (
            bool(re.search(r"eval|valid|test", name)),
            not self.does & Sign.UPDATE,
            not re.search(r"train|fit|main|learn|epoch|^$", name) and "train" not in file,
            self.scope.module.distance,
            self.depth,
        )


def _plain(target: ast.expr) -> str:
    text = ast.unparse(target)
    return text[1:-1] if text.startswith("(") and isinstance(target, ast.Tuple) else text


class Finder:
    """Looks through modules; what calls what is told by names."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.scopes: list[Scope] = []
        self.bases: dict[str, list[str]] = {}
        """The names of a class's bases, by its own."""
        self._methods: dict[str, list[Scope]] = {}
        self._functions: dict[tuple[str, str], Scope] = {}
        self._names: dict[str, dict[str, tuple[str, str]]] = {}
        """By module: what a name that is imported stands for."""
        self._called: dict[int, Scope | None] = {}
        self._direct: dict[int, Sign] = {}
        for module in modules:
            self._add(module)
        self._settle()

    def _add(self, module: Module) -> None:
        self.scopes.append(Scope(module, (), module.tree))
        self._collect(module, module.tree.body, (), "")
        imported = self._names.setdefault(module.name, {})
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom):
                base = absolute(module, node)
                imported |= {each.asname or each.name: (base, each.name) for each in node.names}
            elif isinstance(node, ast.Import):
                imported |= {each.asname: (each.name, "") for each in node.names if each.asname}

    def _collect(
        self, module: Module, body: Iterable[ast.AST], path: tuple[str, ...], owner: str
    ) -> None:
        for node in body:
            if isinstance(node, FUNCTION):
                scope = Scope(module, (*path, node.name), node, owner)
                self.scopes.append(scope)
                if owner:
                    self._methods.setdefault(node.name, []).append(scope)
                else:
                    self._functions.setdefault((module.name, node.name), scope)
                self._collect(module, node.body, (*path, node.name), "")
            elif isinstance(node, ast.ClassDef):
                self.bases[node.name] = [ast.unparse(b).rpartition(".")[2] for b in node.bases]
                self._collect(module, node.body, (*path, node.name), node.name)
            elif isinstance(node, (ast.If, ast.With, ast.Try, ast.For, ast.While)):
                self._collect(module, ast.iter_child_nodes(node), path, owner)

    def _settle(self) -> None:
        """Find out what each function does, from what those that it calls do."""
        callers: dict[Scope, set[Scope]] = {}
        for scope in self.scopes:
            for call in calls(scope.node, loops=False):
                if (inner := self.called(scope, call)) is not None:
                    callers.setdefault(inner, set()).add(scope)
        waiting = list(self.scopes)
        while waiting:
            scope = waiting.pop()
            does, sure = self._effect(scope, scope.node, scope.body)
            if does | scope.does != scope.does:
                scope.does, scope.sure = does | scope.does, sure
                waiting += callers.get(scope, ())

    # --- what a call means ------------------------------------------------------------------------

    def called(self, scope: Scope, node: ast.Call) -> Scope | None:
        """The function of the program that a call calls, where its name tells."""
        if id(node) not in self._called:
            self._called[id(node)] = self._callee(scope, node)
        return self._called[id(node)]

    def _callee(self, scope: Scope, node: ast.Call) -> Scope | None:
        if isinstance(node.func, ast.Name):
            return self._function(scope.module.name, node.func.id)
        if not isinstance(node.func, ast.Attribute):
            return None
        of, name = ast.unparse(node.func.value), node.func.attr
        if of in ("self", "cls", "super()"):
            return self.method(scope.owner, name)
        if (module := self._names.get(scope.module.name, {}).get(of)) is not None:
            whole = ".".join(filter(None, module))
            if found := self._function(whole, name):
                return found
        there = self._methods.get(name, [])
        if there and isinstance(node.func.value, ast.Name):
            for owner in self._classes(scope, of):
                if found := self.method(owner, name):
                    return found
        return there[0] if len(there) == 1 and name not in _TOO_COMMON else None

    def _classes(self, scope: Scope, name: str) -> Iterator[str]:
        """The classes of the program that a variable is seen to be given an object of."""
        for node in own(scope.node):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            if any(isinstance(target, ast.Name) and target.id == name for target in node.targets):
                made = ast.unparse(node.value.func).rpartition(".")[2]
                if made in self.bases:
                    yield made

    def _function(self, module: str, name: str, depth: int = 0) -> Scope | None:
        if (found := self._functions.get((module, name))) is not None:
            return found
        if (elsewhere := self._names.get(module, {}).get(name)) is not None and depth < 5:
            return self._function(elsewhere[0], elsewhere[1] or name, depth + 1)
        return None

    def method(self, owner: str, name: str, depth: int = 0) -> Scope | None:
        """A method of a class or of those that it inherits from."""
        for scope in self._methods.get(name, []):
            if scope.owner == owner:
                return scope
        if depth > 5:
            return None
        above = (self.method(base, name, depth + 1) for base in self.bases.get(owner, []))
        return next((found for found in above if found is not None), None)

    def sign(self, scope: Scope, node: ast.Call) -> tuple[Sign, bool]:
        """What a call does of a training step, and whether it always does."""
        direct = self._direct.get(id(node))
        if direct is None:
            direct = self._direct[id(node)] = of_call(node)
        if direct:
            return direct, True
        found = self.called(scope, node)
        return (found.does, found.sure) if found is not None else (Sign.NONE, False)

    def _effect(self, scope: Scope, node: ast.AST, body: list[ast.stmt]) -> tuple[Sign, bool]:
        """What a body does of a training step outside of loops in it, and whether it always does."""
        does = Sign.NONE
        always: dict[Sign, set[int]] = {Sign.BACKWARD: set(), Sign.UPDATE: set()}
        for statement in body:
            if isinstance(statement, (*FUNCTION, ast.ClassDef)) or is_loop(statement):
                continue
            for call in (c for c in (*_itself(statement), *calls(statement, loops=False))):
                sign, sure = self.sign(scope, call)
                does |= sign
                for each, known in always.items():
                    if sure and sign & each:
                        known.add(id(call))
        weighed = Sign.UPDATE if does & Sign.UPDATE else Sign.BACKWARD
        return does, bool(does) and certain(body, frozenset(always[weighed]))

    # --- what the program comes to ------------------------------------------------------------------

    def reached(self) -> set[Scope]:
        """The functions that the program's start leads to, as far as names tell."""
        first = [scope for scope in self.scopes if scope.module.distance == 0]
        waiting = [scope for scope in first if not scope.path or _is_command(scope.node)]
        found, made = set(waiting), set()
        while waiting:
            scope = waiting.pop()
            for node in own(scope.node):
                if not isinstance(node, ast.Call):
                    continue
                made |= self._made(node)
                for each in self._possible(scope, node, made):
                    if each not in found:
                        found.add(each)
                        waiting.append(each)
        return found

    def _made(self, node: ast.Call) -> set[str]:
        """The class that a call makes an object of, with those that it inherits from."""
        name = ast.unparse(node.func).rpartition(".")[2]
        return self.family(name) if name in self.bases else set()

    def family(self, owner: str) -> set[str]:
        """A class and those that it inherits from."""
        found: set[str] = set()
        waiting = [owner]
        while waiting:
            name = waiting.pop()
            if name and name not in found:
                found.add(name)
                waiting += self.bases.get(name, [])
        return found

    def _possible(self, scope: Scope, node: ast.Call, made: set[str]) -> Iterator[Scope]:
        """What a call may call: a function of that name, a method of objects that were made."""
        if (found := self.called(scope, node)) is not None:
            yield found
        for given in (*node.args, *(keyword.value for keyword in node.keywords)):
            if isinstance(
                given, ast.Name
            ):  # started by somebody else: a thread, a process, a parser
                found = self._function(scope.module.name, given.id)
                yield from [found] if found is not None else []
        for name in self._made(node):
            yield from (each for each in self._methods.get("__init__", []) if each.owner == name)
        if isinstance(node.func, ast.Attribute):
            there = self._methods.get(node.func.attr, [])
            yield from (each for each in there if each.owner in made)

    # --- loops --------------------------------------------------------------------------------------

    def loops(self) -> list[Loop]:
        """The training loops, the likeliest first."""
        found = [loop for scope in self.scopes for loop in self._in(scope)]
        return sorted(found, key=lambda loop: (loop.rank, str(loop.scope.module.file), loop.line))

    def _in(self, scope: Scope) -> Iterator[Loop]:
        if scope.path and scope.path[-1] in _CALLED_BY_LIBRARIES:
            return
        made = [
            self._loop(scope, node)
            for node in own(scope.node)
            if isinstance(node, (ast.For, ast.AsyncFor, ast.While)) and is_loop(node)
        ]
        training = [loop for loop in made if loop.does]
        for loop in training:
            inner = [other for other in training if other is not loop and _within(other, loop)]
            outer = [other for other in training if other is not loop and _within(loop, other)]
            if any(_whole(other) for other in inner):
                continue  # what it does itself is what its inner loop left over
            if any(_whole(other) or other.does ^ loop.does for other in outer):
                continue  # it is one part of a step: gathers gradients, or updates several weights
            yield loop

    def _loop(self, scope: Scope, node: ast.For | ast.AsyncFor | ast.While) -> Loop:
        does, sure = self._effect(scope, node, node.body)
        loop = Loop(scope, node, does, sure)
        if does:
            self._losses(scope, node, loop, 0)
        return loop

    def _losses(self, scope: Scope, node: ast.AST, loop: Loop, depth: int) -> None:
        """Collect what gradients are computed of, in the loop and in what it calls."""
        for call in calls(node):
            if of_call(call) is Sign.BACKWARD:
                name = _loss(call)
                selector = f"{scope.selector} > {name}"
                if name and _assignments(scope.node, name) == 1 and selector not in loop.losses:
                    loop.losses.append(selector)
                loop.depth = depth
            elif depth < 4 and (inner := self.called(scope, call)) is not None and inner.does:
                self._losses(inner, inner.node, loop, depth + 1)


def _whole(loop: Loop) -> bool:
    """Whether both gradients and updates are seen in it."""
    return loop.does == Sign.BACKWARD | Sign.UPDATE


def _is_command(node: ast.AST) -> bool:
    """Whether a decorator makes the function one that a command line calls."""
    decorators = getattr(node, "decorator_list", [])
    return any(_COMMAND.search(ast.unparse(each)) for each in decorators)


def _itself(node: ast.AST) -> list[ast.Call]:
    return [node] if isinstance(node, ast.Call) else []


def _within(inner: Loop, outer: Loop) -> bool:
    return any(each is inner.node for each in ast.walk(outer.node))


def _loss(call: ast.Call) -> str:
    """The variable that ``loss.backward()`` or ``accelerator.backward(loss)`` is about."""
    assert isinstance(call.func, ast.Attribute)
    of = call.func.value
    if isinstance(of, ast.Call) and of.args:  # scaler.scale(loss).backward()
        of = of.args[0]
    if call.args and isinstance(call.args[0], ast.Name):
        of = call.args[0]
    return of.id if isinstance(of, ast.Name) else ""


def _assignments(node: ast.AST, name: str) -> int:
    """How often a scope sets a variable."""
    return sum(
        isinstance(each, ast.Name) and each.id == name and not isinstance(each.ctx, ast.Load)
        for each in own(node)
    )
