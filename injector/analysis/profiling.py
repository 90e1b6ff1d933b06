"""From a run folder to its :class:`.profile.Profile`: steps, their parts, and a verdict."""

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
"""Models that are kept: a study makes one for each trial."""
_AT_ONCE = 2
"""Processes whose spans are in memory together: columns are worked on without the interpreter's lock."""
_MOST_ROWS = 1 << 22
"""Rows of the largest process from which on it is in memory alone: its columns take 150 bytes a row."""
_FEW_ROWS = 1 << 20
"""Rows of all processes up to which one after the other is read: a second."""
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
    """What the spans of ``run`` say; None where it recorded none.

    ``memory`` is how much each process used, when; without it the verdict knows nothing of growth, without
    the hosts as they were ``watched`` nothing of other programs and full cores, without the ``series`` of its
    values nothing of losses that are not finite, and without its ``losses`` nothing of those of epochs. While
    the run ``goes_on``, the verdict is about steps alone: what part of the run anything takes is not known.
    What is found in its spans is kept in ``recording``; ``processes`` are those of the run, where they have
    been read. Raises OSError, and NotARunError for records of a later version.
    """
    if processes is None:
        processes = recording.sources if recording else sources(run)
    found = list(processes)
    having = [source for source in found if source.has_spans()]
    if not having:
        return None
    skip = skipped_steps(run)
    read = partial(_read, recording=recording, studying=has_studies(found), skip=skip)
    reads, loops = _read_loops(having, read)
    summaries = [summary for each in reads.values() for summary in each.summaries]
    unknown = sum(each.unknown for each in reads.values())
    ends = {index: each.last for index, each in reads.items() if each.last is not None}
    studied = [source.studies for source in found if source.studies is not None]
    where = {id(u): at for each in summaries for u, at in zip(each.traces, each.where, strict=True)}
    texts = [at.text if (at := where[id(traces[0])]) and at.is_most else None for traces in loops]
    training = [loop_of(traces, skip, text) for traces, text in zip(loops, texts, strict=True)]
    training = _with_epochs(numbered(training, loops), loops, summaries, losses)
    ranks = ranks_of(run.info, found, ends, [u for each in summaries for u in each.traces])
    times = _times(run, found, max((end.ended for end in ends.values()), default=0))
    segments = _segments(_main(summaries, loops), loops, skip, times)
    wall = (times[1] - times[0]) / SECOND
    others = others_of(summaries, wall)
    verdict = nothing_trained(others, wall)
    if training:
        traces, warmup = loops[0], warmup_steps(loops[0], skip)
        bounds = [] if goes_on else bounds_of_run(segments, wall)
        verdict = verdict_of(
            Evidence(
                loop=training[0],
                windows=windows_of(traces, warmup),
                device=device_work(traces, warmup, watched),
                between=where[id(traces[0])],
                growth=growth_of(memory or {}, traces),
                segments=() if goes_on else segments,
                wall=0.0 if goes_on else wall,
                command=[str(word) for word in run.info.get("command") or ()],
                others=others,
                host=host_of(watched, traces),
                bounds=[*bounds_of(traces, warmup, training[0].straggler), *bounds],
            )
        )
    return Profile(
        loops=tuple(training),
        evaluations=evaluations_of(summaries),
        segments=segments,
        wall=wall,
        verdict=with_losses(qualified(verdict, run), series if training else ()),
        others=others,
        layers=loops[0][0].source.layers if loops else (),
        memory=loops[0][0].source.memory if loops else (),
        models=tuple(dict.fromkeys(model for source in found for model in source.models))[:MODELS],
        unmeasured=unmeasured_of(run.info, found, summaries, training, unknown),
        outcomes=outcomes_of(run.info, ranks),
        latencies=latencies(first_batches((each.source, each.batches) for each in summaries)),
        studies=_studies(run, studied),
    )


