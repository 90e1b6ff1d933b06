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
from typing import Any, NamedTuple

import numpy as np

from ..store import monitor, spans
from ..store.call_sites import INFERENCE, CallSite
from ..store.folder import Run
from ..value_class import replace
from .arrays import among, median_of
from .attempts import number_attempts
from .bounds import bounds_of, bounds_of_run
from .columns import SECOND, RecordedProcess, SpanColumns, read_rows, sources
from .epochs import epochs_of
from .evidence import Evidence, Memory, device_work, growth_of, host_of, windows_of
from .latencies import first_of as first_batches
from .latencies import latencies
from .layers import layers_of
from .loops import grouped, labels, loop_of, numbered, skipped_steps, warmup_steps
from .machines import HostUsage
from .memory import memory_use
from .outcomes import (
    LastSpan,
    RankProcess,
    RegionCall,
    gone_of,
    outcomes_of,
    ranks_among,
)
from .profile import (
    BOOSTING,
    TRANSFER,
    Model,
    Node,
    Profile,
    RankOutcome,
    Study,
    TimeSegment,
    TrainingLoop,
)
from .recorded import TimedLoss, ValueSeries
from .studies import studies_of
from .timeline import among_attempts, segments_of
from .traces import LoopTrace, Recording, threads_of
from .tracks import LAYERS, split
from .tracksummary import TrackSummary, evaluations_of, others_of, track_summary
from .trials import ProcessStudies, has_studies, studies_in
from .usage import sampled_usage
from .verdict import nothing_trained, qualified, verdict_of, with_losses
from .wording import count, line_of

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
    losses: Sequence[TimedLoss] = (),
    goes_on: bool = False,
    recording: Recording | None = None,
    processes: Sequence[RecordedProcess] | None = None,
) -> Profile | None:
    """What the spans of ``run`` say; None if it recorded none.

    The verdict takes more into account if more is given: growth out of ``memory`` (how much each process
    used, and when), other programs and full cores out of the hosts as they were ``watched``, losses that are
    not finite out of the ``series`` of values. ``losses`` give those of epochs. While the run ``goes_on``,
    the verdict is about steps alone, as fractions of the run are not known. Threads are kept in
    ``recording``, for other readers of the same run. ``processes`` are those of the run if they have been
    read. Raises OSError, and NotARunError for records of a later version.
    """
    if processes is None:
        processes = recording.sources if recording else sources(run)
    all_sources = list(processes)
    with_spans = [source for source in all_sources if source.has_spans()]
    if not with_spans:
        return None
    skip = skipped_steps(run)
    read = partial(_read, recording=recording, studying=has_studies(all_sources), skip=skip)
    reads, loops = _read_loops(with_spans, read)
    summaries = [summary for each in reads.values() for summary in each.summaries]
    unknown = sum(each.unknown for each in reads.values())
    last_spans = {index: each.last for index, each in reads.items() if each.last is not None}
    studied = [source.studies for source in all_sources if source.studies is not None]
    gap_of = {
        id(trace): gap
        for each in summaries
        for trace, gap in zip(each.traces, each.where, strict=True)
    }
    gap_texts = [
        gap.text if (gap := gap_of[id(traces[0])]) and gap.is_most else None for traces in loops
    ]
    training = [loop_of(traces, skip, text) for traces, text in zip(loops, gap_texts, strict=True)]
    # Epochs need the losses and the first rank's own times, which loops over all ranks do not have.
    training = _with_epochs(numbered(training, loops), loops, summaries, losses)
    ranks = ranks_of(
        run.info, all_sources, last_spans, [trace for each in summaries for trace in each.traces]
    )
    times = _times(run, all_sources, max((span.ended for span in last_spans.values()), default=0))
    segments = _segments(_main(summaries, loops), loops, skip, times)
    wall = (times[1] - times[0]) / SECOND
    others = others_of(summaries, wall)
    verdict = nothing_trained(others, wall)
    if training:
        # The verdict is about the longest loop.
        evidence = _evidence(run, loops[0], training[0], skip, memory or {}, watched)
        evidence = replace(evidence, between=gap_of[id(loops[0][0])], others=others)
        if not goes_on:
            bounds = [*evidence.bounds, *bounds_of_run(segments, wall)]
            evidence = replace(evidence, segments=segments, wall=wall, bounds=bounds)
        verdict = verdict_of(evidence)
    return Profile(
        loops=tuple(training),
        evaluations=evaluations_of(summaries),
        segments=segments,
        wall=wall,
        verdict=with_losses(qualified(verdict, run), series if training else ()),
        others=others,
        layers=loops[0][0].source.layers if loops else (),
        memory=loops[0][0].source.memory if loops else (),
        models=_models(all_sources),
        unmeasured=unmeasured_of(run.info, all_sources, summaries, training, unknown),
        outcomes=outcomes_of(run.info, ranks),
        latencies=latencies(first_batches((each.source, each.batches) for each in summaries)),
        studies=_studies_of(run, studied),
    )


