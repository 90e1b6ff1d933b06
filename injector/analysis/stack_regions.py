"""Where the host spent its time in each region of a loop, by stacks that were sampled (``--sample``).

A stack says by itself what it belongs to, so that no clocks need to be compared. Take a sample whose frames
are, from the outermost one inwards::

    train.py:140   main
    train.py:112   train          ← line 112 is in the body of the loop, and a call site of `forward`
    module.py:1553 _call_impl     ← the function that this region is the calls of
    model.py:31    forward
    functional.py:2041 relu

It goes through the loop; its innermost call site is that of ``forward``, since a frame below it is of the
function which that region stands for. So this sample counts for ``forward``, and its line in the program is
``model.py:31``. A stack through the body of the loop but through no call site is the loop's ``other``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from linecache import getline
from typing import Any

from ..origin import PROGRAM, origin, shipped
from ..rewrite.parsed_file import block_of, body_of
from ..store.call_sites import CallSite, SourceLine
from ..store.event import LOG
from ..store.folder import Run
from ..store.stacks import SUFFIX, UNNAMED, Frame, Stack, stacks
from .columns import UNTRAINED, RecordedProcess, sources
from .profile import LoopSamples, RegionSamples, SampledLine, StackNode
from .tracks import LAYERS
from .training_loop import Node, TrainingLoop

OTHER = "other"
LEFT_OUT = ("step", "epoch", "io.end", *LAYERS)
"""Regions around a whole step, the last fetch of a pass, which has the line of the other fetches, and what
lies in a region of the step without being one."""
FINEST = 0.002
"""Branches of the tree with less than this fraction of the loop's samples are left out."""
DEEPEST = 200
"""How many frames of a stack are looked at; a deep recursion is cut off inside."""
LINES = 8
"""How many lines are kept of each region."""
REGION = "injector.region"
"""The selector of call sites of ``injector.region``."""
DECORATED = os.path.join("injector", "measure", "decorated.py")
"""The file with the function that calls a function which ``injector.region`` decorates."""


class ProgramFiles:
    """Answers about lines of the program's files.

    The answers are kept in run.json: a report may be made on another machine, or after files were changed.
    """

    def __init__(self, started: float, known: Mapping[str, Any] | None = None) -> None:
        """``known`` are the answers in run.json. Files that changed since ``started``, in unix seconds, give
        no others."""
        self._started = started
        self.answers: dict[str, Any] = dict(known or {})
        """By question and line: a list of two lines, a text, or None."""

    def body(self, place: SourceLine | Frame) -> list[int] | None:
        """The first and last line of the loop around ``place``, else of the function."""
        body = self._answer("body", place, lambda: body_of(place.file, place.line))
        return body if isinstance(body, list) else None

    def block(self, place: SourceLine | Frame) -> list[int] | None:
        """The first and last line of the ``with`` statement at ``place``; None if there is none."""
        block = self._answer("block", place, lambda: block_of(place.file, place.line))
        return block if isinstance(block, list) else None

    def text(self, place: SourceLine | Frame) -> str:
        """The text of the line, stripped; empty if the file is not there as it was."""
        text = self._answer("text", place, lambda: getline(place.file, place.line).strip()[:200])
        return text if isinstance(text, str) else ""

    def _answer(self, question: str, place: SourceLine | Frame, look_up: Callable[[], Any]) -> Any:
        key = f"{question} {place.file}:{place.line}"
        if key not in self.answers:
            answer = look_up() if self._is_unchanged(place.file) else None
            # As JSON has it, so that it is the same when it is read back.
            self.answers[key] = list(answer) if isinstance(answer, tuple) else answer
        return self.answers[key]

    def _is_unchanged(self, file: str) -> bool:
        try:
            # A file that was changed may have other code at the same line.
            return os.path.isfile(file) and os.stat(file).st_mtime <= self._started
        except (OSError, ValueError):
            return False


