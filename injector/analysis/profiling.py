"""From a run folder to its :class:`.profile.Profile`: loops, their steps and regions, and a verdict.

The spans of all processes do not fit into memory together. So each process is read alone, and reduced to what
is kept of it (:class:`.tracksummary.TrackSummary`, with a :class:`.traces.LoopTrace` per loop), before the
next::

    process 0 spans -> threads -> summaries --.
    process 1 spans -> threads -> summaries ---+--> loops over ranks -> evidence -> verdict
    process 2 spans -> threads -> summaries --'         `-> time segments, outcomes, what is unmeasured

Some things are needed of the first rank of each loop alone (epochs, where ``other`` lies). Which rank that is
is known only in the end: the likely processes are read with them, and others once more if need be.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ..store import monitor, spans
from ..store.folder import Run
from ..value_class import replace
from .bounds import bounds_of, bounds_of_run
from .columns import SECOND, RecordedProcess, read_rows, sources
from .epochs import epochs_of
from .event_samples import TimedLoss
from .evidence import Evidence, Memory, device_work, growth_of, host_of, windows_of
from .latencies import first_of as first_batches
from .latencies import latencies
from .layers import layers_of
from .loops import grouped, labels, loop_of, numbered, skipped_steps, warmup_steps
from .machines import HostUsage
from .memory import memory_use
from .outcomes import LastSpan, outcomes_of
from .profile import Model, Profile, TimeSegment
from .recorded import ValueSeries
from .recorded_ranks import last_span, ranks_of
from .statistics import number
from .studies import studies_of
from .study import Study
from .timeline import among_attempts, segments_of
from .traces import LoopTrace, Recording, threads_of
from .tracks import LAYERS, split
from .tracksummary import TrackSummary, evaluations_of, others_of, track_summary
from .training_loop import TrainingLoop
from .trials import has_studies, studies_in
from .unmeasured import unmeasured_of
from .usage import sampled_usage
from .verdict import nothing_trained, qualified, verdict_of, with_losses

MODELS = 12
"""The most models that are kept: a study makes one for each trial."""
_AT_ONCE = 2
"""Processes that are analysed at once: NumPy works on columns without the interpreter's lock."""
_LEAST_ROWS = 1 << 17
"""If the largest process has fewer rows, one is analysed after the other: NumPy is done with short columns so
soon that threads would wait for the interpreter's lock longer than they gain.
"""
_MOST_ROWS = 1 << 22
"""If the largest process has more rows, it is in memory alone: columns take 150 bytes a row."""
_FEW_ROWS = 1 << 20
"""With fewer rows in all, one process after the other takes about a second, and no threads are needed."""
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""Parameters of glibc's ``mallopt``, by their numbers in ``malloc.h``."""


