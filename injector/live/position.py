"""How far a training loop has come and how far it has to go, where that can be known.

The number of batches of a pass is what the loader gives as its length, or what its last pass had. The
number of passes is what a trainer says, else it is read in the program's text: the loop is within a loop
over a range, or in a function that is called within one, whose end is a number, a name for one, or an option
of the command line.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from statistics import median
from typing import NamedTuple

from ..store.call_sites import SourceLine

RANGES = ("range", "trange")
MOST_BATCHES = 1 << 62
RECENT = 256
"""Batches that tell how long the next ones will take."""
MOST_TEXT = 1_000_000
"""Bytes of a program that is read."""


LoaderKey = tuple[object, str]
"""The object that is fetched from, and the line of the program."""


class LoopPosition(NamedTuple):
    """Where a loop is, and what is left of it. Times are seconds."""

    text: str
    """``epoch 2 of 3, batch 312 of 1500``."""
    batches: int
    """That were fetched so far,"""
    batch: int
    """and in the pass that goes on, which has"""
    length: int
    passes: int | None
    """That are not over; None where that is not known."""
    pause: float | None
    """What usually lies between two passes (evaluation, a checkpoint); None before there was one."""
    paused: float | None
    """For how long the last pass has been over; None while one goes on."""
    usual: float
    """What a batch takes, as its last ones did; 0 before there were two."""
    inside: tuple[float, int]
    """What lay between two batches of a pass and was another loader's, and how often that was."""

    @property
    def left(self) -> int | None:
        """Batches until its end; None where the passes are not known."""
        return None if self.passes is None else self.passes * self.length - self.batch

    def beside(self, batches: float, ends: int) -> float | None:
        """What will not be training until so many more batches were fetched.

        So many ``ends`` of passes, each with a pause, are among them. None where no pass yet tells.
        """
        seconds, times = self.inside
        if self.pause is None and (ends or self.paused is not None or not times):
            return None
        pause = self.pause or 0.0
        rest = 0.0 if self.paused is None else max(pause - self.paused, 0.0)
        between = max(seconds - times * self.usual, 0.0) / max(self.batches, 1)
        return rest + ends * pause + batches * between


class LoaderPasses:
    """The passes over one loader. Moments are nanoseconds."""

    def __init__(self) -> None:
        self.total = 0
        """Batches of all passes."""
        self.fetched = 0
        """Batches of the pass that goes on."""
        self.last = 0
        """Batches of the last pass that is over."""
        self.over = 0
        """Passes that are over."""
        self.passes: int | None = None
        """How many there will be, as a trainer says."""
        self.place: SourceLine | None = None
        self.trains = False
        """Whether its batches end steps."""
        self._ended: int | None = None
        self._until = 0
        self._unasked = False
        """Whether the last pass ended without a look for another batch."""
        self._pauses: list[float] = []
        self._lengths: deque[float] = deque(maxlen=RECENT)
        self.inside = (0.0, 0)

    def fetch(self, place: SourceLine | None, start: int, end: int, other: bool) -> None:
        """A batch was fetched; ``other``: another loader's was since the last one."""
        if self._ended is not None:
            self._pauses.append((start - self._ended) / 1e9)
        elif other and self.fetched:
            seconds, times = self.inside
            self.inside = seconds + (start - self._until) / 1e9, times + 1
        elif self.fetched:
            self._lengths.append((end - self._until) / 1e9)
        self._ended, self._until, self.place = None, end, place
        self.fetched += 1
        self.total += 1

    def stop_at(self, length: int) -> None:
        """Another batch is fetched: a pass of that length is over, though its loop did not draw again."""
        if self.fetched >= length > 0:
            self.end(self._until)
            self._unasked = True

    def end(self, moment: int) -> None:
        """It ran dry: its pass is over."""
        if self._unasked and not self.fetched:
            self._unasked = False
            return
        self._unasked = False
        self.last, self.fetched, self._ended = self.fetched, 0, moment
        self.over += 1

    def begin(self) -> None:
        """It is iterated anew: a pass that was left before is over; one batch was only looked at."""
        if self.fetched == 1:
            self.total -= 1
            self.fetched = 0
        elif self.fetched:
            self.end(self._until)
        self._unasked = False

    def usual(self) -> float:
        """Seconds from one batch of a pass to the next, as of late; 0 where that is not known."""
        lengths = list(self._lengths)
        lengths = lengths[1:] if 2 < len(lengths) < RECENT else lengths  # the first may compile
        return sum(lengths) / len(lengths) if lengths else 0.0

    def pause(self) -> float | None:
        """Seconds that usually lie between two passes."""
        return median(self._pauses) if self._pauses else None

    def paused(self, now: int) -> float | None:
        """Seconds since the last pass, where no other has begun."""
        return None if self._ended is None else max(now - self._ended, 0) / 1e9


