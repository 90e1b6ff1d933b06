"""What the page of a run draws: its steps, its regions and its machines over the time of the run.

However long a run is, it comes to about as much: what is drawn over time is cut into buckets that keep
the smallest and the largest of their steps, so that no slow step is lost; spans are kept of a few steps
(:mod:`.excerpts`).
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
from .loops import grouped, labels, warmup_steps
from .timeseries import TimeSeries, began_at, series_of
from .traces import LoopTrace, Recording, Thread
from .wording import rank_name

RANKS = 16
"""Ranks of a loop that are drawn, at most: the fastest and the slowest."""
BUCKETS = (400, 24_000, 3000)
"""Buckets of a rank's steps: at least, of all ranks together, at most."""
SHARES = 600
"""Buckets of the time of a loop in which regions are added up."""
BINS = 60
SLOWEST = 12
"""Steps that are listed as slow, at most."""
SLOW = 1.5
"""Median steps from which a step is slow."""


@dataclass(frozen=True)
class RankSteps:
    """The steps of one rank by bucket of time; None where no step ended in it. Seconds."""

    name: str
    low: list[float | None]
    middle: list[float | None]
    """The median."""
    high: list[float | None]


@dataclass(frozen=True)
class SlowStep:
    """A step that took much longer than the median one, on the rank where it took longest."""

    step: int
    """From 0, the warm-up included."""
    rank: str
    time: float
    """When it began, seconds since the run did."""
    seconds: float
    times: float
    """Of the median step."""
    region: str
    """Where it took longer than usual, mostly."""
    excess: float
    """Seconds above the median that the region took."""


@dataclass(frozen=True)
class Distribution:
    """How often steps took how long, of all measured steps of all ranks."""

    edges: list[float]
    """Seconds; one more than there are counts."""
    counts: list[int]
    above: int
    """Steps that took longer than the last edge."""


@dataclass(frozen=True)
class RegionShares:
    """What one rank did over time: seconds per second of each region, by bucket; the rest is none."""

    name: str
    regions: dict[str, list[float]]


@dataclass(frozen=True)
class LoopCharts:
    """One loop, as it is drawn. Times are seconds since the run began."""

    label: str
    times: list[float]
    """The middle of each bucket of ``ranks``."""
    ranks: tuple[RankSteps, ...]
    left_out: int
    """Ranks that are not drawn."""
    warmup: float
    """When the last step of the warm-up ended."""
    median: float
    p95: float
    distribution: Distribution
    slow: int
    """Measured steps that took more than 1.5 median steps."""
    slow_seconds: float
    """What they took longer than a median step, together."""
    slowest: tuple[SlowStep, ...]
    drift: tuple[float, float] | None
    """The median step of the first and of the last tenth, where there are enough to say so."""
    edges: list[float]
    """Of the buckets of ``shares``."""
    shares: tuple[RegionShares, ...]


@dataclass(frozen=True)
class Charts:
    """All that is drawn of a run."""

    seconds: float
    """How long it took, as far as anything was recorded."""
    loops: tuple[LoopCharts, ...]
    excerpts: tuple[Excerpt, ...]
    series: TimeSeries


def charts_of(run: Run, skip: int = 0, recording: Recording | None = None) -> Charts:
    """What is drawn of ``run``, whose first ``skip`` steps are none.

    ``recording``: what was found in its spans already. Raises OSError, NotARunError.
    """
    recording = recording or Recording(run)
    threads = [
        thread
        for source in recording.sources
        if source.has_spans()
        for thread in recording.threads(source)
    ]
    traces = [trace for thread in threads for trace in thread.traces]
    owner = {id(trace): thread for thread in threads for trace in thread.traces}
    series = series_of(run, traces)
    began = began_at(run, traces)
    loops = grouped(traces)
    found = [
        _loop(group, [owner[id(trace)] for trace in group], began, skip, job)
        for group, job in zip(loops, labels(loops), strict=True)
    ]
    excerpts: tuple[Excerpt, ...] = ()
    if loops:
        shown = shown_of(loops[0])
        slowest = [each.step for each in found[0].slowest]
        excerpts = excerpts_of(shown, [owner[id(each)] for each in shown], slowest, began)
    ends = [float(trace.end[-1]) / SECOND - began for trace in traces]
    ends += [line[-1][0] for lines in series.values() for line in lines.values() if line]
    took = run.info.get("duration")
    return Charts(
        seconds=max([float(took) if isinstance(took, (int, float)) else 0.0, *ends]),
        loops=tuple(found),
        excerpts=excerpts,
        series=series,
    )


