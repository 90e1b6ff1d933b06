"""The rates of a run's steps, one by one, and its figures over time in a few hundred points each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..store.folder import Run, read_events
from ..store.logs import Damage
from ..store.monitor import Monitored, cpu_load, read
from .arrays import kept_of
from .columns import SECOND, sources
from .loops import grouped, labels
from .recorded import number
from .traces import LoopTrace, traces_of
from .wording import rank_name

Column = npt.NDArray[np.float64]


class Stepping(NamedTuple):
    """The steps of one loop, those to skip left out."""

    task: str
    paced_by: str
    """As that of a :class:`.profile.TrainingLoop`."""
    unit: str
    """``"items/s"``; ``"steps/s"`` where the items of a step are not known."""
    rates: tuple[float, ...]
    """One a step: the sum over ranks of items (else steps) by that step's seconds."""
    seconds: float
    """Of a step, on average over steps and ranks; 0 where there is none."""
    items: float | None
    """Of a step of all ranks together, on average."""
    ranks: int
    """Processes that made the steps side by side."""
    world: int | None
    """How many ranks there were, as they say themselves."""


class _Steps(NamedTuple):
    """The steps of one rank, in order."""

    seconds: Column
    items: Column | None


def stepping(run: Run, skip: int = 0) -> Stepping | None:
    """The steps of ``run`` after the first ``skip``; None where no loop was seen.

    Where several loops were seen, those of the one that took longest. Nothing else is taken for
    warm-up: ``skip`` decides, so that ``--skip K --stop N`` gives N rates. Raises OSError, and
    NotARunError for records of a later version.
    """
    traces = traces_of(run)
    if not traces:
        return None
    longest = grouped(traces, jobs=False)[0]
    tracks = _ranks_of(longest)
    count = min(len(track.seconds) for track in tracks)
    seconds = np.stack([track.seconds[skip:count] for track in tracks])
    items = None
    if all(track.items is not None for track in tracks):
        items = np.stack([track.items[skip:count] for track in tracks if track.items is not None])
    together = len({trace.source.rank for trace in longest} - {None}) > 1
    return Stepping(
        task=longest[0].pace.task,
        paced_by=longest[0].pace.paced_by,
        unit="items/s" if items is not None else "steps/s",
        rates=tuple(_rates_of_steps(seconds, items, together).tolist()),
        seconds=float(seconds.mean()) if seconds.size else 0.0,
        items=float(items.sum(0).mean()) if items is not None and items.size else None,
        ranks=len(tracks),
        world=max((source.world for source in sources(run) if source.world), default=None),
    )


def _rates_of_steps(seconds: Column, items: Column | None, together: bool) -> Column:
    """Both of shape (ranks, steps)."""
    timed = (seconds > 0).all(0)
    if not timed.all():
        seconds = seconds[:, timed]
        items = None if items is None else items[:, timed]
    if items is not None:
        found: Column = (items / seconds).sum(0)
        return found
    # Ranks that work on one job make each step together; others make their own.
    steps = 1 / seconds
    return np.median(steps, axis=0) if together else steps.sum(0)


def _ranks_of(traces: list[LoopTrace]) -> list[_Steps]:
    """The steps of each rank: what was started again, or follows in time, goes on where that ended."""
    ranks: dict[object, list[LoopTrace]] = {}
    for trace in sorted(traces, key=lambda trace: int(trace.start[0])):
        rank = trace.source.rank
        ranks.setdefault(_free(ranks, trace) if rank is None else rank, []).append(trace)
    return [_joined_steps(of_rank) for of_rank in ranks.values()]


def _free(ranks: dict[object, list[LoopTrace]], trace: LoopTrace) -> object:
    """Where ``trace``, which has no rank, can follow: processes side by side are ranks of their own."""
    for name, others in ranks.items():
        if isinstance(name, tuple) and int(others[-1].end[-1]) <= int(trace.start[0]):
            return name
    return "none", len(ranks)


def _joined_steps(traces: list[LoopTrace]) -> _Steps:
    items = [trace.items for trace in traces if trace.items is not None]
    return _Steps(
        np.concatenate([trace.table.seconds for trace in traces]).astype(np.float64),
        np.concatenate(items).astype(np.float64) if len(items) == len(traces) else None,
    )


POINTS = 300
STEPS = 4
"""Steps that a point stands for, at least."""
Line = list[tuple[float, float]]
"""Seconds since the run began, and a value."""
TimeSeries = dict[str, dict[str, Line]]
"""By ``rate step loss load memory power cpu rss``, and by what it is of: a task, rank, device, host."""