def _evidence(
    run: Run,
    traces: list[LoopTrace],
    loop: TrainingLoop,
    skip: int,
    memory: Memory,
    watched: Sequence[HostUsage],
) -> Evidence:
    """What a verdict on ``loop`` rests on, as far as its ``traces`` and the monitors show it."""
    warmup = warmup_steps(traces, skip)
    return Evidence(
        loop=loop,
        windows=windows_of(traces, warmup),
        device=device_work(traces, warmup, watched),
        growth=growth_of(memory, traces),
        command=[str(word) for word in run.info.get("command") or ()],
        host=host_of(watched, traces),
        bounds=bounds_of(traces, warmup, loop.straggler),
    )


def _read_loops(
    with_spans: Sequence[RecordedProcess], read: Callable[..., _ReadProcess]
) -> tuple[dict[int, _ReadProcess], list[list[LoopTrace]]]:
    """What each process shows, by its index, and the loops of all processes."""
    leading = _leading(with_spans)
    reads = _read_all(with_spans, read, leading)
    loops = _loops(reads)
    # If a loop's first rank is none of these (the lowest rank of all makes no such steps), it is read once
    # more: its steps' times have been dropped.
    while missed := {traces[0].source.index for traces in loops} - leading:
        reads |= _read_all(
            [source for source in with_spans if source.index in missed], read, missed
        )
        leading |= missed
        loops = _loops(reads)
    return reads, loops


def _models(all_sources: Sequence[RecordedProcess]) -> tuple[Model, ...]:
    """The models that were trained, each once for all ranks."""
    models = dict.fromkeys(model for source in all_sources for model in source.models)
    return tuple(models)[:MODELS]


def _studies_of(run: Run, recorded: list[ProcessStudies]) -> tuple[Study, ...]:
    """The hyper-parameter studies of ``run``, with what their phases used."""
    if not recorded:
        return ()
    return studies_of(recorded, sampled_usage(monitor.read(run.content)), run.info)


def _with_epochs(
    training: list[TrainingLoop],
    loops: list[list[LoopTrace]],
    summaries: list[TrackSummary],
    losses: Sequence[TimedLoss],
) -> list[TrainingLoop]:
    """``training``, each loop with its epochs; ``loops`` are their traces, the first rank's first."""
    begins_and_end = {
        id(trace): (begins, each.span[1])
        for each in summaries
        for trace, begins in zip(each.traces, each.begins, strict=True)
    }
    return [
        replace(
            loop,
            epochs=epochs_of(
                begins_and_end[id(first)][0], [first, *rest], begins_and_end[id(first)][1], losses
            ),
        )
        for loop, (first, *rest) in zip(training, loops, strict=True)
    ]


def outcomes_without_spans(run: Run) -> tuple[RankOutcome, ...]:
    """What became of the ranks of a ``run`` without spans. Raises OSError, NotARunError."""
    return outcomes_of(run.info, ranks_of(run.info, sources(run), {}, []))


class _ReadProcess(NamedTuple):
    """What the spans of one process show."""

    summaries: list[TrackSummary]
    unknown: int
    """Rows whose call site was not recorded."""
    last: LastSpan | None


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


