"""How far a training loop has come and how far it has to go, as far as that can be known.

A pass is one iteration over a loader. Its number of batches is the length that the loader gives, or that of
the last pass. The number of passes is what a trainer announces; otherwise it is read in the program's text::

    for epoch in range(args.epochs):    # around the loop, or around the one call of its function
        train(...)

    def train(...):
        for batch in loader:            # the line of the fetches

The end of that range may be a number, a name that is assigned once, or an option of the command line.
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
"""The names of functions over whose numbers an outer loop runs."""
MOST_BATCHES = 1 << 62
RECENT = 256
"""The number of latest batches from which the duration of the next ones is estimated."""
MOST_TEXT = 1_000_000
"""The most bytes of a program that are parsed."""


LoaderKey = tuple[object, str]
"""The ``object_id`` of the loader, and the line of the program that fetches from it."""


class LoopPosition(NamedTuple):
    """The position in a loop, and what is left of it. Times are seconds."""

    text: str
    """Such as ``epoch 2 of 3, batch 312 of 1500``."""
    batches: int
    """Batches fetched so far, in all passes."""
    batch: int
    """Batches fetched in the present pass."""
    length: int
    """Batches of a pass."""
    passes: int | None
    """Passes that have not ended, the present one included; None if that is not known."""
    pause: float | None
    """The usual time between two passes (an evaluation, a checkpoint); None before there was one."""
    paused: float | None
    """The time since the last pass ended; None during a pass."""
    usual: float
    """The usual time from a batch to the next; 0 before there were two."""
    inside: tuple[float, int]
    """The time between batches of a pass in which another loader was read, and how often that was."""

    @property
    def left(self) -> int | None:
        """Batches until the end of the loop; None if the number of passes is not known."""
        return None if self.passes is None else self.passes * self.length - self.batch

    def beside(self, batches: float, ends: int) -> float | None:
        """The time beside the training itself until ``batches`` more were fetched, with ``ends`` of passes.

        These are the pauses after passes, and evaluations within them. None if no pass has ended yet, from
        which it could be estimated.
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
        """Batches of the present pass."""
        self.last = 0
        """Batches of the last pass that has ended."""
        self.over = 0
        """The number of passes that have ended."""
        self.passes: int | None = None
        """The number of passes there will be, if a trainer announced it."""
        self.place: SourceLine | None = None
        self.trains = False
        """Whether steps end with its batches."""
        self._ended: int | None = None
        """When the last pass ended; None during a pass."""
        self._until = 0
        """When the last fetch ended."""
        self._ended_early = False
        """Whether the last pass was ended by :meth:`stop_at`, so that the loader may still run dry."""
        self._pauses: list[float] = []
        """Seconds between passes."""
        self._batch_seconds: deque[float] = deque(maxlen=RECENT)
        self.inside = (0.0, 0)
        """As :attr:`LoopPosition.inside`."""

    def fetch(self, place: SourceLine | None, start: int, end: int, other: bool) -> None:
        """Take a fetch. ``other``: whether another loader was read since the last one."""
        if self._ended is not None:
            self._pauses.append((start - self._ended) / 1e9)
        elif other and self.fetched:
            seconds, times = self.inside
            self.inside = seconds + (start - self._until) / 1e9, times + 1
        elif self.fetched:
            self._batch_seconds.append((end - self._until) / 1e9)
        self._ended, self._until, self.place = None, end, place
        self.fetched += 1
        self.total += 1

    def stop_at(self, length: int) -> None:
        """Take that a batch is fetched while this loader gives ``length`` in a pass: that many end the pass.

        A loop over exactly so many batches (``zip(range(n), loader)``) leaves without asking the loader once
        more, so that it never runs dry.
        """
        if self.fetched >= length > 0:
            self.end(self._until)
            self._ended_early = True

    def end(self, moment: int) -> None:
        """Take that the loader ran dry, which ends its pass."""
        if self._ended_early and not self.fetched:
            self._ended_early = False
            return
        self._ended_early = False
        self.last, self.fetched, self._ended = self.fetched, 0, moment
        self.over += 1

    def begin(self) -> None:
        """Take that an iteration over it begins. A pass that was left before has ended with that."""
        if self.fetched == 1:
            # A pass of one batch was no pass: the program looked at a batch, to learn its shape for instance.
            self.total -= 1
            self.fetched = 0
        elif self.fetched:
            self.end(self._until)
        self._ended_early = False

    def usual(self) -> float:
        """The mean of the seconds from one batch of a pass to the next, of the latest; 0 without any."""
        lengths = list(self._batch_seconds)
        lengths = lengths[1:] if 2 < len(lengths) < RECENT else lengths  # the first may compile
        return sum(lengths) / len(lengths) if lengths else 0.0

    def pause(self) -> float | None:
        """The median of the seconds between two passes; None if there were none."""
        return median(self._pauses) if self._pauses else None

    def paused(self, now: int) -> float | None:
        """The seconds since the last pass ended; None during a pass."""
        return None if self._ended is None else max(now - self._ended, 0) / 1e9