def time_series(run: Run) -> TimeSeries:
    """What was recorded of ``run`` over its time; fractions, bytes, watts, seconds, items per second.

    Where the items of a step are not known, rates are in steps per second. Raises OSError.
    """
    return series_of(run, traces_of(run))


def series_of(run: Run, found: list[LoopTrace]) -> TimeSeries:
    """:func:`time_series`, where the loops of ``run`` have been found before."""
    began = began_at(run, found)
    made: TimeSeries = {"rate": {}, "step": {}}
    loops = grouped(found)
    for traces, job in zip(loops, labels(loops), strict=True):
        for key, name, line in _loop(traces, began):
            name = f"{name}, {job}" if job and key == "rate" else name
            made[key].setdefault(name, []).extend(line)
    made["loss"] = {name: thinned(line) for name, line in _losses(run, began).items()}
    for seen in read(run.content):
        _monitored(made, seen, began)
    return {
        key: {name: sorted(line) for name, line in lines.items() if line}
        for key, lines in made.items()
    }


def began_at(run: Run, traces: Sequence[LoopTrace]) -> float:
    """Unix seconds at which ``run`` began; where it does not say so, its first step did."""
    started = number(run.info.get("started"))
    if started is not None:
        return started
    return min((float(trace.start[0]) / SECOND for trace in traces), default=0.0)


def _loop(traces: list[LoopTrace], began: float) -> Iterable[tuple[str, str, Line]]:
    """A loop's rate over all its ranks, and the time of each rank's steps."""
    first = min(int(trace.start[0]) for trace in traces)
    last = max(int(trace.end[-1]) for trace in traces)
    most = max(len(trace.start) for trace in traces)
    # A few steps in each: else what is seen is where the edges fall between them.
    edges = np.linspace(first, last, 1 + min(POINTS, max(1, most // STEPS)))
    width = (edges[1] - edges[0]) / SECOND
    middle = ((edges[:-1] + edges[1:]) / 2 / SECOND - began).tolist()
    if width <= 0:
        return
    counted = all(trace.items is not None for trace in traces)
    total = np.zeros(len(middle))
    for trace in traces:
        where = np.clip(np.searchsorted(edges, trace.end, side="left") - 1, 0, len(middle) - 1)
        amount = trace.items if counted else None
        total += np.bincount(where, amount, len(middle))
        name = rank_name(trace.source.rank, trace.source.pid)
        yield "step", name, _means(middle, where, trace.table.seconds)
    together = len({trace.source.rank for trace in traces} - {None}) > 1
    share = len(traces) if together and not counted else 1
    task = traces[0].pace.task
    yield (
        "rate",
        task,
        [(t, v / width / share) for t, v in zip(middle, total.tolist(), strict=True)],
    )


def _means(middle: list[float], where: Any, values: Any) -> Line:
    n = len(middle)
    count, total = np.bincount(where, None, n), np.bincount(where, values, n)
    return [(middle[at], float(total[at] / count[at])) for at in np.flatnonzero(count).tolist()]


def _losses(run: Run, began: float) -> dict[str, Line]:
    found: dict[str, Line] = {}
    for _, event, data in read_events(run, Damage()):
        if event != "data" or not isinstance(data, dict):
            continue
        when = number(data.get("time"))
        for name, value in data.items():
            known = number(value) if "loss" in name.lower() else None
            if known is not None and when is not None and np.isfinite(known):
                task = data.get("task")
                found.setdefault(f"{task}/{name}" if task else name, []).append(
                    (when - began, known)
                )
    return found


def thinned(line: Line) -> Line:
    """At most :data:`POINTS` of a line: its ends, and the least and the largest of each part in between."""
    return [line[at] for at in kept_of(np.array([value for _, value in line]), POINTS).tolist()]


def _monitored(made: TimeSeries, seen: Monitored, began: float) -> None:
    """The samples of one host and its devices."""
    cpu: Line = []
    for before, sample in pairwise(seen.hosts):
        load = cpu_load(before.data.get("cores"), sample.data.get("cores"))
        if load is not None:
            cpu.append((sample.time - began, load))
    rss = [
        (sample.time - began, float(sum(each.get("rss") or 0 for each in processes)))
        for sample in seen.trees
        if (processes := sample.data.get("processes"))
    ]
    made.setdefault("cpu", {})[seen.host] = thinned(cpu)
    made.setdefault("rss", {})[seen.host] = thinned(rss)
    for key, name in (("load", "load"), ("memory", "memory_used"), ("power", "power")):
        for device in seen.described:
            states = [
                (s.time - began, number(s.data.get(device, {}).get(name))) for s in seen.devices
            ]
            known = [(when, value) for when, value in states if value is not None]
            made.setdefault(key, {})[device] = thinned(known)
