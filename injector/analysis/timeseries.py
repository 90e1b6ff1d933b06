"""The rates of a run's steps, one by one, and its figures over time in a few hundred points each.

:func:`stepping` gives every rate, as a suite needs them for a benchmark's score. :func:`time_series` gives
lines for charts: rates, step times, losses, and what the monitor sampled, each thinned to :data:`POINTS`
points.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..store.folder import Run, data_events
from ..store.monitor import Monitored, cpu_load, read
from .arrays import kept_of
from .columns import SECOND, sources
from .loops import grouped, labels, warmup_steps, work_together
from .statistics import number
from .traces import LoopTrace, traces_of
from .wording import device_name

Column = npt.NDArray[np.float64]


class Stepping(NamedTuple):
    """The steps of one loop, without those to skip."""

    task: str
    paced_by: str
    """As in :class:`.profile.TrainingLoop`."""
    unit: str
    """``"items/s"``, or ``"steps/s"`` where the items of a step are not known."""
    rates: tuple[float, ...]
    """One for each step: the sum over ranks of items (else steps) divided by that step's seconds."""
    seconds: float
    """Seconds of a step, on average over measured steps and ranks; 0 if there is none."""
    items: float | None
    """Items of a step of all ranks, on average over measured steps."""
    ranks: int
    """How many processes made the steps side by side."""
    world: int | None
    """How many ranks there were, as they recorded themselves."""


class _Steps(NamedTuple):
    """The steps of one rank, in order."""

    seconds: Column
    items: Column | None