class LoopPositions:
    """The passes of one process over its loaders; a pass is identified by loader."""

    def __init__(self) -> None:
        self._announced: dict[object, int] = {}
        """By object, batches of a pass, as its loader gives it."""
        self._loaders: dict[LoaderKey, LoaderPasses] = {}
        self._latest: LoaderKey | None = None
        """From which the last batch came."""
        self._planned: tuple[int, int] | None = None
        """Passes that a trainer says are still to come, and when it did."""

    def announced(self, of: object, batches: object) -> None:
        """A loader gives the number of batches of a pass."""
        if isinstance(batches, int) and batches > 0:
            self._announced[of] = batches

    def planned(self, epochs: object, moment: int) -> None:
        """A trainer begins an epoch, or its training: so many are to come, that one included."""
        if isinstance(epochs, int) and epochs > 0:
            self._planned = epochs, moment

    def fetch(
        self, loader: LoaderKey, place: SourceLine | None, start: int = 0, end: int = 0
    ) -> None:
        """A batch was fetched."""
        found = self._loaders.setdefault(loader, LoaderPasses())
        for key in {self._latest or loader, loader}:
            self._loaders[key].stop_at(self._announced.get(key[0], 0))
        found.fetch(place, start, end, self._latest != loader)
        self._latest = loader
        if self._planned is not None and start >= self._planned[1]:
            found.passes, self._planned = found.over + self._planned[0], None

    def begin(self, loader: LoaderKey) -> None:
        """An iteration over this loader begins."""
        found = self._loaders.get(loader)
        if found is not None:
            found.begin()

    def trains(self, loader: LoaderKey) -> None:
        """A step ended with the last fetch from this loader."""
        self._loaders[loader].trains = True

    def end(self, loader: LoaderKey, moment: int = 0) -> None:
        """A loader ran dry: its pass is over."""
        self._loaders.setdefault(loader, LoaderPasses()).end(moment)

    def current(self, argv: Sequence[str], now: int = 0) -> LoopPosition | None:
        """Of the loop that trains with most batches; None where nothing is known of its length."""
        if not self._latest:
            return None
        loader, found = max(self._loaders.items(), key=lambda item: (item[1].trains, item[1].total))
        # A pass may be left early, each time.
        length = min(self._announced.get(loader[0], found.last), found.last or MOST_BATCHES)
        if not length or found.fetched > length:
            return None
        batch = f"batch {found.fetched} of {length}"
        passes = found.passes
        if passes is None and found.place is not None:
            passes = epochs(found.place.file, found.place.line, tuple(argv))
        left: int | None = None
        if passes is not None and found.over + (found.fetched > 0) <= passes:
            left = passes - found.over
            batch = f"epoch {min(found.over + 1, passes)} of {passes}, {batch}"
        return LoopPosition(
            batch,
            found.total,
            found.fetched,
            length,
            left,
            found.pause(),
            found.paused(now),
            found.usual(),
            found.inside,
        )


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
                called == name or any(word.lstrip("-").replace("-", "_") == name for word in own)
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