def _read_loops(
    having: Sequence[RecordedProcess], read: Callable[..., _ReadProcess]
) -> tuple[dict[int, _ReadProcess], list[list[LoopTrace]]]:
    """What each process shows, by its index, and the loops of all."""
    leading = _leading(having)
    reads = _read_all(having, read, leading)
    loops = _loops(reads)
    # Where a loop's first rank is none of those (the lowest rank of all makes no such steps), once more.
    while missed := {traces[0].source.index for traces in loops} - leading:
        reads |= _read_all([each for each in having if each.index in missed], read, missed)
        leading |= missed
        loops = _loops(reads)
    return reads, loops


def _studies(run: Run, found: list[ProcessStudies]) -> tuple[Study, ...]:
    if not found:
        return ()
    return studies_of(found, sampled_usage(monitor.read(run.content)), run.info)


def _with_epochs(
    training: list[TrainingLoop],
    loops: list[list[LoopTrace]],
    summaries: list[TrackSummary],
    losses: Sequence[TimedLoss],
) -> list[TrainingLoop]:
    known = {
        id(trace): (begins, each.span[1])
        for each in summaries
        for trace, begins in zip(each.traces, each.begins, strict=True)
    }
    return [
        replace(
            loop, epochs=epochs_of(known[id(first)][0], [first, *rest], known[id(first)][1], losses)
        )
        for loop, (first, *rest) in zip(training, loops, strict=True)
    ]


def outcomes_without_spans(run: Run) -> tuple[RankOutcome, ...]:
    """What became of the ranks of a ``run`` that recorded no spans. Raises OSError, NotARunError."""
    return outcomes_of(run.info, ranks_of(run.info, sources(run), {}, []))


class _ReadProcess(NamedTuple):
    """What the spans of one process show."""

    summaries: list[TrackSummary]
    unknown: int
    """Rows that nothing explains."""
    last: LastSpan | None


def _leading(found: Sequence[RecordedProcess]) -> set[int]:
    """The processes, by index, that the first rank of a loop is likely to be one of."""
    lowest: dict[int | None, int] = {}
    for each in found:
        if each.is_rank and each.rank is not None:
            lowest[each.attempt] = min(each.rank, lowest.get(each.attempt, each.rank))
    return {e.index for e in found if not e.is_rank or e.rank == lowest[e.attempt]}


def _loops(reads: Mapping[int, _ReadProcess]) -> list[list[LoopTrace]]:
    summaries = (summary for each in reads.values() for summary in each.summaries)
    return grouped([trace for each in summaries for trace in each.traces])


def _read_all(
    found: Sequence[RecordedProcess], read: Callable[..., _ReadProcess], leading: set[int]
) -> dict[int, _ReadProcess]:
    """By index what each process shows; of those that are ``leading`` also what no other needs to show."""
    largest = max(spans.count(source.spans_path) for source in found)
    leads = [source.index in leading for source in found]
    indices = [source.index for source in found]
    few = largest * len(found) < _FEW_ROWS
    if not few:
        _keep_freed_memory()
    if few or largest > _MOST_ROWS:
        return dict(zip(indices, map(read, found, leads), strict=True))
    from concurrent.futures import ThreadPoolExecutor  # a tenth of what a short report takes

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(indices, pool.map(read, found, leads), strict=True))


