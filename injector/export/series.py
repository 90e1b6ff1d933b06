"""The series of a run: one number over its steps, calls or samples, as trackers draw it.

A series that is longer than wanted is thinned: of each part the least and the largest value stay, each at its
own step, so that no slow step is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import isfinite, nan
from typing import Any

import numpy as np
import numpy.typing as npt

from ..analysis.arrays import distinct, kept_of, owners
from ..analysis.benchmark_metrics import NodeMetric, benchmark_metrics
from ..analysis.columns import SECOND, Floats, Ints, RecordedProcess, read_rows, sources
from ..analysis.loops import grouped, labels
from ..analysis.traces import LoopTrace, Thread, threads_of
from ..analysis.views import views
from ..metrics import unit_of
from ..store.folder import Run

POINTS = 1000
"""The most points of a series by default: about what trackers draw."""
EARLY = 2e-6
"""Seconds from the begin of a step in which a value still belongs to the step before. A program may record
what a step made just before the next one begins, and a float of unix time is exact to 0.25 µs."""
MARKED = "injector.region"
"""The selector of regions that the program itself marks."""
DEVICE_SAMPLES = ("load", "memory_used", "temperature", "power")
HOST_SAMPLES = ("cpu", "memory", "tree_rss")


@dataclass(frozen=True)
class Series:
    """One number over the steps of a run, or over the samples of its monitor."""

    name: str
    """``train/step_time``; only letters, digits, ``_``, ``-``, ``.``, ``/`` and blanks."""
    unit: str
    steps: Ints
    times: Floats
    """Unix seconds."""
    values: Floats
    total: int
    """The number of points before it was thinned."""
    axis: str = "step"
    """What ``steps`` count: ``step``, ``call``, ``sample`` or ``node``."""

    def points(self) -> Iterator[tuple[int, float, float]]:
        """Step, time and value of each point."""
        return zip(self.steps.tolist(), self.times.tolist(), self.values.tolist(), strict=True)


def all_series(run: Run, ended: float) -> Iterator[Series]:
    """All series of ``run``, which ended at ``ended`` (unix seconds). Raises OSError."""
    traces: list[LoopTrace] = []
    marked: list[MarkedCalls] = []
    for source in sources(run):
        for thread in threads_of(source, read_rows(source)) if source.has_spans() else ():
            traces += thread.traces
            marked += _marked_calls(thread)
    nodes = _node_series(benchmark_metrics(run), ended)
    values, samples = value_series(run, traces), sample_series(run)
    return chain(_loop_series(traces), _call_series(marked), values, samples, nodes)


def thinned(series: Series, points: int) -> Series:
    """``series`` with at most ``points`` points; 0 for all."""
    if not points:
        return series
    kept = kept_of(series.values, points)
    return replace(
        series, steps=series.steps[kept], times=series.times[kept], values=series.values[kept]
    )


def clean(name: str) -> str:
    """``name`` with only those characters that every tracker allows in the name of a metric."""
    return re.sub(r"[^\w\-. /]", "_", name, flags=re.ASCII).strip("/ ") or "unnamed"


def loop_name(task: str, job: str | None, attempt: int | None) -> str:
    """The name of a loop in those of its figures and series."""
    again = f"attempt {attempt}" if attempt else None
    return clean(" ".join(filter(None, (task, job, again))))


def unused(name: str, names: set[str]) -> str:
    """``name``, or ``name_2`` and so on if it is in ``names``, to which the result is added."""
    result = next(
        each for n in range(1, 1 << 30) if (each := f"{name}_{n}" if n > 1 else name) not in names
    )
    names.add(result)
    return result


# --- loops and regions ----------------------------------------------------------------------------


def _loop_series(traces: list[LoopTrace]) -> Iterator[Series]:
    """The series of each loop, by rank if it has several, and the rate of all ranks together."""
    names: set[str] = set()
    loops = grouped(traces)
    for group, job in zip(loops, labels(loops), strict=True):
        name = unused(loop_name(group[0].pace.task, job, group[0].source.attempt), names)
        for number, trace in enumerate(group):
            rank = number if trace.source.rank is None else trace.source.rank
            yield from _trace_series(name, f"/rank_{rank}" if len(group) > 1 else "", trace)
        if len(group) > 1:
            yield from _joint_rate(name, group)


def _trace_series(name: str, rank: str, trace: LoopTrace) -> Iterator[Series]:
    """The seconds of each step and of its regions, and its rate, at the end of the step."""
    seconds = trace.table.seconds.astype(np.float64)
    steps, ends = np.arange(len(seconds)), trace.end / SECOND
    unit = unit_of("export LOOP/step_time")
    yield _series(f"{name}/step_time{rank}", unit, steps, ends, seconds)
    unit = unit_of("export LOOP/regions/REGION")
    for region, in_region in trace.table.regions().items():
        yield _series(f"{name}/regions/{clean(region)}{rank}", unit, steps, ends, in_region)
    for amounts, kind in ((trace.items, "rate"), (trace.tokens, "token_rate")):
        if amounts is not None:
            rates = amounts / np.where(seconds > 0, seconds, np.nan)
            unit = unit_of(f"export LOOP/{kind}")
            yield _series(f"{name}/{kind}{rank}", unit, steps, ends, rates)


def _joint_rate(name: str, group: Sequence[LoopTrace]) -> Iterator[Series]:
    """The rate of all ranks together, the sum of each rank's own; none if a rank's items are not known."""
    count = min(len(trace.start) for trace in group)
    rates = np.zeros(count)
    for trace in group:
        if trace.items is None:
            return
        seconds = trace.table.seconds[:count].astype(np.float64)
        rates += trace.items[:count] / np.where(seconds > 0, seconds, np.nan)
    ends = np.max([trace.end[:count] for trace in group], axis=0) / SECOND
    yield _series(f"{name}/rate", unit_of("export LOOP/rate"), np.arange(count), ends, rates)


@dataclass(frozen=True)
class MarkedCalls:
    """The calls of a region that the program itself marks, in one thread and outside of its steps."""

    name: str
    source: RecordedProcess
    start: Ints
    """Unix nanoseconds, as is ``end``."""
    end: Ints


def _marked_calls(thread: Thread) -> Iterator[MarkedCalls]:
    """The calls of ``injector.Timer`` and ``injector.region`` in no step and no evaluation."""
    track, steps = thread.track, thread.steps
    is_marked = track.flags(lambda site: site.selector == MARKED and site.region != "step")
    rows = np.flatnonzero(is_marked)
    rows = rows[owners(steps.start, steps.end, track.start[rows]) < 0]
    rows = rows[~thread.passes.excluded().hold(track.start[rows])]
    names = {site: track.sites[site].region for site in distinct(track.site[rows]).tolist()}
    for name in dict.fromkeys(names.values()):
        own = rows[np.isin(track.site[rows], [site for site in names if names[site] == name])]
        yield MarkedCalls(name, thread.source, track.start[own], track.end[own])


def _call_series(marked: Sequence[MarkedCalls]) -> Iterator[Series]:
    """The seconds of each call, with all that lies in it: those of an epoch contain those of its steps."""
    for name in dict.fromkeys(each.name for each in marked):
        calls = [each for each in marked if each.name == name]
        processes = {each.source.index: each.source for each in calls}
        for number, index in enumerate(sorted(processes)):
            start, end = (
                np.concatenate([getattr(each, of) for each in calls if each.source.index == index])
                for of in ("start", "end")
            )
            order = np.argsort(end, kind="stable")
            seconds, times = ((end - start)[order] / SECOND, end[order] / SECOND)
            rank = processes[index].rank
            whose = f"/rank_{number if rank is None else rank}" if len(processes) > 1 else ""
            title = f"regions/{clean(name)}/time{whose}"
            unit = unit_of("export regions/REGION/time")
            yield replace(_series(title, unit, np.arange(len(order)), times, seconds), axis="call")


# --- values and samples ---------------------------------------------------------------------------


def value_series(run: Run, traces: Sequence[LoopTrace]) -> Iterator[Series]:
    """What probes and the program recorded by name.

    The step of a value is the one that was named with it, else that of its process's longest loop in which
    it was recorded, else its number.
    """
    columns = views(run)["values"]()
    points_of: dict[tuple[str, object], list[tuple[float, float, float]]] = {}
    ranks_of: dict[str, dict[object, int | None]] = {}
    parts = (columns[key] for key in ("task", "name", "process", "rank", "time", "value", "step"))
    for task, name, process, rank, time, value, step in zip(*parts, strict=True):
        if name == "rate" or value is None or not isfinite(value):
            continue
        key = clean("/".join(filter(None, (task, name))))
        point = time or 0.0, value, nan if step is None else step
        points_of.setdefault((key, process), []).append(point)
        ranks_of.setdefault(key, {})[process] = rank
    longest = _longest_loops(traces)
    for (key, process), points in points_of.items():
        times, values, named = np.array(points).T
        name = key if len(ranks_of[key]) == 1 else f"{key}/{_whose(process, ranks_of[key])}"
        loop = longest.get(process)
        steps = np.arange(len(times))
        if loop is not None:
            begins = loop.start / SECOND + EARLY
            steps = np.maximum(np.searchsorted(begins, times, side="right") - 1, 0)
        steps = np.where(np.isnan(named), steps, named).astype(np.int64)
        yield _series(name, unit_of("export TASK/NAME"), steps, times, values)


def _whose(process: object, ranks: dict[object, int | None]) -> str:
    """The process of a series among others, by its rank if no other has the same."""
    rank = ranks[process]
    is_unique = rank is not None and list(ranks.values()).count(rank) == 1
    return f"rank_{rank}" if is_unique else f"process_{process}"


def _longest_loops(traces: Sequence[LoopTrace]) -> dict[object, LoopTrace]:
    """The loop with most steps of each process."""
    longest: dict[object, LoopTrace] = {}
    for trace in traces:
        known = longest.get(trace.source.index)
        if known is None or len(known.start) < len(trace.start):
            longest[trace.source.index] = trace
    return longest


def _node_series(metrics: Iterable[NodeMetric], ended: float) -> Iterator[Series]:
    """What lightgbm-benchmark would log: one value for each node, which is its step, or each iteration."""
    by_name: dict[str, list[NodeMetric]] = {}
    for each in metrics:
        by_name.setdefault(each.name, []).append(each)
    for name, points in by_name.items():
        steps = np.array([p.node if p.step is None else p.step for p in points], np.int64)
        times = np.array([p.time or ended for p in points], np.float64)
        values = np.array([p.value for p in points], np.float64)
        one = _series(clean(name), points[0].unit, steps, times, values)
        yield one if points[0].step is not None else replace(one, axis="node")


def sample_series(run: Run) -> Iterator[Series]:
    """What the monitor sampled of hosts and devices."""
    tables = views(run)
    for kind, view, names in (
        ("devices", "devices", DEVICE_SAMPLES),
        ("hosts", "host", HOST_SAMPLES),
    ):
        columns = tables[view]()
        if not columns["time"]:
            continue
        whose = [columns["host"], *([columns["device"]] if "device" in columns else [])]
        keys = ["/".join(map(str, key)) for key in zip(*whose, strict=True)]
        times = np.array(columns["time"], np.float64)
        for key in dict.fromkeys(keys):
            is_own = np.array([each == key for each in keys])
            for name in names:
                unit = unit_of(f"query {view}.{name}")
                values = np.array(columns[name], np.float64)[is_own]  # None becomes NaN
                steps = np.arange(len(values))
                title = clean(f"{kind}/{key}/{name}")
                yield replace(_series(title, unit, steps, times[is_own], values), axis="sample")


def _series(
    name: str, unit: str, steps: Any, times: Any, values: npt.NDArray[np.floating]
) -> Series:
    """A series without the points whose values are not finite."""
    is_finite = np.isfinite(values)
    kept: Floats = values[is_finite].astype(np.float64)
    return Series(name, unit, steps[is_finite], times[is_finite], kept, len(kept))
