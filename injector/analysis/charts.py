"""What the page of a run draws: its steps, its regions and its machines over the time of the run.

A page is about equally large however long the run was. The time of a loop is cut into buckets, and of the
steps in a bucket the shortest, the median and the longest are kept, so that no slow step is lost. Single
spans are kept of a few steps only (:mod:`.excerpts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..store.folder import Run
from .arrays import median_of
from .columns import SECOND, Floats, Ints
from .excerpts import Excerpt, excerpts_of
from .loops import grouped, labels, skipped_steps, warmup_steps
from .timeseries import TimeSeries, began_at, series_of
from .traces import LoopTrace, Recording, Thread

RANKS = 16
"""How many ranks of a loop are drawn at most: the fastest and the slowest."""
BUCKETS = (400, 24_000, 3000)
"""Buckets for the steps of a rank: at least; of all ranks together; at most."""
SHARES = 600
"""Buckets of a loop's time in which the seconds of regions are added up."""
BINS = 60
"""Bins of a distribution of many steps."""
SLOWEST = 12
"""How many slow steps are listed at most."""
SLOW = 1.5
"""A step is slow if it takes more than so many median steps."""


@dataclass(frozen=True)
class RankSteps:
    """Seconds of the steps of one rank in each bucket of time; None where no step ended in a bucket."""

    name: str
    low: list[float | None]
    """The shortest step."""
    middle: list[float | None]
    """The median step."""
    high: list[float | None]
    """The longest step."""


@dataclass(frozen=True)
class SlowStep:
    """A step that took much longer than the median one, on the rank where it took longest."""

    step: int
    """From 0, the warm-up included."""
    rank: str
    time: float
    """When it began, in seconds since the run began."""
    seconds: float
    times: float
    """How many median steps it took."""
    region: str
    """The region with most of the additional time."""
    excess: float
    """Seconds of that region above its median."""


@dataclass(frozen=True)
class Distribution:
    """A histogram of the seconds of all measured steps of all ranks."""

    edges: list[float]
    """Seconds; one more than there are counts."""
    counts: list[int]
    above: int
    """How many steps took longer than the last edge."""


@dataclass(frozen=True)
class RegionShares:
    """What one rank did over time: for each region and bucket, its seconds per second of the bucket.

    What is missing to 1 is time outside of the loop's steps and of evaluation.
    """

    name: str
    regions: dict[str, list[float]]


@dataclass(frozen=True)
class LoopCharts:
    """The charts of one loop. Times are seconds since the run began."""

    label: str
    times: list[float]
    """The middle of each bucket of ``ranks``."""
    ranks: tuple[RankSteps, ...]
    left_out: int
    """How many ranks are not drawn."""
    warmup: float
    """When the last step of the warm-up ended."""
    median: float
    p95: float
    distribution: Distribution
    slow: int
    """How many measured steps took more than 1.5 median steps."""
    slow_seconds: float
    """The sum over slow steps of what each took longer than a median step."""
    slowest: tuple[SlowStep, ...]
    drift: tuple[float, float] | None
    """The median of the first and of the last tenth of the steps; None where there are too few."""
    edges: list[float]
    """Edges of the buckets of ``shares``."""
    shares: tuple[RegionShares, ...]


@dataclass(frozen=True)
class Charts:
    """Everything that is drawn of a run."""

    seconds: float
    """The duration of the run, or until the last thing that was recorded if that is later."""
    loops: tuple[LoopCharts, ...]
    excerpts: tuple[Excerpt, ...]
    series: TimeSeries


def charts_of(run: Run, recording: Recording | None = None) -> Charts:
    """The charts of ``run``, without the steps that ``--skip`` names.

    ``recording`` is what was read from its spans before, if anything was. Raises OSError, NotARunError.
    """
    recording = recording or Recording(run)
    recorded = [source for source in recording.sources if source.has_spans()]
    threads = [thread for source in recorded for thread in recording.threads(source)]
    traces = [trace for thread in threads for trace in thread.traces]
    thread_of = {id(trace): thread for thread in threads for trace in thread.traces}
    skip, series = skipped_steps(run), series_of(run, traces)
    began = began_at(run, traces)
    loops = grouped(traces)
    charts = [
        _loop_charts(loop, thread_of, began, skip, job)
        for loop, job in zip(loops, labels(loops), strict=True)
    ]
    excerpts: tuple[Excerpt, ...] = ()
    if loops:
        # The first loop is the one that took longest; others have no excerpts.
        drawn = drawn_ranks(loops[0])
        slowest = [slow.step for slow in charts[0].slowest]
        excerpts = excerpts_of(drawn, [thread_of[id(trace)] for trace in drawn], slowest, began)
    ends = [float(trace.end[-1]) / SECOND - began for trace in traces]
    ends += [line[-1][0] for lines in series.values() for line in lines.values() if line]
    duration = run.info.get("duration")
    return Charts(
        seconds=max([float(duration) if isinstance(duration, (int, float)) else 0.0, *ends]),
        loops=tuple(charts),
        excerpts=excerpts,
        series=series,
    )