def _keep_freed_memory() -> None:
    """Have the C library reuse what large columns took, and not return it to the system each time.

    Each of the hundreds of columns that are made and dropped would be memory that the system has to clear
    first: a quarter of the time. It is glibc's ``mallopt``; elsewhere nothing changes. And it works only
    for memory of the main thread.
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
    rows = read_rows(source)
    last = _last_span(source, rows)
    threads = recording.threads(source, rows) if recording else threads_of(source, rows)
    main = max((t for each in threads for t in each.traces), key=lambda t: t.total, default=None)
    if main is not None and any(site.region in LAYERS for site in source.sites.values()):
        devices = list(split(rows, source.sites, "device").values())
        source.layers = layers_of(threads, devices, main, main.warmup)
    if main is not None and source.memory_sites:
        source.memory = memory_use(source, read_rows(source, memory=True), main, main.warmup)
    if studying:
        source.studies = studies_in(source, threads)
    idle = not any(thread.traces for thread in threads)
    made = [track_summary(each, idle or bool(each.traces), skip, leads) for each in threads]
    if not leads and recording is None:
        for thread in threads:
            for trace in thread.traces:
                trace.let_go()
    return _ReadProcess(made, rows.unknown, last)


def _last_span(source: RecordedProcess, rows: SpanColumns) -> LastSpan | None:
    waits = [number for number, site in source.sites.items() if site.region == "wait"]
    end = rows.end
    if waits:
        mine = ~among(rows.site, waits)
        end = np.where(mine, end, np.iinfo(np.int64).min) if mine.any() else end[:0]
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
    """The ranks of a run in the order in which they began; none of a run that was not collected.

    ``ends``: by index of the process, its last span; ``traces``: the loops of all processes.
    """
    facts = info.get("processes")
    if not isinstance(facts, list) or len(facts) != len(sources):
        return []
    again = _replaced(sources)
    everyone = [
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
            in_order=source.ended is not None or index in again,
            last=ends.get(index),
        )
        for index, (source, fact) in enumerate(zip(sources, facts, strict=True))
    ]
    found = [
        everyone[index]
        for index in ranks_among(everyone, [index in ends for index in range(len(facts))])
    ]
    by_process: dict[int, list[LoopTrace]] = {}
    for trace in traces:
        by_process.setdefault(trace.source.index, []).append(trace)
    for each in found:
        source = sources[each.process]
        if each.last is not None:
            opened = (source.sites.get(number) for number in spans.opened(source.spans_path))
            each.opened = tuple(_call(site) for site in opened if site is not None)
        if mine := by_process.get(source.index):
            latest = max(mine, key=lambda trace: trace.thirds[-1])
            each.steps, each.usual = len(latest), median_of(latest.table.seconds)
    number_attempts(found)
    return found


def _replaced(sources: Sequence[RecordedProcess]) -> set[int]:
    """Processes whose number recorded once more without an end in between."""
    last: dict[tuple[str, int | None], int] = {}
    found = set()
    for index, source in enumerate(sources):
        before = last.get((source.host, source.pid))
        if before is not None and sources[before].ended is None:
            found.add(before)
        last[source.host, source.pid] = index
    return found


def _code(exit: object) -> int | None:
    if not isinstance(exit, dict):
        return None
    signal, code = exit.get("signal"), exit.get("code")
    return -signal if isinstance(signal, int) else code if isinstance(code, int) else None


def _times(run: Run, found: list[RecordedProcess], last: int) -> tuple[int, int]:
    """When the run began and ended, unix nanoseconds, as far as that is known."""
    starts = [source.began for source in found if source.began]
    ended = max([last, *(source.ended or 0 for source in found)])
    started, stopped = run.info.get("started"), run.info.get("ended")
    if isinstance(started, (int, float)):
        starts.append(round(started * SECOND))
    began = min(starts, default=ended)
    if isinstance(stopped, (int, float)):
        ended = max(ended, round(stopped * SECOND))
    return began, ended


def _main(summaries: list[TrackSummary], loops: list[list[LoopTrace]]) -> TrackSummary | None:
    """The track whose time is divided: of the longest loop, the first rank's."""
    if loops:
        trace = loops[0][0]
        return next(each for each in summaries if any(u is trace for u in each.traces))
    having = [each for each in summaries if len(each.passes)]
    return min(having, key=lambda f: (f.source.rank or 0, f.source.index), default=None)