def stepping(run: Run, skip: int = 0) -> Stepping | None:
    """The steps of ``run`` after the first ``skip``; None if no loop was recorded.

    Of several loops, it is the one that took longest. Rates are those of all steps but ``skip``, so that
    ``--skip K --stop N`` gives N rates; seconds and items are means without the warm-up, as in a report.
    Raises OSError, and NotARunError for records of a later version.
    """
    traces = traces_of(run)
    if not traces:
        return None
    # All processes that went through the loop count, whether or not they are ranks of one job.
    longest = grouped(traces, jobs=False)[0]
    ranks = _steps_of_ranks(longest)
    # A rank that was killed may have a step less than the others.
    count = min(len(rank.seconds) for rank in ranks)
    seconds = np.stack([rank.seconds[skip:count] for rank in ranks])
    items = None
    if all(rank.items is not None for rank in ranks):
        items = np.stack([rank.items[skip:count] for rank in ranks if rank.items is not None])
    warmup = max(min(warmup_steps(longest, skip), count // 2) - skip, 0)
    measured, items_measured = seconds[:, warmup:], None if items is None else items[:, warmup:]
    return Stepping(
        task=longest[0].pace.task,
        paced_by=longest[0].pace.paced_by,
        unit="items/s" if items is not None else "steps/s",
        rates=tuple(_rates_of_steps(seconds, items, work_together(longest)).tolist()),
        seconds=float(measured.mean()) if measured.size else 0.0,
        items=float(items_measured.sum(0).mean())
        if items_measured is not None and items_measured.size
        else None,
        ranks=len(ranks),
        world=max((source.world for source in sources(run) if source.world), default=None),
    )


def _rates_of_steps(seconds: Column, items: Column | None, together: bool) -> Column:
    """The rate of each step; ``seconds`` and ``items`` are of shape (ranks, steps)."""
    # The clock may be too coarse for a step that does next to nothing, whose rate would be infinite.
    timed = (seconds > 0).all(0)
    if not timed.all():
        seconds = seconds[:, timed]
        items = None if items is None else items[:, timed]
    if items is not None:
        rates: Column = (items / seconds).sum(0)
        return rates
    # Ranks of one job make a step together, which is one step; processes without ranks make their own.
    steps = 1 / seconds
    return np.median(steps, axis=0) if together else steps.sum(0)


def _steps_of_ranks(traces: list[LoopTrace]) -> list[_Steps]:
    """The steps of each rank. A rank that was started again continues its earlier steps."""
    ranks: dict[object, list[LoopTrace]] = {}
    for trace in sorted(traces, key=lambda trace: int(trace.start[0])):
        rank = trace.source.rank
        ranks.setdefault(_predecessor(ranks, trace) if rank is None else rank, []).append(trace)
    return [_joined_steps(of_rank) for of_rank in ranks.values()]


def _predecessor(ranks: dict[object, list[LoopTrace]], trace: LoopTrace) -> object:
    """The key in ``ranks`` of what ``trace``, which has no rank, continues, or a new key.

    A process that begins after another one has ended continues it; one that runs beside all others does not.
    """
    for key, earlier in ranks.items():
        if isinstance(key, tuple) and int(earlier[-1].end[-1]) <= int(trace.start[0]):
            return key
    return "none", len(ranks)


def _joined_steps(traces: list[LoopTrace]) -> _Steps:
    items = [trace.items for trace in traces if trace.items is not None]
    return _Steps(
        np.concatenate([trace.table.seconds for trace in traces]).astype(np.float64),
        np.concatenate(items).astype(np.float64) if len(items) == len(traces) else None,
    )


POINTS = 300
"""How many points a line has at most."""
STEPS = 4
"""How many steps a point stands for at least."""
Line = list[tuple[float, float]]
"""Seconds since the run began, and a value."""
TimeSeries = dict[str, dict[str, Line]]
"""By quantity (``rate step loss load memory power cpu rss``), and by a task, rank, device or host."""


def time_series(run: Run) -> TimeSeries:
    """What was recorded of ``run`` over time, in fractions, bytes, watts, seconds and items per second.

    Where the items of a step are not known, rates are in steps per second. Raises OSError.
    """
    return series_of(run, traces_of(run))


def series_of(run: Run, traces: list[LoopTrace]) -> TimeSeries:
    """:func:`time_series` of a run whose ``traces`` have been read before."""
    began = began_at(run, traces)
    series: TimeSeries = {"rate": {}, "step": {}}
    loops = grouped(traces)
    for loop, job in zip(loops, labels(loops), strict=True):
        for quantity, name, line in _lines_of_loop(loop, began):
            name = f"{name}, {job}" if job and quantity == "rate" else name
            series[quantity].setdefault(name, []).extend(line)
    series["loss"] = {name: thinned(line) for name, line in _losses(run, began).items()}
    monitors = read(run.content)
    hosts = {monitored.host for monitored in monitors}
    for monitored in monitors:
        _add_samples(series, monitored, began, hosts)
    return {
        quantity: {name: sorted(line) for name, line in lines.items() if line}
        for quantity, lines in series.items()
    }


def began_at(run: Run, traces: Sequence[LoopTrace]) -> float:
    """When ``run`` began, in unix seconds; where run.json does not say so, when its first step did."""
    started = number(run.info.get("started"))
    if started is not None:
        return started
    return min((float(trace.start[0]) / SECOND for trace in traces), default=0.0)


def _lines_of_loop(traces: list[LoopTrace], began: float) -> Iterable[tuple[str, str, Line]]:
    """The seconds of each rank's steps and the rate of all ranks, each with its quantity and its name."""
    first = min(int(trace.start[0]) for trace in traces)
    last = max(int(trace.end[-1]) for trace in traces)
    steps = max(len(trace.start) for trace in traces)
    # Several steps in each bucket: a bucket with one step beside one with two would look like half the rate.
    edges = np.linspace(first, last, 1 + min(POINTS, max(1, steps // STEPS)))
    width = (edges[1] - edges[0]) / SECOND
    middles = ((edges[:-1] + edges[1:]) / 2 / SECOND - began).tolist()
    if width <= 0:
        return
    counted = all(trace.items is not None for trace in traces)
    total = np.zeros(len(middles))
    for trace in traces:
        bucket = np.clip(np.searchsorted(edges, trace.end, side="left") - 1, 0, len(middles) - 1)
        amount = trace.items if counted else None
        total += np.bincount(bucket, amount, len(middles))
        name = trace.source.name
        yield "step", name, _means(middles, bucket, trace.table.seconds)
    # A step that ranks make together was counted once for each of them.
    divisor = len(traces) if work_together(traces) and not counted else 1
    rates = [(t, v / width / divisor) for t, v in zip(middles, total.tolist(), strict=True)]
    yield "rate", traces[0].pace.task, rates


def _means(middles: list[float], bucket: Any, values: Any) -> Line:
    """The mean of the ``values`` in each ``bucket`` that has some."""
    n = len(middles)
    count, total = np.bincount(bucket, None, n), np.bincount(bucket, values, n)
    return [(middles[at], float(total[at] / count[at])) for at in np.flatnonzero(count).tolist()]


def _losses(run: Run, began: float) -> dict[str, Line]:
    """Every finite value whose name has "loss" in it."""
    losses: dict[str, Line] = {}
    for _, _, data in data_events(run):
        time = number(data.get("time"))
        for name, recorded in data.items():
            value = number(recorded) if "loss" in name.lower() else None
            if value is not None and time is not None and np.isfinite(value):
                task = data.get("task")
                line = losses.setdefault(f"{task}/{name}" if task else name, [])
                line.append((time - began, value))
    return losses


def thinned(line: Line) -> Line:
    """At most :data:`POINTS` points of ``line``: its ends, and the extremes of each part in between."""
    return [line[at] for at in kept_of(np.array([value for _, value in line]), POINTS).tolist()]


def _add_samples(series: TimeSeries, monitored: Monitored, began: float, hosts: Set[str]) -> None:
    """Add to ``series`` the samples of a host and of its devices, also of one that earlier attempts had."""
    cpu: Line = []
    for before, sample in pairwise(monitored.hosts):
        load = cpu_load(before.data.get("cores"), sample.data.get("cores"))
        if load is not None:
            cpu.append((sample.time - began, load))
    rss = [
        (sample.time - began, float(sum(process.get("rss") or 0 for process in processes)))
        for sample in monitored.trees
        if (processes := sample.data.get("processes"))
    ]
    # Thinned by extremes, not by means: the peaks are what a reader looks for.
    series.setdefault("cpu", {}).setdefault(monitored.host, []).extend(thinned(cpu))
    series.setdefault("rss", {}).setdefault(monitored.host, []).extend(thinned(rss))
    for quantity, key in (("load", "load"), ("memory", "memory_used"), ("power", "power")):
        for device in monitored.described:
            values = [
                (sample.time - began, number(sample.data.get(device, {}).get(key)))
                for sample in monitored.devices
            ]
            known = [(time, value) for time, value in values if value is not None]
            name = device_name(monitored.host, device, hosts)
            series.setdefault(quantity, {}).setdefault(name, []).extend(thinned(known))
