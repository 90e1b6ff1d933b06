"""The loops of one process: from the spans of its threads to one :class:`LoopTrace` a loop and thread.

Of each process, in this order:

1. its spans become tracks, one per thread and one per device (:mod:`.tracks`);
2. :class:`.landmarks.Landmarks` picks the spans that tell where steps are: fetches, forwards, updates;
3. the steps are those that a voirfile marks, the iterations of loaders or what lies between updates
   (:mod:`.thread_steps`); where nothing is trained, the batches (:mod:`.inference`);
4. evaluations are cut out of the steps around them (:mod:`.evaluation`);
5. all other spans are divided among the steps that they lie in (:mod:`.pieces`, :mod:`.tables`).

::

    io  forward backward optimizer  io  forward backward optimizer  io forward  io forward  io ...
    `------------ step 0 ---------' `------------ step 1 ---------' `---- evaluation -----' `-- step 2

:mod:`.loops` then puts together what several ranks recorded of one loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..store.folder import Run
from ..value_class import field, state_class
from .arrays import ExcludedIntervals, among, median_of, owners, taken, union_of, warmup_of
from .columns import SECOND, Ints, RecordedProcess, SpanColumns, read_rows, sources
from .device_work import add_devices
from .evaluation import Passes, no_passes, passes_of
from .inference import steps_of_inference
from .items import items_of
from .iterations import LoaderIterations
from .landmarks import Landmarks
from .loop_keys import Key, loop_keys
from .pieces import Pieces, Seconds, pieces_of
from .steps import StepPacing, TrackSteps, no_steps
from .tables import StepTable, table_of
from .thread_steps import explicit_and_other_steps, explicit_steps, paced_steps
from .tracks import Track, split

if TYPE_CHECKING:
    from .gaps import LargestGap

KINDS = ("cuda", "xpu", "mps")
"""Kinds of devices, as PyTorch names them, whose work can be timed on the device."""


@state_class
class LoopTrace:
    """The steps of one loop on one track."""

    key: Key
    pace: StepPacing
    source: RecordedProcess
    device: str | None
    start: Ints
    end: Ints
    table: StepTable
    waits: Seconds
    """Seconds of each step spent waiting for other ranks."""
    items: npt.NDArray[np.float32] | None
    tokens: npt.NDArray[np.float32] | None
    why: str | None
    """Why ``items`` are not known."""
    fetches: float
    """Per step on average, as are ``updates``."""
    updates: float
    warmup: int
    """How many of its first steps are slower than the rest."""
    gap: LargestGap | None = None
    """Where most of its steps' ``other`` lies. Set, as is ``begins``, in processes that lead."""
    begins: Ints | None = None
    """When its epochs began, unix nanoseconds."""
    ends: Ints | None = None
    """When the last step of each epoch ended, or before that an evaluation began in it."""
    _thirds: list[int] = field(default_factory=list)

    @property
    def thirds(self) -> list[int]:
        """When each third of the steps began, and when the last one ended: four times, unix nanoseconds."""
        if not self._thirds:
            begins = self.start[np.arange(3) * (len(self.start) - 1) // 3]
            self._thirds = [*begins.tolist(), int(self.end[-1])]
        return self._thirds

    def __len__(self) -> int:
        return len(self.table.seconds)

    def let_go(self) -> None:
        """Drop the times of the single steps to save memory: of most ranks only :attr:`thirds` are needed."""
        self.thirds  # noqa: B018  computed while the times are there
        self.start = self.end = self.start[:0].copy()

    @property
    def total(self) -> float:
        """Seconds of all steps."""
        return float(self.table.seconds.sum(dtype=np.float64))

    def measured_from(self, warmup: int) -> int:
        """The first step in the statistics after ``warmup`` steps of warm-up; of fewer steps, half are."""
        return warmup if warmup < len(self) else len(self) // 2


@state_class
class Thread:
    """A track of the host with its steps, its evaluations and its loops."""

    source: RecordedProcess
    number: int
    track: Track
    marks: Landmarks
    steps: TrackSteps
    passes: Passes
    """Evaluations, which are no part of the steps around them."""
    predicted: Passes
    """Passes whose batches have latencies: ``passes``, or those whose batches are steps."""
    pieces: Pieces
    traces: list[LoopTrace]


class Recording:
    """The processes of a run and their threads. Each process is analysed once, for all that is made of it."""

    def __init__(self, run: Run) -> None:
        """Raises OSError, NotARunError."""
        self.sources = sources(run)
        self._threads: dict[int, list[Thread]] = {}

    def threads(self, source: RecordedProcess, rows: SpanColumns | None = None) -> list[Thread]:
        """The threads of ``source``; ``rows`` are its spans if these have been read already."""
        if source.index not in self._threads:
            rows = read_rows(source) if rows is None else rows
            self._threads[source.index] = threads_of(source, rows)
        return self._threads[source.index]


def threads_of(source: RecordedProcess, rows: SpanColumns) -> list[Thread]:
    """The tracks of the host in one process, with their steps and loops."""
    tracks = {int(key): track for key, track in split(rows, source.sites, "host").items()}
    devices = _devices_of_one_kind(split(rows, source.sites, "device"))
    marks = {key: Landmarks(track) for key, track in tracks.items()}
    predicted: dict[int, Passes] = {}
    # Whether the run trains at all is known for all of its processes together. If it does not, passes over
    # data have to be found while forwards still count as evaluating, before the landmarks forget that.
    if source.infers:
        for key, landmarks in marks.items():
            landmarks.predicting = landmarks.forward
            predicted[key] = passes_of(landmarks, LoaderIterations(landmarks), no_steps())
            landmarks.without_training()
    elif not any(landmarks.optimizes for landmarks in marks.values()):
        for landmarks in marks.values():
            # Of the whole process, not of each thread: where an optimizer is stepped in one thread, the
            # backward of another is no update by hand.
            landmarks.without_optimizers()
    explicit = {key: explicit_steps(landmarks) for key, landmarks in marks.items()}
    explicit_times = union_of(explicit.values())
    threads = [
        _thread(source, key, marks[key], explicit[key], explicit_times, devices, predicted.get(key))
        for key in tracks
    ]
    # Collectives may run in a thread of their own, so that all threads are needed.
    _set_waits(threads)
    return threads


def _devices_of_one_kind(devices: dict[int | str, Track]) -> list[Track]:
    """The tracks of one kind of device, whose times may be added up and compared with the host's.

    PyTorch's devices come first, then the first in alphabetical order of those whose clocks the program has
    plugged in.
    """
    kinds: dict[str, list[Track]] = {}
    for name, track in devices.items():
        kinds.setdefault(str(name).partition(":")[0], []).append(track)
    return kinds[min(kinds, key=lambda kind: (not is_queued_to(kind), kind))] if kinds else []


def is_queued_to(device: str | None) -> bool:
    """Whether ``device`` works through a queue that PyTorch fills; for other clocks the host waits."""
    return (device or "").partition(":")[0] in KINDS


def _thread(
    source: RecordedProcess,
    number: int,
    marks: Landmarks,
    explicit: TrackSteps,
    explicit_times: ExcludedIntervals,
    devices: list[Track],
    predicted: Passes | None,
) -> Thread:
    """One thread of ``source`` with its steps.

    ``explicit`` are the steps that a voirfile marks on this track, ``explicit_times`` when those of the whole
    process are. ``predicted`` are the passes over data of a run that trains nothing; each batch of them is a
    step.
    """
    track = marks.track
    if predicted is not None:
        steps, passes = steps_of_inference(marks, predicted, explicit), no_passes()
        # A program that failed with its first batch may have been about to train on what a model predicted.
        if source.failed and len(steps) == len(steps.paces):
            steps, predicted = no_steps(), no_passes()
    elif len(explicit_times):
        # Steps marked in another thread count too: this one may only prefetch for them.
        steps, passes = explicit_and_other_steps(marks, explicit, explicit_times)
    else:
        steps, passes = paced_steps(marks, LoaderIterations(marks), no_steps())
    if predicted is None:
        predicted = passes
    excluded = passes.excluded()
    device_names = {site.device for site in source.sites.values() if site.device}
    device = min(device_names, key=lambda name: (not is_queued_to(name), name), default=None)
    # When each piece began and ended is much memory, and of use only beside the device's own times.
    pieces = pieces_of(track, steps, excluded, timed=bool(devices) and is_queued_to(device))
    thread = Thread(source, number, track, marks, steps, passes, predicted, pieces, [])
    if len(steps):
        thread.traces = _traces_of(thread, devices, excluded, device)
    return thread


def _traces_of(
    thread: Thread, devices: list[Track], excluded: ExcludedIntervals, device: str | None
) -> list[LoopTrace]:
    """One trace for each loop of ``thread``; ``device`` is the name of the device that the process used."""
    steps = thread.steps
    keys = loop_keys(thread.marks, steps, thread.source.infers)
    traces = []
    for key in dict.fromkeys(keys):
        numbers = np.flatnonzero(among(steps.pace, [i for i, k in enumerate(keys) if k == key]))
        if not len(numbers):
            continue
        table = _table(thread, numbers, devices, excluded)
        # Of each loop alone: what its loader drew must not be compared with what another loop's model saw.
        shared = thread.source.shares_batches
        items = items_of(thread.marks, _taken(steps, numbers), excluded, shared=shared)
        traces.append(
            LoopTrace(
                key=key,
                pace=steps.paces[int(steps.pace[numbers[0]])],
                source=thread.source,
                device=device,
                start=steps.start[numbers],
                end=steps.end[numbers],
                table=table,
                waits=np.broadcast_to(np.float32(0), len(numbers)),
                items=_compact(items.items),
                tokens=_compact(items.tokens),
                why=items.why,
                fetches=_fetches_per_step(steps.fetches[numbers]),
                updates=float(steps.updates[numbers].mean()),
                warmup=warmup_of(table.seconds),
            )
        )
    return traces


def _compact(column: Ints | None) -> Seconds | None:
    """``column`` as float32, without a copy of each value if all are equal: most loops have equal batches."""
    if column is None or not (column == column[:1]).all():
        return None if column is None else column.astype(np.float32)
    return np.broadcast_to(column[:1].astype(np.float32), len(column))


def _table(
    thread: Thread, numbers: Ints, devices: list[Track], excluded: ExcludedIntervals
) -> StepTable:
    """Seconds per region of the steps with these ``numbers``, those of the device included."""
    steps, pieces = thread.steps, thread.pieces
    if len(numbers) < len(steps):
        pieces = pieces.of_steps(numbers, len(steps))
    selected = _taken(steps, numbers)
    table = table_of(thread.track, selected, excluded, pieces)
    add_devices(table, thread.track, pieces, devices, selected, excluded)
    return table


def _taken(steps: TrackSteps, numbers: Ints) -> TrackSteps:
    """``steps`` with these ``numbers``; nothing is copied if that is all of them."""
    return taken(steps, numbers) if len(numbers) < len(steps) else steps


def _fetches_per_step(fetches: Ints) -> float:
    """The mean of ``fetches``, without a first one that no step is trained with.

    A loader that is one batch ahead has fetched it when its loop is left within an epoch.
    """
    total, usual = int(fetches.sum()), int(median_of(fetches))
    is_ahead = fetches[0] == usual + 1 and total == usual * len(fetches) + 1
    return (total - is_ahead) / len(fetches)


def _set_waits(threads: list[Thread]) -> None:
    """Set how long each step waited for other ranks, as far as its collectives tell.

    A collective that another thread waits for while the step goes on counts too.
    """
    for thread in threads:
        for trace in thread.traces:
            waits = trace.table.region("comm")
            if waits is not None:
                trace.waits = waits
            for other in threads:
                if other is not thread and len(rows := other.track.region("comm")):
                    trace.waits = trace.waits + _waits_in(trace, other.track, rows)


def _waits_in(trace: LoopTrace, track: Track, rows: Ints) -> Seconds:
    """Seconds that ``rows`` of another ``track`` took within each step of ``trace``."""
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