def sampled_loops(
    run: Run, loops: Sequence[TrainingLoop]
) -> tuple[tuple[LoopSamples, ...], dict[str, Any]]:
    """The samples of each of ``loops`` that has some, and the ``sampling`` entry for run.json.

    The entry is the one that the run has, together with all answers about the program's files. Raises
    OSError, NotARunError.
    """
    sampling = run.info.get("sampling")
    if not sampling:
        return (), {}
    files = ProgramFiles(float(run.info.get("started") or 0), sampling.get("sources"))
    sampled = [(source, path) for source in sources(run) if os.path.exists(path := _path(source))]
    samples_of_loops = []
    for loop in loops:
        ranks = {rank.process for rank in loop.ranks}
        of_loop = [(source, path) for source, path in sampled if source.index in ranks]
        if of_loop and loop.place is not None:
            samples_of_loops.append(_loop_samples(loop, of_loop, files))
    with_samples = tuple(each for each in samples_of_loops if each.samples)
    return with_samples, {**sampling, "sources": files.answers}


def _path(source: RecordedProcess) -> str:
    """The file with the stacks of a process."""
    return source.path[: -len(LOG)] + SUFFIX


def _loop_samples(
    loop: TrainingLoop, sampled: Sequence[tuple[RecordedProcess, str]], files: ProgramFiles
) -> LoopSamples:
    """The samples of ``loop`` in the processes of its ranks, each ``sampled`` into a file of stacks."""
    regions: dict[str, Counter[tuple[Frame, Frame]]] = {}
    flame: dict[tuple[str, ...], int] = Counter()
    for process, file in sampled:
        placer = _StackPlacer(loop, process, files)
        for stack in stacks(file):
            placed = placer.place(stack)
            if placed is None:
                continue
            region, inside = placed
            line = next((frame for frame in reversed(inside) if _is_programs(frame)), inside[0])
            regions.setdefault(region, Counter())[line, _innermost(inside)] += stack.samples
            path = (region, *map(_frame_text, inside))
            flame[path] += stack.samples
    total = sum(flame.values())
    # By their shares of a step, which all steps give, and not by samples, which may be few.
    ordered = sorted(regions.items(), key=lambda item: -_share(loop.tree, item[0]))
    return LoopSamples(
        loop.task,
        loop.place,
        total,
        len(sampled),
        tuple(
            RegionSamples(name, _share(loop.tree, name), counts.total(), _lines(counts, files))
            for name, counts in ordered
        ),
        _tree("step", flame, total * FINEST),
    )


def _share(node: Node, name: str) -> float:
    """The fraction of a step in the outermost regions called ``name``; ``other`` is that of the step only."""
    return sum(
        child.share if child.name == name else 0.0 if name == OTHER else _share(child, name)
        for child in node.children
    )


class _StackPlacer:
    """Finds out which region of a loop a stack of one process is in."""

    def __init__(self, loop: TrainingLoop, process: RecordedProcess, files: ProgramFiles) -> None:
        assert loop.place is not None
        self._place = loop.place
        self._sites: dict[tuple[str, int], list[tuple[CallSite, SourceLine]]] = {}
        """By file and line."""
        self._blocks: list[tuple[list[int], CallSite, SourceLine]] = []
        """The lines of each ``with injector.region(…):``: its body is in no other function, so that it has no
        frame of its own."""
        self._marked = False
        """Whether the program itself marks each step, by ``injector.region("step")``."""
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
        """The first and last line of the loop.

        Where no region was entered in that file, the loop itself is in a library (``trainer.fit(…)``): then
        it is the line of the call.
        """
        place = self._place
        if self._marked and (block := files.block(place)):
            return block
        body = files.body(place)
        site_lines = {line for file, line in self._sites if file == place.file} - {place.line}
        if body is None or not any(body[0] <= line <= body[1] for line in site_lines):
            return [place.line, place.line]
        return body

    def place(self, stack: Stack) -> tuple[str, tuple[Frame, ...]] | None:
        """The region of a stack, and its frames from the loop inwards; None if it is not in the loop."""
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
        # Without compiled frames: a call site with no Python frame below it is taken for a call of a C
        # function.
        site = self._innermost_site([frame for frame in frames if not frame.compiled])
        if site is not None and site.phase in UNTRAINED:
            return None  # evaluation is cut out of the steps around it
        return (OTHER if site is None else site.region), frames[depth:]

    def _innermost_site(self, frames: Sequence[Frame]) -> CallSite | None:
        """The innermost call site that ``frames``, from the outermost one inwards, go through."""
        # From the outside in, so that the last match is the innermost.
        innermost = None
        for at, frame in enumerate(frames):
            for site, _ in self._sites.get((frame.file, frame.line), ()):
                if _calls_region(site, frames[at + 1 :]):
                    innermost = site
            for (first, last), site, place in self._blocks:
                same = frame.file == place.file and _last_part(frame.function) == _last_part(
                    place.function
                )
                if same and first <= frame.line <= last:
                    innermost = site
        return innermost


