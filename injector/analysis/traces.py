"""One loop on one track: what is later put together over ranks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..store.folder import Run
from ..value_class import field, state_class
from .arrays import (
    NOTHING,
    ExcludedIntervals,
    among,
    counts,
    numbered_kinds,
    owners,
    places,
    warmup_of,
)
from .columns import SECOND, Ints, RecordedProcess, SpanColumns, read_rows, sources
from .device_work import Matched, add_queue
from .evaluation import Passes, no_passes, passes_of
from .inference import steps_of_inference
from .items import items_of
from .iterations import LoaderIterations
from .steps import StepPacing, TrackSteps, bounded, joined, no_steps, pace_of, paced_by_updates
from .tables import Pieces, Seconds, StepTable, add_device, pieces_of, table_of
from .tracks import Landmarks, Track, split

SAME_LINE = 3
"""Loops at one line that differ by what they work on stay apart up to so many: beyond, it is one loop
(a data set, or an optimizer, made anew for each fold or epoch)."""
KINDS = ("cuda", "xpu", "mps")
"""Kinds of PyTorch's devices that have a clock."""
SHARED = 0.5
"""A loop is a stage beside explicit steps where these lie in no more of its steps than this part."""
Key = tuple[str, str, str | None, int, int]
"""Task, what paces it, file and line, and which of several there."""