def _segments(
    main: TrackSummary | None, loops: list[list[LoopTrace]], skip: int, times: tuple[int, int]
) -> tuple[TimeSegment, ...]:
    if main is None:
        nothing = "no steps and no evaluation were recorded"
        return (TimeSegment("the program", (times[1] - times[0]) / SECOND, nothing),)
    warmups = [
        trace.measured_from(warmup_steps(traces, skip))
        for trace in main.traces
        for traces in loops
        if any(u is trace for u in traces)
    ]
    found = segments_of(main.traces, main.passes, main.between, main.span, times, warmups)
    attempts = {trace.source.attempt or 0 for traces in loops for trace in traces}
    if len(attempts) > 1:
        later = max(attempts) > (main.source.attempt or 0)
    elif len(set(labels(loops))) > 1:
        later = any(trace.thirds[-1] > main.span[1] for traces in loops for trace in traces)
    else:
        return found
    return among_attempts(found, main.source, main.span[1], times, later)


def unmeasured_of(
    info: dict[str, Any],
    sources: list[RecordedProcess],
    summaries: list[TrackSummary],
    loops: list[TrainingLoop],
    unknown: int,
) -> tuple[str, ...]:
    """Everything a reader has to know before trusting the numbers."""
    unmeasured = [*_unmeasured_devices(summaries, loops), *_items(loops), *_losses(loops)]
    unmeasured += _missing_ranks(sources, summaries, loops)
    unmeasured += _not_stopped(info, loops)
    unmeasured += _missed(info)
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
    used = any(site.device not in (None, "cpu") for site in sites)
    if used and not any(site.region == TRANSFER for site in sites):
        unmeasured.append(
            "transfers to devices: none were recorded; transfers made by libraries, `copy_` and tensors made "
            "on the device are part of the region around them, unless a voirfile records h2d"
        )
    return unmeasured


def _items(loops: list[TrainingLoop]) -> list[str]:
    return [
        f"items per second: {loop.throughput.why_no_items}; rates are steps per second"
        for loop in loops
        if loop.throughput.items is None and loop.throughput.why_no_items
    ]


def _not_stopped(info: Mapping[str, Any], loops: Sequence[TrainingLoop]) -> list[str]:
    """Where a loop went on after --stop: an inference, since it might have been an evaluation before a
    training, or a training whose steps are found only afterwards."""
    limits = info.get("limits") or {}
    stop = limits.get("stop")
    if not loops or info.get("stopped"):
        return []
    if not isinstance(stop, (int, float)) or loops[0].steps <= stop + (limits.get("skip") or 0):
        return []
    if loops[0].task != INFERENCE:
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


def _losses(loops: list[TrainingLoop]) -> list[str]:
    """Where gradients are accumulated, what backward starts from may be a part of what is meant."""
    unmeasured = []
    for loop in loops:
        calls = max(
            (each.calls for each in loop.tree.children if each.name == "backward"), default=0
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
        if len({t.rank for t in loop.ranks} - {None}) > 1 and not _has(loop.tree, "comm"):
            inside = next(
                (name for name in ("backward", *BOOSTING) if _has(loop.tree, name)), "a step"
            )
            unmeasured.append(
                "collectives: none were recorded; where ranks wait for each other, it is part of "
                f"{inside}"
            )
    return unmeasured


def _uneven(loop: TrainingLoop) -> list[str]:
    by_rank: dict[int, list[int]] = {}
    for each in loop.ranks:
        if each.rank is not None:
            by_rank.setdefault(each.rank, []).append(each.steps)
    unmeasured = [
        f"rank {rank} was started {len(steps)} times: its processes are shown one by one"
        for rank, steps in by_rank.items()
        if len(steps) > 1
    ]
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
    return node.name == name or any(_has(child, name) for child in node.children)


def _some(what: str, numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")
    return f"{what}{'s' if len(numbers) > 1 else ''} {shown}"


def _missed(info: dict[str, Any]) -> list[str]:
    warnings = info.get("warnings")
    return [
        " ".join(str(each.get("text")).split())
        for each in (warnings if isinstance(warnings, list) else [])
        if isinstance(each, dict) and each.get("kind") == "auto-missed"
    ]
