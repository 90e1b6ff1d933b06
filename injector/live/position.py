"""How far a training loop has come and how far it has to go, where that can be known.

The number of batches of a pass is what the loader gives as its length, or what its last pass had. The
number of passes is read in the program's text: the loop is within a loop over a range, or in a
function that is called within one, whose end is a number, a name for one, or an option of the command line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

RANGES = ("range", "trange")
MOST_TEXT = 1_000_000
"""Bytes of a program that is read."""


LoaderKey = tuple[object, str]
"""The object that is fetched from, and the line of the program."""


class LoopPosition(NamedTuple):
    """Where a loop is, and what is left of it."""

    text: str
    """``epoch 2 of 3, batch 312 of 1500``."""
    left: float | None
    """Batches until its end; None where the passes are not known."""
    batches: int
    """That were fetched so far."""


class LoopPositions:
    """The passes of one process over its loaders; a pass is identified by loader."""

    def __init__(self) -> None:
        self._announced: dict[object, int] = {}
        """By object, batches of a pass, as its loader gives it."""
        self._last_pass: dict[LoaderKey, int] = {}
        """Batches of the last pass that is over."""
        self._fetched: dict[LoaderKey, int] = {}
        """Batches of the pass that goes on."""
        self._total: dict[LoaderKey, int] = {}
        self._passes: dict[LoaderKey, int] = {}
        """Passes that are over."""
        self._places: dict[LoaderKey, Any] = {}

    def announced(self, of: object, batches: object) -> None:
        """A loader gives the number of batches of a pass."""
        if isinstance(batches, int) and batches > 0:
            self._announced[of] = batches

    def fetch(self, loader: LoaderKey, place: Any) -> None:
        """A batch was fetched."""
        self._fetched[loader] = self._fetched.get(loader, 0) + 1
        self._total[loader] = self._total.get(loader, 0) + 1
        self._places[loader] = place

    def end(self, loader: LoaderKey) -> None:
        """A loader ran dry: its pass is over."""
        self._last_pass[loader] = self._fetched.pop(loader, 0)
        self._passes[loader] = self._passes.get(loader, 0) + 1

    def current(self, argv: Sequence[str]) -> LoopPosition | None:
        """Of the loop that fetched most batches; None where nothing is known of its length."""
        if not self._total:
            return None
        loader = max(self._total, key=lambda each: self._total[each])
        length = self._announced.get(loader[0]) or self._last_pass.get(loader, 0)
        batch, done, every = (
            self._fetched.get(loader, 0),
            self._passes.get(loader, 0),
            self._total[loader],
        )
        if not length or batch > length:
            return None
        place = self._places[loader] or {}
        passes = epochs(str(place.get("file")), int(place.get("line") or 0), tuple(argv))
        if passes is None or done + (batch > 0) > passes:
            return LoopPosition(f"batch {batch} of {length}", None, every)
        text = f"epoch {min(done + 1, passes)} of {passes}, batch {batch} of {length}"
        return LoopPosition(text, (passes - done) * length - batch, every)


# --- passes, as the program's text has them -------------------------------------------------------


@lru_cache(64)
def epochs(file: str, line: int, argv: tuple[str, ...]) -> int | None:
    """How often the loop in ``line`` of ``file`` will be run through; None where that is not plain."""
    try:
        with open(file, "rb") as opened:
            tree = ast.parse(opened.read(MOST_TEXT))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return _Text(tree, argv).passes(line)


class _Text:
    def __init__(self, tree: ast.Module, argv: Sequence[str]) -> None:
        self._argv = argv
        self._nodes = list(ast.walk(tree))
        self._above = {c: node for node in self._nodes for c in ast.iter_child_nodes(node)}

    def passes(self, line: int) -> int | None:
        loops = [
            node
            for node in self._nodes
            if isinstance(node, (ast.For, ast.AsyncFor))
            and node.lineno <= line <= (node.iter.end_lineno or line)
        ]
        return self._around(max(loops, key=lambda node: node.col_offset)) if loops else None

    def _around(self, node: ast.AST, depth: int = 2) -> int | None:
        """The iterations of the loop over a range around ``node``, or around its function's call."""
        for above in self._ancestors(node):
            if isinstance(above, (ast.For, ast.AsyncFor)):
                return self._iterations(above.iter)
            if isinstance(above, ast.While):
                return None
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
                calls = [call for call in self._calls() if _name(call.func) == above.name]
                return self._around(calls[0], depth - 1) if len(calls) == 1 and depth else None
        return None

    def _ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self._above:
            node = self._above[node]
            yield node

    def _calls(self) -> Iterator[ast.Call]:
        return (node for node in self._nodes if isinstance(node, ast.Call))

    def _iterations(self, iterable: ast.expr) -> int | None:
        calls = [node for node in ast.walk(iterable) if isinstance(node, ast.Call)]
        ranges = [call for call in calls if _name(call.func) in RANGES]
        if len(ranges) != 1 or len(ranges[0].args) not in (1, 2):
            return None
        ends = [self._value(end) for end in ranges[0].args]
        if len(ends) == 1:
            return ends[0]
        first, last = ends
        return None if first is None or last is None else last - first

    def _value(self, node: ast.expr) -> int | None:
        if isinstance(node, ast.Constant):
            return node.value if type(node.value) is int else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            left, right = self._value(node.left), self._value(node.right)
            if left is None or right is None:
                return None
            return left + right if isinstance(node.op, ast.Add) else left - right
        name = _name(node)
        if isinstance(node, ast.Name):
            return self._assigned(name)
        return self._option(name) if isinstance(node, ast.Attribute) else None

    def _assigned(self, name: str) -> int | None:
        """What a name stands for that is assigned once, and is no parameter."""
        stores = [
            node
            for node in self._nodes
            if (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store))
            or (isinstance(node, ast.arg) and node.arg == name)
        ]
        above = self._above.get(stores[0]) if len(stores) == 1 else None
        if isinstance(above, ast.Assign) and above.targets == stores:
            return self._value(above.value)
        if isinstance(above, ast.AnnAssign) and above.value is not None:
            return self._value(above.value)
        return None

    def _option(self, name: str) -> int | None:
        """The option that is called so: as it was typed, else its default."""
        flags, default = [f"--{name}", f"--{name.replace('_', '-')}"], None
        for call in self._calls():
            words = [a.value for a in call.args if isinstance(a, ast.Constant)]
            keys = {key.arg: key.value for key in call.keywords}
            dest = keys.get("dest")
            called = dest.value if isinstance(dest, ast.Constant) else None
            own = [word for word in words if isinstance(word, str)]
            if _name(call.func) == "add_argument" and (
                called == name or any(_dest(word) == name for word in own)
            ):
                flags += own
                default = self._value(keys["default"]) if "default" in keys else None
        for at, word in enumerate(self._argv):
            flag, given, value = word.partition("=")
            if flag in flags:
                value = value if given else "".join(self._argv[at + 1 : at + 2])
                return int(value) if value.isdecimal() else None
        return default


def _name(node: ast.AST) -> str:
    return str(getattr(node, "attr", None) or getattr(node, "id", ""))


def _dest(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")