def profile(
    run: Run,
    memory: Memory | None = None,
    watched: Sequence[HostUsage] = (),
    series: Sequence[ValueSeries] = (),
    losses: Sequence[TimedLoss] | None = None,
    goes_on: bool = False,
    recording: Recording | None = None,
    processes: Sequence[RecordedProcess] | None = None,
) -> Profile | None:
    """What the spans of ``run`` say; None if it recorded none.

    The verdict takes more into account if more is given: growth out of ``memory`` (how much each process
    used, and when), other programs and full cores out of the hosts as they were ``watched``, losses that are
    not finite out of the ``series`` of values. ``losses`` give those of epochs; None if they were not read.
    While the run ``goes_on``, the verdict is about steps alone, as fractions of it are not known. Threads are
    kept in ``recording``, for other readers of the same run. ``processes`` are those of the run if they have
    been read. Raises OSError, and NotARunError for records of a later version.
    """
    if processes is None:
        processes = recording.sources if recording else sources(run)
    with_spans = [source for source in processes if source.has_spans()]
    if not with_spans:
        return None
    skip = skipped_steps(run)
    read = partial(_read, recording=recording, studying=has_studies(processes), skip=skip)
    reads = _read_loops(with_spans, read)
    loops, training = reads.loops, _training(reads, skip, losses or ())
    segments, wall = _wall_time(run, processes, reads, skip)
    others = others_of(reads.tracks, wall)
    if training:
        # The verdict is about the longest loop, and while the run goes on about its steps alone.
        evidence = _evidence(run, reads, training[0], skip, wall, memory or {}, watched)
        if not goes_on:
            bounds = [*evidence.bounds, *bounds_of_run(segments, wall)]
            evidence = replace(evidence, segments=segments, wall=wall, bounds=bounds)
        verdict = verdict_of(evidence)
    else:
        verdict = nothing_trained(others, wall)
    # Of a loss that nothing shows, as of a pipeline's stages, there is nothing to know.
    of_losses = training if losses is None or losses else ()
    ranks = ranks_of(run.info, processes, reads.last_spans, reads.traces)
    return Profile(
        loops=tuple(training),
        evaluations=evaluations_of(reads.tracks),
        segments=segments,
        wall=wall,
        verdict=with_losses(qualified(verdict, run), series if training else ()),
        others=others,
        layers=loops[0][0].source.layers if loops else (),
        memory=loops[0][0].source.memory if loops else (),
        models=_models(processes, reads.tracks),
        unmeasured=unmeasured_of(
            run.info, processes, with_spans, training, of_losses, reads.unknown
        ),
        outcomes=outcomes_of(run.info, ranks),
        latencies=latencies(first_batches((each.source, each.batches) for each in reads.tracks)),
        studies=_studies_of(run, processes),
    )


def _training(reads: _Reads, skip: int, losses: Sequence[TimedLoss]) -> list[TrainingLoop]:
    """The loops over all of their ranks, each with its epochs."""
    training = numbered([loop_of(traces, skip) for traces in reads.loops], reads.loops)
    # Epochs need the first rank's own times, which loops over all ranks do not have.
    return [
        replace(loop, epochs=epochs_of(traces, reads.track_of(traces[0]).span[1], losses))
        for loop, traces in zip(training, reads.loops, strict=True)
    ]


def _evidence(
    run: Run,
    reads: _Reads,
    loop: TrainingLoop,
    skip: int,
    wall: float,
    memory: Memory,
    watched: Sequence[HostUsage],
) -> Evidence:
    """What a verdict on ``loop``, the longest, rests on, as far as spans and the monitors show it."""
    traces = reads.loops[0]
    warmup = warmup_steps(traces, skip)
    indexes = frozenset(trace.source.index for trace in reads.traces)
    return Evidence(
        loop=loop,
        windows=windows_of(traces, warmup),
        device=device_work(traces, warmup, watched),
        between=traces[0].gap,
        growth=growth_of(memory, traces),
        command=[str(word) for word in run.info.get("command") or ()],
        host=host_of(watched, traces),
        bounds=bounds_of(traces, warmup, loop.straggler),
        profiled=_profiled(run, loop),
        shares_batches=traces[0].source.shares_batches,
        others=others_of(reads.tracks, wall, indexes),
    )


def _profiled(run: Run, loop: TrainingLoop) -> int:
    """How many steps of each rank of ``loop`` ``--torch-profile`` recorded, at most."""
    profiled = run.info.get("profiled") or {}
    first, until = (number(profiled.get(key)) or 0 for key in ("first", "until"))
    return max(0, int(min(until, loop.steps) - first))


def _models(
    processes: Sequence[RecordedProcess], tracks: Sequence[TrackSummary]
) -> tuple[Model, ...]:
    """The models that were trained, each once for all ranks.

    Parts of them may have been called by themselves: when the model was made, or once more in its backward.
    """
    trained = frozenset[str]().union(*(each.trained for each in tracks))
    sites = (site for source in processes for site in source.sites.values())
    called = {site.label for site in sites if site.region == "forward"} if trained else set()
    parts = called - trained
    models = dict.fromkeys(model for source in processes for model in source.models)
    return tuple(model for model in models if model.name not in parts)[:MODELS]