def shown_of(traces: Sequence[LoopTrace]) -> list[LoopTrace]:
    """The ranks of a loop that are drawn."""
    if len(traces) <= RANKS:
        return list(traces)
    order = sorted(range(len(traces)), key=lambda at: median_of(traces[at].table.seconds))
    kept = sorted([*order[: RANKS // 2], *order[-RANKS // 2 :]])
    return [traces[at] for at in kept]


def _loop(
    traces: list[LoopTrace], threads: list[Thread], began: float, skip: int, job: str | None
) -> LoopCharts:
    shown = shown_of(traces)
    warmup = warmup_steps(traces, skip)
    first = min(int(trace.start[0]) for trace in traces)
    last = max(int(trace.end[-1]) for trace in traces)
    least, whole, most = BUCKETS
    steps = max(len(trace.start) for trace in shown)
    edges = np.linspace(first, last, 1 + max(1, min(steps, most, max(least, whole // len(shown)))))
    measured = [trace.table.seconds[trace.measured_from(warmup) :] for trace in traces]
    every = np.concatenate(measured)
    median = median_of(every)
    slow = every > SLOW * median
    wide = np.linspace(first, last, 1 + SHARES)
    which = {id(trace): thread for trace, thread in zip(traces, threads, strict=True)}
    ended = max(
        int(each.end[each.measured_from(warmup) - 1]) if warmup else first for each in traces
    )
    return LoopCharts(
        label=", ".join(filter(None, (traces[0].pace.task, job))),
        times=rounded(((edges[:-1] + edges[1:]) / 2 / SECOND - began), 7),
        ranks=tuple(_rank_steps(trace, edges) for trace in shown),
        left_out=len(traces) - len(shown),
        warmup=ended / SECOND - began,
        median=median,
        p95=float(np.percentile(every, 95)),
        distribution=_distribution(every),
        slow=int(np.count_nonzero(slow)),
        slow_seconds=float((every[slow] - median).sum(dtype=np.float64)),
        slowest=_slowest(traces, warmup, median, began),
        drift=_drift(measured),
        edges=rounded(wide / SECOND - began, 7),
        shares=tuple(_shares(trace, which[id(trace)], wide) for trace in shown),
    )


def name_of(trace: LoopTrace) -> str:
    """``rank 3``; ``process 4711`` of one that is no rank."""
    return rank_name(trace.source.rank, trace.source.pid)


def _rank_steps(trace: LoopTrace, edges: Floats) -> RankSteps:
    """The least, the median and the most seconds of the steps that end in each bucket."""
    n = len(edges) - 1
    bucket = np.clip(np.searchsorted(edges, trace.end, side="left") - 1, 0, n - 1)
    order = np.lexsort((trace.table.seconds, bucket))
    seconds = trace.table.seconds[order].astype(np.float64)
    begin = np.searchsorted(bucket[order], np.arange(n))
    end = np.searchsorted(bucket[order], np.arange(n), side="right")
    some = end > begin
    found = []
    for at in (begin, (begin + end - 1) // 2, end - 1):
        values: list[float | None] = [None] * n
        for place, value in zip(
            np.flatnonzero(some).tolist(), rounded(seconds[at[some]]), strict=True
        ):
            values[place] = value
        found.append(values)
    return RankSteps(name_of(trace), *found)


def _distribution(seconds: npt.NDArray[np.float32]) -> Distribution:
    """Bins of equal width up to where the slowest hundredth begins, and some beyond."""
    ordered = np.sort(seconds).astype(np.float64)
    low, high = float(ordered[0]), float(ordered[int(0.99 * (len(ordered) - 1))])
    high += 0.1 * (high - low) or 1e-9
    counts, edges = np.histogram(ordered, BINS if len(ordered) > 200 else 20, (low, high))
    return Distribution(rounded(edges), counts.tolist(), int((ordered > high).sum()))


def _drift(measured: Sequence[npt.NDArray[np.float32]]) -> tuple[float, float] | None:
    tenth = min(map(len, measured)) // 10
    if tenth < 10:
        return None
    parts = ([each[:tenth] for each in measured], [each[-tenth:] for each in measured])
    first, last = (median_of(np.concatenate(part)) for part in parts)
    return first, last


def _slowest(
    traces: Sequence[LoopTrace], warmup: int, median: float, began: float
) -> tuple[SlowStep, ...]:
    """The steps that took longest, each on the rank where it took longest; the warm-up is none."""
    worst: dict[int, tuple[float, LoopTrace]] = {}
    for trace in traces:
        seconds = trace.table.seconds
        order = np.argsort(seconds)[::-1][: SLOWEST + warmup].tolist()
        for step in order:
            took = float(seconds[step])
            if step < trace.measured_from(warmup) or took <= SLOW * median:
                continue
            if step not in worst or worst[step][0] < took:
                worst[step] = (took, trace)
    found = sorted(worst.items(), key=lambda each: -each[1][0])[:SLOWEST]
    usual = {id(trace): _medians(trace, warmup) for _, (_, trace) in found}
    return tuple(
        _slow_step(step, trace, took, median, usual[id(trace)], began)
        for step, (took, trace) in found
    )


def _medians(trace: LoopTrace, warmup: int) -> dict[str, tuple[Any, float]]:
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
    usual: dict[str, tuple[Any, float]],
    began: float,
) -> SlowStep:
    more = {name: float(seconds[step]) - typical for name, (seconds, typical) in usual.items()}
    region = max(more, key=lambda name: more[name])
    return SlowStep(
        step=step,
        rank=name_of(trace),
        time=float(trace.start[step]) / SECOND - began,
        seconds=took,
        times=took / median if median else 0.0,
        region=region,
        excess=more[region],
    )


def _shares(trace: LoopTrace, thread: Thread, edges: Floats) -> RegionShares:
    """A region's seconds in a step are spread evenly over the step."""
    bounds = np.stack((trace.start, trace.end), axis=1).reshape(-1).astype(np.float64)
    width = (edges[1] - edges[0]) / SECOND or 1.0
    made = {
        name: rounded(_spread(bounds, seconds, edges) / width, 3)
        for name, seconds in trace.table.regions().items()
    }
    if len(thread.passes):
        within = np.stack((thread.passes.start, thread.passes.end), axis=1).reshape(-1)
        seconds = (thread.passes.end - thread.passes.start) / SECOND
        spent = _spread(within.astype(np.float64), seconds, edges)
        made["evaluation"] = rounded(spent / width, 3)
    return RegionShares(name_of(trace), made)


def _spread(bounds: Floats, seconds: npt.NDArray[np.floating], edges: Floats) -> Floats:
    """What lies in each bucket of ``seconds``, one for each pair of the ``bounds``."""
    total = np.repeat(np.cumsum(np.concatenate(([0.0], seconds.astype(np.float64)))), 2)[1:-1]
    found: Floats = np.diff(np.interp(edges, bounds, total))
    return found


def rounded(values: npt.NDArray[np.floating] | Ints, digits: int = 4) -> list[float]:
    """``values`` with so many significant digits, as short as they can be written."""
    found = np.asarray(values, np.float64)
    size = np.where((found == 0) | ~np.isfinite(found), 1.0, np.abs(found))
    scale = 10.0 ** (digits - 1 - np.floor(np.log10(size)))
    whole: list[float] = (np.round(found * scale) / scale).tolist()
    return whole