def _loops(reads: Mapping[int, _ReadProcess]) -> list[list[LoopTrace]]:
    """The loops of all processes that have been read, the longest first."""
    summaries = (summary for each in reads.values() for summary in each.summaries)
    return grouped([trace for each in summaries for trace in each.traces])


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
    last = _last_span(source, rows)
    threads = recording.threads(source, rows) if recording else threads_of(source, rows)
    # Layers and memory are those of the longest loop of the process.
    longest = max(
        (trace for thread in threads for trace in thread.traces),
        key=lambda trace: trace.total,
        default=None,
    )
    if longest is not None and any(site.region in LAYERS for site in source.sites.values()):
        devices = list(split(rows, source.sites, "device").values())
        source.layers = layers_of(threads, devices, longest, longest.warmup)
    if longest is not None and source.memory_sites:
        source.memory = memory_use(source, read_rows(source, memory=True), longest, longest.warmup)
    if studying:
        source.studies = studies_in(source, threads)
    trains_nowhere = not any(thread.traces for thread in threads)
    summaries = [
        track_summary(thread, trains_nowhere or bool(thread.traces), skip, leads)
        for thread in threads
    ]
    # The times of single steps are most of a trace, and nothing needs them of other ranks.
    if not leads and recording is None:
        for thread in threads:
            for trace in thread.traces:
                trace.let_go()
    return _ReadProcess(summaries, rows.unknown, last)


def _last_span(source: RecordedProcess, rows: SpanColumns) -> LastSpan | None:
    """The span that ended last.

    A wait is only taken if there is nothing else: it is rather the effect of a hang.
    """
    waits = [number for number, site in source.sites.items() if site.region == "wait"]
    end = rows.end
    if waits:
        is_work = ~among(rows.site, waits)
        end = np.where(is_work, end, np.iinfo(np.int64).min) if is_work.any() else end[:0]
    if not len(end):
        return None
    last = int(end.argmax())
    call = _call(source.sites[int(rows.site[last])])
    return LastSpan(int(rows.start[last]), int(rows.end[last]), call)


def _call(site: CallSite) -> RegionCall:
    return RegionCall(site.region, site.label, site.place)


def ranks_of(
    info: Mapping[str, Any],
    sources: Sequence[RecordedProcess],
    ends: Mapping[int, LastSpan],
    traces: Sequence[LoopTrace],
) -> list[RankProcess]:
    """The ranks of a run in the order in which they began; none for a run that was not collected.

    ``ends`` has the last span of each process by its index, ``traces`` the loops of all processes.
    """
    facts = info.get("processes")
    if not isinstance(facts, list) or len(facts) != len(sources):
        return []
    replaced = _replaced(sources)
    candidates = [
        RankProcess(
            rank=source.rank,
            process=index,
            host=source.host,
            pid=source.pid,
            ppid=fact.get("ppid"),
            attempt=source.attempt,
            began=source.began,
            own_end=source.ended,
            gone=gone_of(fact),
            code=_code(fact.get("exit")),
            error=str(fact.get("error") or ""),
            in_order=source.ended is not None or index in replaced,
            last=ends.get(index),
        )
        for index, (source, fact) in enumerate(zip(sources, facts, strict=True))
    ]
    ranks = [
        candidates[index]
        for index in ranks_among(candidates, [index in ends for index in range(len(facts))])
    ]
    by_process: dict[int, list[LoopTrace]] = {}
    for trace in traces:
        by_process.setdefault(trace.source.index, []).append(trace)
    for rank in ranks:
        source = sources[rank.process]
        # What it was in when it ended is only kept by a process that recorded spans.
        if rank.last is not None:
            opened = (source.sites.get(number) for number in spans.opened(source.spans_path))
            rank.opened = tuple(_call(site) for site in opened if site is not None)
        if own_traces := by_process.get(source.index):
            last_loop = max(own_traces, key=lambda trace: trace.thirds[-1])
            rank.steps, rank.usual = len(last_loop), median_of(last_loop.table.seconds)
    number_attempts(ranks)
    return ranks


def _replaced(sources: Sequence[RecordedProcess]) -> set[int]:
    """Processes whose number was recorded again without an end in between: they became another program."""
    latest: dict[tuple[str, int | None], int] = {}
    replaced = set()
    for index, source in enumerate(sources):
        earlier = latest.get((source.host, source.pid))
        if earlier is not None and sources[earlier].ended is None:
            replaced.add(earlier)
        latest[source.host, source.pid] = index
    return replaced


def _code(exit: object) -> int | None:
    """The exit code out of run.json; minus the signal's number if one ended the process."""
    if not isinstance(exit, dict):
        return None
    signal, code = exit.get("signal"), exit.get("code")
    return -signal if isinstance(signal, int) else code if isinstance(code, int) else None


