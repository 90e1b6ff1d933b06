"""The course of a run that is over: a few figures over its time, in at most a few hundred points each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..store.folder import Damage, Run, read_events
from . import monitored
from .columns import SECOND, read_rows, sources
from .loops import grouped, labels
from .recorded import number
from .units import Unit, threads_of

POINTS = 300
STEPS = 4
"""Steps that a point stands for, at least."""
Line = list[tuple[float, float]]
"""Seconds since the run began, and a value."""
Course = dict[str, dict[str, Line]]
"""By ``rate step loss load memory power cpu rss``, and by what it is of: a task, rank, device, host."""


def course(run: Run) -> Course:
    """What was recorded of ``run`` over its time; fractions, bytes, watts, seconds, items per second.

    Where the items of a step cannot be told, rates are in steps per second. Raises OSError.
    """
    found = [
        unit
        for source in sources(run)
        if source.has_spans()
        for thread in threads_of(source, read_rows(source))
        for unit in thread.units
    ]
    began = _began(run, found)
    made: Course = {"rate": {}, "step": {}}
    loops = grouped(found)
    for units, job in zip(loops, labels(loops), strict=True):
        for key, name, line in _loop(units, began):
            name = f"{name}, {job}" if job and key == "rate" else name
            made[key].setdefault(name, []).extend(line)
    made["loss"] = {name: thinned(line) for name, line in _losses(run, began).items()}
    for seen in monitored.read(run.content):
        _monitored(made, seen, began)
    return {key: _in_order(lines) for key, lines in made.items()}


def _began(run: Run, units: Sequence[Unit]) -> float:
    started = number(run.info.get("started"))
    if started is not None:
        return started
    return min((float(unit.start[0]) / SECOND for unit in units), default=0.0)


def _in_order(lines: Mapping[str, Line]) -> dict[str, Line]:
    return {name: sorted(line) for name, line in lines.items() if line}


def _loop(units: list[Unit], began: float) -> Iterable[tuple[str, str, Line]]:
    """A loop's rate over all its ranks, and the time of each rank's steps."""
    first = min(int(unit.start[0]) for unit in units)
    last = max(int(unit.end[-1]) for unit in units)
    most = max(len(unit.start) for unit in units)
    # A few steps in each: else what is seen is where the edges fall between them.
    edges = np.linspace(first, last, 1 + min(POINTS, max(1, most // STEPS)))
    width = (edges[1] - edges[0]) / SECOND
    middle = ((edges[:-1] + edges[1:]) / 2 / SECOND - began).tolist()
    if width <= 0:
        return
    counted = all(unit.items is not None for unit in units)
    total = np.zeros(len(middle))
    for unit in units:
        where = np.clip(np.searchsorted(edges, unit.end, side="left") - 1, 0, len(middle) - 1)
        amount = unit.items if counted else None
        total += np.bincount(where, amount, len(middle))
        yield "step", _who(unit), _means(middle, where, unit.table.seconds)
    together = len({unit.source.rank for unit in units} - {None}) > 1
    share = len(units) if together and not counted else 1
    task = units[0].pace.task
    yield (
        "rate",
        task,
        [(t, v / width / share) for t, v in zip(middle, total.tolist(), strict=True)],
    )


def _means(middle: list[float], where: Any, values: Any) -> Line:
    n = len(middle)
    count, total = np.bincount(where, None, n), np.bincount(where, values, n)
    return [(middle[at], float(total[at] / count[at])) for at in np.flatnonzero(count).tolist()]


def _who(unit: Unit) -> str:
    rank = unit.source.rank
    return f"process {unit.source.pid}" if rank is None else f"rank {rank}"


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
    """At most :data:`POINTS` of a line, spread evenly over its points."""
    if len(line) <= POINTS:
        return line
    kept = np.unique(np.linspace(0, len(line) - 1, POINTS).astype(int)).tolist()
    return [line[at] for at in kept]


def _monitored(made: Course, seen: monitored.Monitored, began: float) -> None:
    """The samples of one host and its devices."""
    cpu: Line = []
    before: list[list[float]] | None = None
    for sample in seen.hosts:
        cores = sample.data.get("cores") or []
        if before and len(before) == len(cores):
            busy = sum(new[0] - old[0] for old, new in zip(before, cores, strict=True))
            idle = sum(new[1] - old[1] for old, new in zip(before, cores, strict=True))
            if busy + idle > 0:
                cpu.append((sample.time - began, max(busy, 0.0) / (busy + idle)))
        before = cores
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