class LoopPositions:
    """The passes of one process over all of its loaders."""

    def __init__(self) -> None:
        self._announced: dict[object, int] = {}
        """By ``object_id``, the number of batches of a pass that the loader itself gives."""
        self._loaders: dict[LoaderKey, LoaderPasses] = {}
        self._latest: LoaderKey | None = None
        """The loader that the last batch came from."""
        self._planned: tuple[int, int] | None = None
        """The number of passes that a trainer announced, and when; None once the next pass has begun."""

    def announced(self, object_id: object, batches: object) -> None:
        """Take the number of batches of a pass that a loader gives."""
        if isinstance(batches, int) and batches > 0:
            self._announced[object_id] = batches

    def planned(self, epochs: object, moment: int) -> None:
        """Take that a trainer begins an epoch, or its training, and how many are to come with that one."""
        if isinstance(epochs, int) and epochs > 0:
            self._planned = epochs, moment

    def fetch(
        self, loader: LoaderKey, place: SourceLine | None, start: int = 0, end: int = 0
    ) -> None:
        """Take a fetch from ``loader`` at the line ``place``."""
        fetched_from = self._loaders.setdefault(loader, LoaderPasses())
        for key in {self._latest or loader, loader}:
            self._loaders[key].stop_at(self._announced.get(key[0], 0))
        fetched_from.fetch(place, start, end, self._latest != loader)
        self._latest = loader
        if self._planned is not None and start >= self._planned[1]:
            # The announcement is of the loader that is read next.
            fetched_from.passes, self._planned = fetched_from.over + self._planned[0], None

    def begin(self, loader: LoaderKey) -> None:
        """Take that an iteration over ``loader`` begins."""
        passes = self._loaders.get(loader)
        if passes is not None:
            passes.begin()

    def trains(self, loader: LoaderKey) -> None:
        """Take that a step ended with the last fetch from ``loader``."""
        self._loaders[loader].trains = True

    def end(self, loader: LoaderKey, moment: int = 0) -> None:
        """Take that ``loader`` ran dry, which ends its pass."""
        self._loaders.setdefault(loader, LoaderPasses()).end(moment)

    def current(self, argv: Sequence[str], now: int = 0) -> LoopPosition | None:
        """The position in the loop that trains with most batches; None if its length is not known.

        ``argv`` are the words of the program's command line, ``now`` nanoseconds.
        """
        if not self._latest:
            return None
        loader, main = max(self._loaders.items(), key=lambda item: (item[1].trains, item[1].total))
        # A program may leave each pass early, after fewer batches than the loader has.
        length = min(self._announced.get(loader[0], main.last), main.last or MOST_BATCHES)
        if not length or main.fetched > length:
            return None
        text = f"batch {main.fetched} of {length}"
        passes = main.passes
        if passes is None and main.place is not None:
            passes = epochs(main.place.file, main.place.line, tuple(argv))
        left: int | None = None
        if passes is not None and main.over + (main.fetched > 0) <= passes:
            left = passes - main.over
            text = f"epoch {min(main.over + 1, passes)} of {passes}, {text}"
        return LoopPosition(
            text,
            main.total,
            main.fetched,
            length,
            left,
            main.pause(),
            main.paused(now),
            main.usual(),
            main.inside,
        )


# --- the number of passes in the program's text ---------------------------------------------------


@lru_cache(64)
def epochs(file: str, line: int, argv: tuple[str, ...]) -> int | None:
    """How many times the loop in ``line`` of ``file`` will be run; None if the text does not show it.

    ``argv`` are the words of the program's command line.
    """
    try:
        with open(file, "rb") as source:
            tree = ast.parse(source.read(MOST_TEXT))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return _ProgramText(tree, argv).passes(line)


class _ProgramText:
    """The syntax tree of a program, in which the ends of loops over ranges are worked out.

    A value that the text does not show beyond doubt is None: no number is better than a wrong one.
    """

    def __init__(self, tree: ast.Module, argv: Sequence[str]) -> None:
        self._argv = argv
        self._nodes = list(ast.walk(tree))
        self._above = {c: node for node in self._nodes for c in ast.iter_child_nodes(node)}
        """By node the one that it is part of."""

    def passes(self, line: int) -> int | None:
        """The number of times that the innermost loop in ``line`` will be run."""
        loops = [
            node
            for node in self._nodes
            if isinstance(node, (ast.For, ast.AsyncFor))
            and node.lineno <= line <= (node.iter.end_lineno or line)
        ]
        return self._around(max(loops, key=lambda node: node.col_offset)) if loops else None

    def _around(self, node: ast.AST, depth: int = 2) -> int | None:
        """The iterations of the loop over a range around ``node``, or around the only call of its function.

        ``depth``: through how many calls the loop is looked for.
        """
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
        """The nodes around ``node``, the innermost first."""
        while node in self._above:
            node = self._above[node]
            yield node

    def _calls(self) -> Iterator[ast.Call]:
        return (node for node in self._nodes if isinstance(node, ast.Call))

    def _iterations(self, iterable: ast.expr) -> int | None:
        """The length of the one range in ``iterable``, which may be wrapped, as by ``tqdm``."""
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
        """The value of an expression: a number, a sum or difference, a name, or as ``args.epochs`` is."""
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
        """The value of a name that is assigned once in the whole program and is no parameter."""
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
        """The value of the option of the command line with the destination ``name``, else its default."""
        flags, default = [f"--{name}", f"--{name.replace('_', '-')}"], None
        for call in self._calls():
            words = [a.value for a in call.args if isinstance(a, ast.Constant)]
            keys = {key.arg: key.value for key in call.keywords}
            dest = keys.get("dest")
            destination = dest.value if isinstance(dest, ast.Constant) else None
            own_flags = [word for word in words if isinstance(word, str)]
            if _name(call.func) == "add_argument" and (
                destination == name
                or any(word.lstrip("-").replace("-", "_") == name for word in own_flags)
            ):
                flags += own_flags
                default = self._value(keys["default"]) if "default" in keys else None
        for at, word in enumerate(self._argv):
            flag, equals, value = word.partition("=")
            if flag in flags:
                value = value if equals else "".join(self._argv[at + 1 : at + 2])
                return int(value) if value.isdecimal() else None
        return default


def _name(node: ast.AST) -> str:
    """The name of a variable or an attribute; empty for anything else."""
    return str(getattr(node, "attr", None) or getattr(node, "id", ""))