def drawn_ranks(traces: Sequence[LoopTrace]) -> list[LoopTrace]:
    """The ranks of a loop that are drawn: all if they are few, else the fastest and the slowest ones."""
    if len(traces) <= RANKS:
        return list(traces)
    by_speed = sorted(range(len(traces)), key=lambda at: median_of(traces[at].table.seconds))
    drawn = sorted([*by_speed[: RANKS // 2], *by_speed[-RANKS // 2 :]])
    return [traces[at] for at in drawn]


def _loop_charts(
    traces: list[LoopTrace], thread_of: dict[int, Thread], began: float, skip: int, job: str | None
) -> LoopCharts:
    """``traces`` are those of all ranks; ``thread_of`` has the thread of each by its ``id``."""
    drawn = drawn_ranks(traces)
    warmup = warmup_steps(traces, skip)
    first = min(int(trace.start[0]) for trace in traces)
    last = max(int(trace.end[-1]) for trace in traces)
    at_least, of_all, at_most = BUCKETS
    steps = max(len(trace.start) for trace in drawn)
    # With more buckets than steps, a chart would have nothing but gaps.
    buckets = max(1, min(steps, at_most, max(at_least, of_all // len(drawn))))
    edges = np.linspace(first, last, 1 + buckets)
    measured = [trace.table.seconds[trace.measured_from(warmup) :] for trace in traces]
    seconds = np.concatenate(measured)
    median = median_of(seconds)
    slow = seconds > SLOW * median
    share_edges = np.linspace(first, last, 1 + SHARES)
    # The warm-up of a job is over once it is over on its slowest rank.
    warmup_end = max(
        int(trace.end[trace.measured_from(warmup) - 1]) if warmup else first for trace in traces
    )
    return LoopCharts(
        label=", ".join(filter(None, (traces[0].pace.task, job))),
        times=rounded(((edges[:-1] + edges[1:]) / 2 / SECOND - began), 7),
        ranks=tuple(_rank_steps(trace, edges) for trace in drawn),
        left_out=len(traces) - len(drawn),
        warmup=warmup_end / SECOND - began,
        median=median,
        p95=float(np.percentile(seconds, 95)),
        distribution=_distribution(seconds),
        slow=int(np.count_nonzero(slow)),
        # Seconds are 32-bit floats: a sum of a million of them would lose digits.
        slow_seconds=float((seconds[slow] - median).sum(dtype=np.float64)),
        slowest=_slowest(traces, warmup, median, began),
        drift=_drift(measured),
        edges=rounded(share_edges / SECOND - began, 7),
        shares=tuple(_shares(trace, thread_of[id(trace)], share_edges) for trace in drawn),
    )


def _rank_steps(trace: LoopTrace, edges: Floats) -> RankSteps:
    """The shortest, the median and the longest of the steps that end in each bucket."""
    n = len(edges) - 1
    bucket = np.clip(np.searchsorted(edges, trace.end, side="left") - 1, 0, n - 1)
    # Sorted by bucket and, within one, by duration: the three are then at known places of each bucket.
    order = np.lexsort((trace.table.seconds, bucket))
    seconds = trace.table.seconds[order].astype(np.float64)
    begin = np.searchsorted(bucket[order], np.arange(n))
    end = np.searchsorted(bucket[order], np.arange(n), side="right")
    filled = end > begin
    lines = []
    for at in (begin, (begin + end - 1) // 2, end - 1):
        line: list[float | None] = [None] * n
        values = rounded(seconds[at[filled]])
        for place, value in zip(np.flatnonzero(filled).tolist(), values, strict=True):
            line[place] = value
        lines.append(line)
    return RankSteps(trace.source.name, *lines)


def _distribution(seconds: npt.NDArray[np.float32]) -> Distribution:
    """A histogram up to a little beyond the 99th percentile.

    One step that takes a thousand times as long as the others would squeeze these into a single bin.
    """
    ordered = np.sort(seconds).astype(np.float64)
    low, high = float(ordered[0]), float(ordered[int(0.99 * (len(ordered) - 1))])
    # More than 0 even if all steps took exactly as long.
    high += 0.1 * (high - low) or 1e-9
    counts, edges = np.histogram(ordered, BINS if len(ordered) > 200 else 20, (low, high))
    return Distribution(rounded(edges), counts.tolist(), int((ordered > high).sum()))


def _drift(measured: Sequence[npt.NDArray[np.float32]]) -> tuple[float, float] | None:
    """The medians of the first and of the last tenth of the steps of each rank, all ranks together."""
    tenth = min(map(len, measured)) // 10
    # Medians of fewer steps differ by chance alone.
    if tenth < 10:
        return None
    first = median_of(np.concatenate([seconds[:tenth] for seconds in measured]))
    last = median_of(np.concatenate([seconds[-tenth:] for seconds in measured]))
    return first, last


def _slowest(
    traces: Sequence[LoopTrace], warmup: int, median: float, began: float
) -> tuple[SlowStep, ...]:
    """The measured steps that took longest, each on the rank where it took longest."""
    longest: dict[int, tuple[float, LoopTrace]] = {}
    for trace in traces:
        seconds = trace.table.seconds
        # Steps of the warm-up may be the slowest of all; as many more are looked at.
        candidates = np.argsort(seconds)[::-1][: SLOWEST + warmup].tolist()
        for step in candidates:
            took = float(seconds[step])
            if step < trace.measured_from(warmup) or took <= SLOW * median:
                continue
            if step not in longest or longest[step][0] < took:
                longest[step] = (took, trace)
    slowest = sorted(longest.items(), key=lambda item: -item[1][0])[:SLOWEST]
    medians = {id(trace): _medians(trace, warmup) for _, (_, trace) in slowest}
    return tuple(
        _slow_step(step, trace, took, median, medians[id(trace)], began)
        for step, (took, trace) in slowest
    )


def _medians(trace: LoopTrace, warmup: int) -> dict[str, tuple[Any, float]]:
    """For each region, its seconds in every step, and the median of the measured ones."""
    first = trace.measured_from(warmup)
    return {
        name: (seconds, median_of(seconds[first:]))
        for name, seconds in trace.table.regions().items()
    }


def _slow_step(
    step: int,
    trace: LoopTrace,
    took: float,
    median: float,
    regions: dict[str, tuple[Any, float]],
    began: float,
) -> SlowStep:
    excess = {name: float(seconds[step]) - usual for name, (seconds, usual) in regions.items()}
    region = max(excess, key=lambda name: excess[name])
    return SlowStep(
        step=step,
        rank=trace.source.name,
        time=float(trace.start[step]) / SECOND - began,
        seconds=took,
        times=took / median if median else 0.0,
        region=region,
        excess=excess[region],
    )


def _shares(trace: LoopTrace, thread: Thread, edges: Floats) -> RegionShares:
    """The regions of one rank over time; a region's seconds in a step are spread evenly over the step."""
    bounds = np.stack((trace.start, trace.end), axis=1).reshape(-1).astype(np.float64)
    width = (edges[1] - edges[0]) / SECOND or 1.0
    shares = {
        name: rounded(_spread(bounds, seconds, edges) / width, 3)
        for name, seconds in trace.table.regions().items()
    }
    # Evaluation is cut out of the steps around it, so that no region of a step has it.
    if len(thread.passes):
        pass_bounds = np.stack((thread.passes.start, thread.passes.end), axis=1).reshape(-1)
        seconds = (thread.passes.end - thread.passes.start) / SECOND
        spent = _spread(pass_bounds.astype(np.float64), seconds, edges)
        shares["evaluation"] = rounded(spent / width, 3)
    return RegionShares(trace.source.name, shares)


def _spread(bounds: Floats, seconds: npt.NDArray[np.floating], edges: Floats) -> Floats:
    """Divide ``seconds`` among the buckets between ``edges``.

    ``bounds`` are the start and the end of each step in turns, and ``seconds`` has one value for each step.
    The running total grows evenly within a step and not at all between two; a bucket gets its growth from one
    edge to the next. Two steps of 2 s from 0 to 10 and from 10 to 20 give one from 5 to 15 a second of each.
    """
    running = np.cumsum(np.concatenate(([0.0], seconds.astype(np.float64))))
    total_at_bounds = np.repeat(running, 2)[1:-1]
    spread: Floats = np.diff(np.interp(edges, bounds, total_at_bounds))
    return spread


def rounded(values: npt.NDArray[np.floating] | Ints, digits: int = 4) -> list[float]:
    """``values`` with so many significant digits: each digit more makes a page larger."""
    numbers = np.asarray(values, np.float64)
    size = np.where((numbers == 0) | ~np.isfinite(numbers), 1.0, np.abs(numbers))
    scale = 10.0 ** (digits - 1 - np.floor(np.log10(size)))
    # Divided by a power of ten, not multiplied by its inverse: 0.1 stays 0.1, and is written so.
    shortest: list[float] = (np.round(numbers * scale) / scale).tolist()
    return shortest