def _calls_region(site: CallSite, inner: Sequence[Frame]) -> bool:
    """Whether the ``inner`` frames, below the line of ``site``, are of a call of its region.

    A line may have other calls beside that of the region: ``loss = criterion(model(x), next(targets))``.
    """
    selector = site.selector or ""
    if selector == REGION:
        return any(frame.file.endswith(DECORATED) for frame in inner)
    if not inner:
        # Functions in C have no frame: those of method calls (".to"), of waits and of synchronisation.
        return selector.startswith(".") or site.region in ("wait", "sync")
    name = _last_part(selector.partition(" > ")[0])
    return any(_last_part(frame.function) == name for frame in inner)


def _last_part(name: str) -> str:
    """The last part of a dotted name, or of a selector."""
    return name.replace("/", ".").rpartition(".")[2]


_OURS = (
    os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep,
    shipped("voirfiles") + os.sep,
)


def _innermost(frames: Sequence[Frame]) -> Frame:
    """The frame of the function that ran.

    A compiled library may be stripped of the names of its functions. Then it is the innermost one with a
    name, of the same library if possible.
    """
    last = frames[-1]
    if last.function != UNNAMED:
        return last
    named = [frame for frame in reversed(frames) if frame.function != UNNAMED]
    return next((frame for frame in named if frame.file == last.file), named[0] if named else last)


def _is_programs(frame: Frame) -> bool:
    """Whether the frame is of the program's own code, neither of a library's nor of ours."""
    if frame.compiled or frame.file[:1] == "<" or frame.file.startswith(_OURS):
        return False
    return origin(frame.file) == PROGRAM


def _frame_text(frame: Frame) -> str:
    """For example ``forward (model.py:31)``."""
    line = f":{frame.line}" if frame.line or not frame.compiled else ""
    return f"{frame.function} ({os.path.basename(frame.file)}{line})"


def _lines(counts: Counter[tuple[Frame, Frame]], files: ProgramFiles) -> tuple[SampledLine, ...]:
    """The lines with most samples; ``counts`` are by the program's frame and the innermost frame."""
    # Frames of one line may have different functions: a generator expression is a function of its own, so the
    # key is the line. Where compiled code ran, the program has no finer lines, so its functions count apart.
    by_line: dict[tuple[str, int, str], Counter[tuple[Frame, Frame]]] = {}
    for (line, innermost), samples in counts.items():
        function = innermost.function if innermost.compiled else ""
        key = (line.file, line.line, function)
        by_line.setdefault(key, Counter())[line, innermost] += samples
    ordered = sorted(by_line.values(), key=lambda of_line: -of_line.total())[:LINES]
    return tuple(_sampled_line(of_line, files) for of_line in ordered)


def _sampled_line(counts: Counter[tuple[Frame, Frame]], files: ProgramFiles) -> SampledLine:
    functions: Counter[str] = Counter()
    for (line, innermost), samples in counts.items():
        functions["" if innermost == line else _frame_text(innermost)] += samples
    [(inner, in_inner)] = functions.most_common(1)
    [((line, _), _)] = counts.most_common(1)
    place = SourceLine(line.file, line.line, line.function, files.text(line))
    return SampledLine(place, counts.total(), inner, in_inner)


def _tree(name: str, flame: Mapping[tuple[str, ...], int], least: float) -> StackNode:
    """The tree of all paths in ``flame`` below a node ``name``, without nodes of under ``least`` samples.

    ``flame`` has the samples of each path from the outermost frame inwards.
    """
    below: dict[str, dict[tuple[str, ...], int]] = {}
    for path, samples in flame.items():
        if path:
            below.setdefault(path[0], {})[path[1:]] = samples
    children = (_tree(child, paths, least) for child, paths in below.items())
    large = sorted((c for c in children if c.samples >= least), key=lambda c: -c.samples)
    return StackNode(name, sum(flame.values()), tuple(large))
