"""Where the host was, by loop and region: the stacks that were sampled in the training processes.

A stack says by itself what it belongs to: it goes through the line at which a region was entered and, below
that, through the function that the region is of. What goes through the body of a loop and through no region
of it is the loop's ``other``. No clocks are compared.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from linecache import getline
from typing import Any

from ..origin import PROGRAM, origin, shipped
from ..rewrite.batches import block_of, body_of
from ..store.call_sites import CallSite, SourceLine
from ..store.event import LOG
from ..store.folder import Run
from ..store.stacks import SUFFIX, UNNAMED, Frame, Stack, stacks
from .columns import RecordedProcess, sources
from .profile import (
    LoopSamples,
    Node,
    RegionSamples,
    SampledLine,
    StackNode,
    TrainingLoop,
)

OTHER = "other"
LEFT_OUT = ("step", "epoch", "io.end")
"""Regions around all of a step, and the last fetch of a pass, which is at the line of the others."""
TRYING = ("eval", "predict")
FINEST = 0.002
"""The part of a loop's samples below which a branch of the tree is left out."""
DEEPEST = 200
"""Frames that are looked at: of a recursion, the first."""
LINES = 8
"""Lines that are kept of a region."""
REGION = "injector.region"
"""What such a site is of."""
DECORATED = os.path.join("injector", "measure", "decorated.py")
"""Through what calls of functions go that ``injector.region`` decorates."""


class ProgramFiles:
    """What was found in the program's files: kept with the run, since they change and stay behind."""

    def __init__(self, started: float, known: Mapping[str, Any] | None = None) -> None:
        """``started`` is when the run began, in unix seconds: files that were changed later do not count;
        ``known`` are the answers kept with the run."""
        self._started = started
        self.answers: dict[str, Any] = dict(known or {})
        """By question: lists of two lines, texts, None."""

    def body(self, place: SourceLine | Frame) -> list[int] | None:
        """The first and last line of the loop around a place, or of its function."""
        found = self._answer("body", place, lambda: body_of(place.file, place.line))
        return found if isinstance(found, list) else None

    def block(self, place: SourceLine | Frame) -> list[int] | None:
        """The first and last line of the ``with`` statement at a place."""
        found = self._answer("block", place, lambda: block_of(place.file, place.line))
        return found if isinstance(found, list) else None

    def text(self, place: SourceLine | Frame) -> str:
        """The line, stripped."""
        found = self._answer("text", place, lambda: getline(place.file, place.line).strip()[:200])
        return found if isinstance(found, str) else ""

    def _answer(self, question: str, place: SourceLine | Frame, ask: Callable[[], Any]) -> Any:
        key = f"{question} {place.file}:{place.line}"
        if key not in self.answers:
            found = ask() if self._is_unchanged(place.file) else None
            self.answers[key] = list(found) if isinstance(found, tuple) else found
        return self.answers[key]

    def _is_unchanged(self, file: str) -> bool:
        try:
            return os.path.isfile(file) and os.stat(file).st_mtime <= self._started
        except (OSError, ValueError):
            return False


def sampled_loops(
    run: Run, loops: Sequence[TrainingLoop]
) -> tuple[tuple[LoopSamples, ...], dict[str, Any]]:
    """What was sampled in each of ``loops``, none of those without samples; and ``sampling`` of run.json,
    with what was looked up in the program's files. Raises OSError, NotARunError.
    """
    kept = run.info.get("sampling")
    if not isinstance(kept, dict):
        return (), {}
    files = ProgramFiles(float(run.info.get("started") or 0), kept.get("sources"))
    having = [(each, path) for each in sources(run) if os.path.exists(path := _path(each))]
    found = []
    for loop in loops:
        ranks = {rank.process for rank in loop.ranks}
        mine = [(process, path) for process, path in having if process.index in ranks]
        if mine and loop.place is not None:
            found.append(_loop_samples(loop, mine, files))
    return tuple(each for each in found if each.samples), {**kept, "sources": files.answers}


def _path(source: RecordedProcess) -> str:
    return source.path[: -len(LOG)] + SUFFIX


def _loop_samples(
    loop: TrainingLoop, mine: Sequence[tuple[RecordedProcess, str]], files: ProgramFiles
) -> LoopSamples:
    regions: dict[str, Counter[tuple[Frame, Frame]]] = {}
    flame: dict[tuple[str, ...], int] = Counter()
    for process, file in mine:
        reader = _StackPlacer(loop, process, files)
        for stack in stacks(file):
            found = reader.place(stack)
            if found is None:
                continue
            region, inside = found
            line = next((frame for frame in reversed(inside) if _is_programs(frame)), inside[0])
            regions.setdefault(region, Counter())[line, _innermost(inside)] += stack.samples
            path = (region, *map(_box, inside))
            flame[path] += stack.samples
    total = sum(flame.values())
    ordered = sorted(regions.items(), key=lambda each: -_share(loop.tree, each[0]))
    return LoopSamples(
        loop.task,
        loop.place,
        total,
        len(mine),
        tuple(
            RegionSamples(name, _share(loop.tree, name), counts.total(), _lines(counts, files))
            for name, counts in ordered
        ),
        _tree("step", flame, total * FINEST),
    )


def _share(node: Node, name: str) -> float:
    """The part of a step that is in regions of a name."""
    return sum(
        each.share if each.name == name else 0.0 if name == OTHER else _share(each, name)
        for each in node.children
    )