def _studies_of(run: Run, processes: Sequence[RecordedProcess]) -> tuple[Study, ...]:
    """The hyper-parameter studies of ``run``, with what their phases used."""
    recorded = [source.studies for source in processes if source.studies is not None]
    if not recorded:
        return ()
    return studies_of(recorded, sampled_usage(monitor.read(run.content)), run.info)


# --- reading the processes ------------------------------------------------------------------------


class _ReadProcess(NamedTuple):
    """What the spans of one process show."""

    tracks: list[TrackSummary]
    unknown: int
    """Rows whose call site was not recorded."""
    last: LastSpan | None


class _Reads:
    """What the spans of all processes show, by the index of each."""

    def __init__(self, by_process: Mapping[int, _ReadProcess]) -> None:
        self.tracks = [track for each in by_process.values() for track in each.tracks]
        self.traces = [trace for track in self.tracks for trace in track.traces]
        self.loops = grouped(self.traces)
        """The traces of each loop, the first rank's first; the longest loop first."""
        self.unknown = sum(each.unknown for each in by_process.values())
        lasts = {index: each.last for index, each in by_process.items()}
        self.last_spans = {index: last for index, last in lasts.items() if last is not None}
        """The span that ended last of each process."""
        self._track_of = {id(trace): track for track in self.tracks for trace in track.traces}

    def track_of(self, trace: LoopTrace) -> TrackSummary:
        """The track that ``trace`` is of."""
        return self._track_of[id(trace)]


def _read_loops(with_spans: Sequence[RecordedProcess], read: Callable[..., _ReadProcess]) -> _Reads:
    """What the processes ``with_spans`` show; of first ranks of loops also what only these have to show."""
    leading = _leading(with_spans)
    by_process = _read_all(with_spans, read, leading)
    reads = _Reads(by_process)
    # If a loop's first rank is none of these (the lowest rank of all makes no such steps), it is read once
    # more: its steps' times have been dropped.
    while missed := {traces[0].source.index for traces in reads.loops} - leading:
        unread = [source for source in with_spans if source.index in missed]
        by_process |= _read_all(unread, read, missed)
        leading |= missed
        reads = _Reads(by_process)
    return reads


def _leading(processes: Sequence[RecordedProcess]) -> set[int]:
    """The indices of processes that are likely to be the first rank of a loop: the lowest of each attempt."""
    lowest: dict[int | None, int] = {}
    for source in processes:
        if source.is_rank and source.rank is not None:
            lowest[source.attempt] = min(source.rank, lowest.get(source.attempt, source.rank))
    # Processes of no job may each have a loop of their own.
    return {
        source.index
        for source in processes
        if not source.is_rank or source.rank == lowest[source.attempt]
    }


def _read_all(
    processes: Sequence[RecordedProcess], read: Callable[..., _ReadProcess], leading: set[int]
) -> dict[int, _ReadProcess]:
    """What each process shows, by its index; of ``leading`` ones also what only first ranks have to show."""
    largest = max(spans.count(source.spans_path) for source in processes)
    leads = [source.index in leading for source in processes]
    indices = [source.index for source in processes]
    is_short = largest * len(processes) < _FEW_ROWS
    if not is_short:
        _keep_freed_memory()
    # Two processes of more rows do not fit into memory.
    if is_short or len(processes) == 1 or not _LEAST_ROWS <= largest <= _MOST_ROWS:
        return dict(zip(indices, map(read, processes, leads), strict=True))
    # Imported here: that takes a tenth of a short report's time.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(indices, pool.map(read, processes, leads), strict=True))