def _times(run: Run, processes: list[RecordedProcess], last: int) -> tuple[int, int]:
    """When the run began and ended, in unix nanoseconds, as far as is known.

    ``last`` is the end of its last span.
    """
    starts = [source.began for source in processes if source.began]
    ended = max([last, *(source.ended or 0 for source in processes)])
    started, stopped = run.info.get("started"), run.info.get("ended")
    if isinstance(started, (int, float)):
        starts.append(round(started * SECOND))
    began = min(starts, default=ended)
    if isinstance(stopped, (int, float)):
        ended = max(ended, round(stopped * SECOND))
    return began, ended


def _main(summaries: list[TrackSummary], loops: list[list[LoopTrace]]) -> TrackSummary | None:
    """The track whose time is divided into segments: that of the first rank of the longest loop."""
    if loops:
        trace = loops[0][0]
        return next(each for each in summaries if any(u is trace for u in each.traces))
    # Nothing is trained: the first rank that evaluates.
    evaluating = [each for each in summaries if len(each.passes)]
    return min(evaluating, key=lambda f: (f.source.rank or 0, f.source.index), default=None)


def _segments(
    main: TrackSummary | None, loops: list[list[LoopTrace]], skip: int, times: tuple[int, int]
) -> tuple[TimeSegment, ...]:
    """The time segments of the run; ``times`` are its begin and end."""
    if main is None:
        nothing = "no steps and no evaluation were recorded"
        return (TimeSegment("the program", (times[1] - times[0]) / SECOND, nothing),)
    # The first rank's share of each loop's warm-up, which is the longest of any rank.
    warmups = [
        trace.measured_from(warmup_steps(traces, skip))
        for trace in main.traces
        for traces in loops
        if any(u is trace for u in traces)
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


def unmeasured_of(
    info: dict[str, Any],
    sources: list[RecordedProcess],
    summaries: list[TrackSummary],
    loops: list[TrainingLoop],
    unknown: int,
) -> tuple[str, ...]:
    """What was not, or not well, measured, as sentences  that a reader needs before trusting numbers."""
    unmeasured = [
        *_unmeasured_devices(summaries, loops),
        *_without_items(loops),
        *_divided_losses(loops),
    ]
    unmeasured += _missing_ranks(sources, summaries, loops)
    unmeasured += _not_stopped(info, loops)
    unmeasured += _missed_selectors(info)
    # An observer's effect: the numbers are true of the run, which was slower.
    if any(source.layers for source in sources):
        unmeasured.append(
            "the program's own pace: --layers times each call of a layer, and steps are longer for it"
        )
    lost = sum(source.lost for source in sources)
    if lost:
        were = "was" if lost == 1 else "were"
        unmeasured.append(f"{count(lost, 'record')} {were} lost: steps may be missing, or too long")
    if unknown:
        unmeasured.append(f"{unknown} spans were left out: their call site was not recorded")
    return tuple(dict.fromkeys(unmeasured))


def _unmeasured_devices(summaries: list[TrackSummary], loops: list[TrainingLoop]) -> list[str]:
    """Device time, and copies to devices, that were not recorded."""
    if not loops:
        return []
    sites = [
        site
        for source in {id(each.source): each.source for each in summaries}.values()
        for site in source.sites.values()
    ]
    unmeasured = []
    if not any(site.clock == "device" for site in sites):
        unmeasured.append("device time: no device clock was recorded; all times are the host's")
    # Copies that no probe sees are hidden in other regions: only worth saying if a device was used.
    used = any(site.device not in (None, "cpu") for site in sites)
    if used and not any(site.region == TRANSFER for site in sites):
        unmeasured.append(
            "transfers to devices: none were recorded; transfers made by libraries, `copy_` and tensors made "
            "on the device are part of the region around them, unless a voirfile records h2d"
        )
    return unmeasured


def _without_items(loops: list[TrainingLoop]) -> list[str]:
    """Loops whose items are not known, with the reason."""
    return [
        f"items per second: {loop.throughput.why_no_items}; rates are steps per second"
        for loop in loops
        if loop.throughput.items is None and loop.throughput.why_no_items
    ]


def _not_stopped(info: Mapping[str, Any], loops: Sequence[TrainingLoop]) -> list[str]:
    """Why a loop went on after ``--stop``.

    It is an inference, which might have been an evaluation before a training, or a training whose steps are
    found only afterwards, as it has no optimizer.
    """
    limits = info.get("limits") or {}
    stop = limits.get("stop")
    if not loops or info.get("stopped"):
        return []
    if not isinstance(stop, (int, float)) or loops[0].steps <= stop + (limits.get("skip") or 0):
        return []
    if loops[0].task != INFERENCE:
        # Weights that are moved by hand: the steps are known by their backward, once the run is over.
        by_hand = _has(loops[0].tree, "backward") and not _has(loops[0].tree, "optimizer")
        return [
            f"--stop {stop:.0f} did not end the training: it makes no updates of an optimizer, which is what "
            "steps are counted by; ov.step of a voirfile counts what it names"
        ] * by_hand
    if limits.get("phase"):
        return []
    return [
        f"--stop {stop:.0f} did not end the inference: the program's files name what trains, or are those of "
        "a package, and a training might have followed; --phase inference ends it"
    ]


def _divided_losses(loops: list[TrainingLoop]) -> list[str]:
    """Loops whose recorded loss may be a part: what gradients of several batches are accumulated from."""
    unmeasured = []
    for loop in loops:
        calls = max(
            (child.calls for child in loop.tree.children if child.name == "backward"), default=0
        )
        if calls >= 1.5 * max(loop.updates_per_step, 1):
            where = f" at {line_of(loop.place)}" if loop.place else ""
            unmeasured.append(
                f"the loss of a step{where}: it calls backward {calls:.3g} times; if the program "
                "divides its loss by that number, the divided loss is shown"
            )
    return unmeasured


def _missing_ranks(
    sources: list[RecordedProcess], summaries: list[TrackSummary], loops: list[TrainingLoop]
) -> list[str]:
    """Ranks that recorded nothing, or made no steps, and collectives that were not recorded."""
    known = {source.rank for source in sources if source.rank is not None}
    world = max((source.world or 0 for source in sources), default=0)
    unmeasured = []
    if absent := sorted(set(range(world)) - known):
        unmeasured.append(f"{_some('rank', absent)} of {world} recorded nothing")
    if not loops:
        return unmeasured
    stepping = {each.rank for loop in loops for each in loop.ranks}
    if idle := sorted(known - stepping):
        unmeasured.append(f"{_some('rank', idle)} made no steps")
    for loop in loops[:1]:
        unmeasured += _uneven(loop)
        if len({rank.rank for rank in loop.ranks} - {None}) > 1 and not _has(loop.tree, "comm"):
            # Gradients are exchanged within backward, or a library exchanges histograms within a round.
            inside = next(
                (name for name in ("backward", *BOOSTING) if _has(loop.tree, name)), "a step"
            )
            unmeasured.append(
                "collectives: none were recorded; where ranks wait for each other, it is part of "
                f"{inside}"
            )
    return unmeasured


def _uneven(loop: TrainingLoop) -> list[str]:
    """Ranks that were started several times, or made different numbers of steps."""
    by_rank: dict[int, list[int]] = {}
    for each in loop.ranks:
        if each.rank is not None:
            by_rank.setdefault(each.rank, []).append(each.steps)
    unmeasured = [
        f"rank {rank} was started {len(steps)} times: its processes are shown one by one"
        for rank, steps in by_rank.items()
        if len(steps) > 1
    ]
    # A restarted rank made its steps in several processes: their numbers are no comparison.
    single = {rank: steps[0] for rank, steps in by_rank.items() if len(steps) == 1}
    if len(set(single.values())) > 1:
        few = min(single, key=lambda rank: single[rank])
        most = max(single.values())
        unmeasured.append(
            f"ranks made different numbers of steps (rank {few}: {single[few]}, others up to "
            f"{most}); they are compared over the steps that all ranks made"
        )
    return unmeasured


def _has(node: Node, name: str) -> bool:
    """Whether ``node``, or any region inside it, has this ``name``."""
    return node.name == name or any(_has(child, name) for child in node.children)


def _some(what: str, numbers: list[int]) -> str:
    """``ranks 1, 2, 3``; at most eight numbers are shown."""
    shown = ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")
    return f"{what}{'s' if len(numbers) > 1 else ''} {shown}"


def _missed_selectors(info: dict[str, Any]) -> list[str]:
    """What shipped voirfiles looked for and did not find, by the warnings of run.json."""
    warnings = info.get("warnings")
    return [
        " ".join(str(each.get("text")).split())
        for each in (warnings if isinstance(warnings, list) else [])
        if isinstance(each, dict) and each.get("kind") == "auto-missed"
    ]