class _StackPlacer:
    """Finds the region of a loop that a stack of one process is in."""

    def __init__(self, loop: TrainingLoop, process: RecordedProcess, files: ProgramFiles) -> None:
        assert loop.place is not None
        self._place = loop.place
        self._sites: dict[tuple[str, int], list[tuple[CallSite, SourceLine]]] = {}
        self._blocks: list[tuple[list[int], CallSite, SourceLine]] = []
        self._marked = False
        """Whether the program itself says what a step is."""
        for site in process.sites.values():
            if site.region == "step" and site.place == loop.place and site.selector == REGION:
                self._marked = True
            if site.clock == "host" and site.place and site.region not in LEFT_OUT:
                place = site.place
                self._sites.setdefault((place.file, place.line), []).append((site, place))
                if site.selector == REGION and (block := files.block(place)):
                    self._blocks.append((block, site, place))
        self._body = self._body_of(files)

    def _body_of(self, files: ProgramFiles) -> list[int]:
        """The lines of the loop; of one in a library, the line that called it."""
        place = self._place
        if self._marked and (block := files.block(place)):
            return block
        body = files.body(place)
        mine = {line for file, line in self._sites if file == place.file}
        if body is None or not any(body[0] <= line <= body[1] for line in mine - {place.line}):
            return [place.line, place.line]
        return body

    def place(self, stack: Stack) -> tuple[str, tuple[Frame, ...]] | None:
        """The region, and the frames from the loop's own inwards; None outside of the loop."""
        frames = stack.frames
        first, last = self._body
        if len(frames) > DEEPEST:
            frames = frames[:DEEPEST]
        depth = next(
            (
                at
                for at, frame in enumerate(frames)
                if frame.file == self._place.file and first <= frame.line <= last
            ),
            None,
        )
        if depth is None:
            return None
        site = self._site([frame for frame in frames if not frame.compiled])
        if site is not None and site.phase in TRYING:
            return None
        return (OTHER if site is None else site.region), frames[depth:]

    def _site(self, frames: Sequence[Frame]) -> CallSite | None:
        """The innermost site that ``frames`` go through."""
        found = None
        for at, frame in enumerate(frames):
            for site, _ in self._sites.get((frame.file, frame.line), ()):
                if _is_of(site, frames[at + 1 :]):
                    found = site
            for (first, last), site, place in self._blocks:
                same = frame.file == place.file and _last(frame.function) == _last(place.function)
                if same and first <= frame.line <= last:
                    found = site
        return found


def _is_of(site: CallSite, inner: Sequence[Frame]) -> bool:
    """Whether what was called from a site's line is what the site is of."""
    selector = site.selector or ""
    if selector == REGION:
        return any(frame.file.endswith(DECORATED) for frame in inner)
    if not inner:  # a function in C has no frame
        return selector.startswith(".") or site.region in ("wait", "sync")
    name = _last(selector.partition(" > ")[0])
    return any(_last(frame.function) == name for frame in inner)


def _last(name: str) -> str:
    return name.replace("/", ".").rpartition(".")[2]


_OURS = (
    os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep,
    shipped("voirfiles") + os.sep,
)


def _innermost(frames: Sequence[Frame]) -> Frame:
    """The function that ran; if it has no name, the named one that led to it, of its library if possible."""
    last = frames[-1]
    if last.function != UNNAMED:
        return last
    named = [frame for frame in reversed(frames) if frame.function != UNNAMED]
    return next((frame for frame in named if frame.file == last.file), named[0] if named else last)


def _is_programs(frame: Frame) -> bool:
    if frame.compiled or frame.file[:1] == "<" or frame.file.startswith(_OURS):
        return False
    return origin(frame.file) == PROGRAM


def _box(frame: Frame) -> str:
    line = f":{frame.line}" if frame.line or not frame.compiled else ""
    return f"{frame.function} ({os.path.basename(frame.file)}{line})"


def _lines(counts: Counter[tuple[Frame, Frame]], files: ProgramFiles) -> tuple[SampledLine, ...]:
    # One line may be of several functions: a generator expression is one. What it runs of compiled code is
    # the program's only line there, so each of those functions counts by itself.
    by_line: dict[tuple[str, int, str], Counter[tuple[Frame, Frame]]] = {}
    for (line, innermost), samples in counts.items():
        function = innermost.function if innermost.compiled else ""
        key = (line.file, line.line, function)
        by_line.setdefault(key, Counter())[line, innermost] += samples
    ordered = sorted(by_line.values(), key=lambda each: -each.total())[:LINES]
    return tuple(_sampled_line(inner, files) for inner in ordered)


def _sampled_line(counts: Counter[tuple[Frame, Frame]], files: ProgramFiles) -> SampledLine:
    [((line, most), _)] = counts.most_common(1)
    place = SourceLine(line.file, line.line, line.function, files.text(line))
    return SampledLine(place, counts.total(), "" if most == line else _box(most))


def _tree(name: str, flame: Mapping[tuple[str, ...], int], least: float) -> StackNode:
    below: dict[str, dict[tuple[str, ...], int]] = {}
    for path, samples in flame.items():
        if path:
            below.setdefault(path[0], {})[path[1:]] = samples
    children = (_tree(each, inner, least) for each, inner in below.items())
    kept = sorted((c for c in children if c.samples >= least), key=lambda c: -c.samples)
    return StackNode(name, sum(flame.values()), tuple(kept))