def _keep_freed_memory() -> None:
    """Have the C library keep freed memory for the next columns, instead of returning it to the system.

    Hundreds of large columns are made and dropped. Memory fresh from the system has to be cleared for each: a
    quarter of the time. This is ``mallopt`` of glibc; elsewhere nothing changes. In threads beside the main
    one it holds for columns below 64 MiB, the size of the heaps that glibc gives them.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def _read(
    source: RecordedProcess, leads: bool, recording: Recording | None, studying: bool, skip: int
) -> _ReadProcess:
    """Read and analyse one process.

    ``leads`` if it may be the first rank of a loop, ``studying`` if the run has hyper-parameter studies.
    """
    rows = read_rows(source)
    last = last_span(source, rows)
    threads = recording.threads(source, rows) if recording else threads_of(source, rows)
    # Layers and memory are those of the longest loop of the process.
    longest = max(
        (trace for thread in threads for trace in thread.traces),
        key=lambda trace: trace.total,
        default=None,
    )
    warmup = warmup_steps([longest], skip) if longest is not None else 0
    if longest is not None and any(site.region in LAYERS for site in source.sites.values()):
        devices = list(split(rows, source.sites, "device").values())
        source.layers = layers_of(threads, devices, longest, warmup)
    if longest is not None and source.memory_sites:
        source.memory = memory_use(source, read_rows(source, memory=True), longest, warmup)
    if studying:
        source.studies = studies_in(source, threads)
    trains_nowhere = not any(thread.traces for thread in threads)
    tracks = [
        track_summary(thread, trains_nowhere or bool(thread.traces), skip, leads)
        for thread in threads
    ]
    # The times of single steps are most of a trace, and nothing needs them of other ranks.
    if not leads and recording is None:
        for thread in threads:
            for trace in thread.traces:
                trace.let_go()
    return _ReadProcess(tracks, rows.unknown, last)


# --- the wall time --------------------------------------------------------------------------------


def _wall_time(
    run: Run, processes: Sequence[RecordedProcess], reads: _Reads, skip: int
) -> tuple[tuple[TimeSegment, ...], float]:
    """The time segments of the run, and its seconds."""
    last = max((span.ended for span in reads.last_spans.values()), default=0)
    times = _times(run, processes, last)
    return _segments(reads, skip, times), (times[1] - times[0]) / SECOND


def _times(run: Run, processes: Sequence[RecordedProcess], last: int) -> tuple[int, int]:
    """When the run began and ended, in unix nanoseconds, as far as is known.

    ``last`` is the end of its last span.
    """
    starts = [source.began for source in processes if source.began]
    ended = max([last, *(source.ended or 0 for source in processes)])
    started, stopped = run.info.get("started"), run.info.get("ended")
    if started is not None:
        starts.append(round(started * SECOND))
    began = min(starts, default=ended)
    if stopped is not None:
        ended = max(ended, round(stopped * SECOND))
    return began, ended


def _main_track(reads: _Reads) -> TrackSummary | None:
    """The track whose time is divided into segments: that of the first rank of the longest loop."""
    if reads.loops:
        return reads.track_of(reads.loops[0][0])
    # Nothing is trained: the first rank that evaluates.
    evaluating = [track for track in reads.tracks if len(track.passes)]
    return min(evaluating, key=lambda t: (t.source.rank or 0, t.source.index), default=None)


def _segments(reads: _Reads, skip: int, times: tuple[int, int]) -> tuple[TimeSegment, ...]:
    """The time segments of the run; ``times`` are its begin and end."""
    main, loops = _main_track(reads), reads.loops
    if main is None:
        nothing = "no steps and no evaluation were recorded"
        return (TimeSegment("the program", (times[1] - times[0]) / SECOND, nothing),)
    # The first rank's share of each loop's warm-up, which is the longest of any rank.
    warmups = [
        trace.measured_from(warmup_steps(traces, skip))
        for trace in main.traces
        for traces in loops
        if any(each is trace for each in traces)
    ]
    segments = segments_of(main.traces, main.passes, main.between, main.span, times, warmups)
    # Before and after its own time, other attempts or processes of the run were at work.
    attempts = {trace.source.attempt or 0 for traces in loops for trace in traces}
    if len(attempts) > 1:
        others_later = max(attempts) > (main.source.attempt or 0)
    elif len(set(labels(loops))) > 1:
        others_later = any(trace.thirds[-1] > main.span[1] for traces in loops for trace in traces)
    else:
        return segments
    return among_attempts(segments, main.source, main.span[1], times, others_later)