@state_class
class LoopTrace:
    """One loop on one track."""

    key: Key
    pace: StepPacing
    source: RecordedProcess
    device: str | None
    start: Ints
    end: Ints
    table: StepTable
    waits: Seconds
    """Of each step, for other ranks."""
    items: npt.NDArray[np.float32] | None
    tokens: npt.NDArray[np.float32] | None
    why: str | None
    fetches: float
    updates: float
    warmup: int
    _thirds: list[int] = field(default_factory=list)

    @property
    def thirds(self) -> list[int]:
        """When each third of its steps began, and when the last one ended."""
        if not self._thirds:
            begins = self.start[np.arange(3) * (len(self.start) - 1) // 3]
            self._thirds = [*begins.tolist(), int(self.end[-1])]
        return self._thirds

    def __len__(self) -> int:
        return len(self.table.seconds)

    def let_go(self) -> None:
        """Forget when each step began and ended: of most ranks only :attr:`thirds` are needed."""
        self.thirds  # noqa: B018  found while they can be
        self.start = self.end = self.start[:0].copy()

    @property
    def total(self) -> float:
        """Seconds of all its steps."""
        return float(self.table.seconds.sum(dtype=np.float64))

    def measured_from(self, warmup: int) -> int:
        """The first step that counts, where the loop's warm-up is ``warmup`` steps."""
        return min(warmup, len(self) // 2)


@state_class
class Thread:
    """A track of the host, with what was found in it."""

    source: RecordedProcess
    number: int
    track: Track
    marks: Landmarks
    steps: TrackSteps
    passes: Passes
    """Evaluations, which are no part of the steps around them."""
    predicted: Passes
    """What latencies are of: the same; where nothing is trained, passes whose batches are the steps."""
    pieces: Pieces
    traces: list[LoopTrace]


class Recording:
    """The processes of a run, and the threads of each, found once for all that is made of them."""

    def __init__(self, run: Run) -> None:
        """Raises OSError, NotARunError."""
        self.sources = sources(run)
        self._threads: dict[int, list[Thread]] = {}

    def threads(self, source: RecordedProcess, rows: SpanColumns | None = None) -> list[Thread]:
        """Those of one of its processes, whose spans are ``rows`` where these have been read."""
        if source.index not in self._threads:
            rows = read_rows(source) if rows is None else rows
            self._threads[source.index] = threads_of(source, rows)
        return self._threads[source.index]


def threads_of(source: RecordedProcess, rows: SpanColumns) -> list[Thread]:
    """The tracks of one process."""
    tracks = {int(key): track for key, track in split(rows, source.sites, "host").items()}
    devices = _of_one_kind(split(rows, source.sites, "device"))
    marks = {key: Landmarks(track) for key, track in tracks.items()}
    predicted: dict[int, Passes] = {}
    if source.infers:
        for key, each in marks.items():
            each.tried = each.forward
            predicted[key] = passes_of(each, LoaderIterations(each), no_steps())
            each.without_training()
    elif not any(each.optimizes for each in marks.values()):
        for each in marks.values():
            each.without_optimizers()
    explicit = {key: _explicit(each) for key, each in marks.items()}
    everywhere = _everywhere(list(explicit.values()))
    found = [
        _thread(source, key, marks[key], explicit[key], everywhere, devices, predicted.get(key))
        for key in tracks
    ]
    _add_waits(found)
    return found


def _of_one_kind(devices: dict[int | str, Track]) -> list[Track]:
    """The devices whose times stand beside the host's, and may be added up: those of PyTorch, else those of
    a clock that the program has plugged in.
    """
    kinds: dict[str, list[Track]] = {}
    for name, track in devices.items():
        kinds.setdefault(str(name).partition(":")[0], []).append(track)
    return kinds[min(kinds, key=lambda kind: (not works(kind), kind))] if kinds else []


def works(device: str | None) -> bool:
    """Whether a clock is that of a device whose work PyTorch queues: what is none of it, it waits for."""
    return (device or "").partition(":")[0] in KINDS


def _thread(
    source: RecordedProcess,
    number: int,
    marks: Landmarks,
    explicit: TrackSteps,
    everywhere: ExcludedIntervals,
    devices: list[Track],
    predicted: Passes | None,
) -> Thread:
    """``explicit`` are the explicit steps of this track, ``everywhere`` those of the whole process.

    ``predicted``: of a run that trains nothing, its passes; each batch of them is a step.
    """
    track = marks.track
    if predicted is not None:
        steps, passes = steps_of_inference(marks, predicted, explicit), no_passes()
    elif len(everywhere):
        steps, passes = _stages(marks, explicit, everywhere)
    else:
        steps, passes = _of_iterations(marks, LoaderIterations(marks), no_steps())
    if predicted is None:
        predicted = passes
    excluded = passes.excluded()
    names = {site.device for site in source.sites.values() if site.device}
    name = min(names, key=lambda each: (not works(each), each), default=None)
    pieces = pieces_of(track, steps, excluded, timed=bool(devices) and works(name))
    thread = Thread(source, number, track, marks, steps, passes, predicted, pieces, [])
    if len(steps):
        thread.traces = _traces_of(thread, devices, excluded, name)
    return thread


def _everywhere(explicit: list[TrackSteps]) -> ExcludedIntervals:
    filled = [steps for steps in explicit if len(steps)]
    if not filled:
        return NOTHING
    return ExcludedIntervals(
        np.concatenate([steps.start for steps in filled]),
        np.concatenate([steps.end for steps in filled]),
    )


def _explicit(marks: Landmarks) -> TrackSteps:
    """The explicit steps of a track."""
    track, rows = marks.track, marks.steps
    if not len(rows):
        return no_steps()
    sites, which = numbered_kinds(track.site[rows])
    paces = [pace_of(track.sites[site], "step") for site in sites]
    start, end = track.start[rows], track.end[rows]
    count = [counts(track.start[each], start, end) for each in (marks.fetches, marks.updates)]
    return joined([TrackSteps(start, end.copy(), which, count[0], count[1], paces)])


def _stages(
    marks: Landmarks, explicit: TrackSteps, everywhere: ExcludedIntervals
) -> tuple[TrackSteps, Passes]:
    """Explicit steps, and those of loops beside them, whose steps no voirfile marks."""
    iterations = LoaderIterations(marks)
    steps = explicit
    if everywhere.hold(marks.track.start[marks.updates]).all():
        others = no_steps()
    else:
        others = _apart(marks, _of_iterations(marks, iterations, explicit)[0], everywhere)
    if len(others):
        steps = joined([explicit, others])
    elif not len(iterations.steps):
        fetches = marks.track.start[marks.fetches]
        iterations.pacing = marks.fetches[owners(steps.start, steps.end, fetches) >= 0]
    return steps, passes_of(marks, iterations, steps)


def _apart(marks: Landmarks, steps: TrackSteps, explicit: ExcludedIntervals) -> TrackSteps:
    """Of ``steps``, those of loops that are stages of their own.

    Where explicit steps lie in the steps of a loop, they say what a step of it is; but what comes
    after the last update of a step is none of it.
    """
    shared = explicit.within(steps.start, steps.end) > 0
    kept = [
        pace
        for pace in range(len(steps.paces))
        if (mine := steps.pace == pace).any() and shared[mine].mean() <= SHARED
    ]
    steps = steps.take(np.flatnonzero(among(steps.pace, kept))) if kept else no_steps()
    following = places(explicit.start, steps.start)
    limit = np.concatenate((explicit.start, steps.end[-1:]))[following]
    steps.end = np.minimum(steps.end, limit)
    held = counts(marks.track.start[marks.updates], steps.start, steps.end)
    steps.updates = np.minimum(steps.updates, held)
    return steps.take(np.flatnonzero((held > 0) & (explicit.within(steps.start, steps.end) == 0)))


def _of_iterations(
    marks: Landmarks, iterations: LoaderIterations, explicit: TrackSteps
) -> tuple[TrackSteps, Passes]:
    """Steps that loaders pace, and those that updates pace, between the ``explicit`` ones."""
    loose = paced_by_updates(marks, iterations.free)
    paced = joined([explicit, iterations.steps])
    rough = bounded(marks, loose, paced, NOTHING) if len(loose) else no_steps()
    passes = passes_of(marks, iterations, joined([iterations.steps, rough]))
    excluded = passes.excluded()
    if len(loose) and len(excluded):
        rough = bounded(marks, loose, paced, excluded)
    return joined([iterations.steps, rough]), passes


def _traces_of(
    thread: Thread, devices: list[Track], excluded: ExcludedIntervals, device: str | None
) -> list[LoopTrace]:
    steps = thread.steps
    keys = _keys(steps, _worked_on(thread))
    traces = []
    for key in dict.fromkeys(keys):
        mine = np.flatnonzero(among(steps.pace, [i for i, k in enumerate(keys) if k == key]))
        if not len(mine):
            continue
        table = _table(thread, mine, devices, excluded)
        # Each loop by itself: what one says of its items is nothing that another's model was called with.
        found = items_of(thread.marks, _of(steps, mine), excluded)
        traces.append(
            LoopTrace(
                key=key,
                pace=steps.paces[int(steps.pace[mine[0]])],
                source=thread.source,
                device=device,
                start=steps.start[mine],
                end=steps.end[mine],
                table=table,
                waits=np.broadcast_to(np.float32(0), len(mine)),
                items=_narrow(found.items),
                tokens=_narrow(found.tokens),
                why=found.why,
                fetches=float(steps.fetches[mine].mean()),
                updates=float(steps.updates[mine].mean()),
                warmup=warmup_of(table.seconds),
            )
        )
    return traces


def _narrow(column: Ints | None) -> Seconds | None:
    """``column`` in as little memory as it needs: mostly all steps work on equally many items."""
    if column is None or not (column == column[:1]).all():
        return None if column is None else column.astype(np.float32)
    return np.broadcast_to(column[:1].astype(np.float32), len(column))


def _table(
    thread: Thread, mine: Ints, devices: list[Track], excluded: ExcludedIntervals
) -> StepTable:
    """The columns of the steps ``mine``."""
    steps, pieces = thread.steps, thread.pieces
    if len(mine) < len(steps):
        pieces = pieces.of_steps(mine, len(steps))
    kept, matched = _of(steps, mine), list[Matched]()
    table = table_of(thread.track, kept, excluded, pieces)
    for device in devices:
        found = add_device(table, thread.track, pieces, device, thread.number, kept)
        matched += [(device, *each) for each in found]
    if pieces.times is not None:
        add_queue(table, thread.track, pieces, kept, excluded, matched)
    return table


def _of(steps: TrackSteps, mine: Ints) -> TrackSteps:
    return steps.take(mine) if len(mine) < len(steps) else steps


def _keys(steps: TrackSteps, worked_on: list[frozenset[int]]) -> list[Key]:
    """The loop that each pace belongs to, named alike on every rank.

    At one line, what is paced by different objects is one loop where the same optimizers are stepped, or
    the same models predict: a loader made anew for each epoch is no new loop, a second stage of training
    is. What a voirfile marks at one line is one loop, whatever it iterates over.
    """
    line: list[tuple[str, str, str | None, int]] = [
        (p.task, p.paced_by, p.place.file if p.place else None, p.place.line if p.place else 0)
        for p in steps.paces
    ]
    first = {i: int(at.argmax()) for i in range(len(line)) if (at := steps.pace == i).any()}
    number: dict[object, int] = {}
    """How many loops a line has."""
    loop_at: dict[object, int] = {}
    """By line and what paces or is stepped there, the first loop with it."""
    ordinal = {}
    for i in sorted(first, key=lambda i: first[i]):
        known = number.get(line[i], 0)
        users = [(line[i], "of", steps.paces[i].object_id)]
        users += [(line[i], "worked on", each) for each in worked_on[i]]
        marked = known > 0 and steps.paces[i].paced_by == "step"
        found = (
            0
            if marked
            else min((loop_at[each] for each in users if each in loop_at), default=known)
        )
        ordinal[i] = found
        number[line[i]] = max(known, found + 1)
        for each in users:
            loop_at[each] = min(loop_at.get(each, found), found)
    return [
        (*at, ordinal.get(i, 0) if number.get(at, 0) <= SAME_LINE else 0)
        for i, at in enumerate(line)
    ]


def _worked_on(thread: Thread) -> list[frozenset[int]]:
    """For each pace which optimizers are stepped in its steps, or which models predict; -1 is any other."""
    track, marks, steps = thread.track, thread.marks, thread.steps
    infers = thread.source.infers
    rows = marks.learnt if infers else marks.updates
    step = owners(steps.start, steps.end, track.start[rows])
    rows, pace = rows[step >= 0], steps.pace[step[step >= 0]]
    width = 1 + max(track.sites, default=0)
    found: list[set[int]] = [set() for _ in steps.paces]
    for both in np.flatnonzero(np.bincount(pace * width + track.site[rows])).tolist():
        of = track.sites[both % width].object_id
        if of is not None or infers:
            found[both // width].add(-1 if of is None else of)
    return [frozenset(each) for each in found]


def _add_waits(threads: list[Thread]) -> None:
    """What each step waits for other ranks, as far as collectives tell, in whatever thread."""
    for thread in threads:
        for trace in thread.traces:
            waits = trace.table.region("comm")
            if waits is not None:
                trace.waits = waits
            for other in threads:
                if other is not thread and len(rows := other.track.region("comm")):
                    trace.waits = trace.waits + _beside(trace, other.track, rows)


def _beside(trace: LoopTrace, track: Track, rows: Ints) -> Seconds:
    step = owners(trace.start, trace.end, track.start[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    seconds = (track.end[rows] - track.start[rows]) / SECOND
    return np.bincount(step, seconds, len(trace.start)).astype(np.float32)


def traces_of(run: Run) -> list[LoopTrace]:
    """The loops of all processes of ``run``. Raises OSError, NotARunError."""
    return [
        trace
        for source in sources(run)
        if source.has_spans()
        for thread in threads_of(source, read_rows(source))
        for trace in thread.traces
    ]
