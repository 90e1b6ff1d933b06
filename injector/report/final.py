"""The state of a run that is over, as a live view shows it.

Its figures are those of the report: of all measured steps, not of the last seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..analysis.machines import HostUsage
from ..analysis.profile import LoopRank, Profile, TrainingLoop
from ..analysis.recorded import Recorded, number
from ..analysis.summary import Summary
from ..live.snapshot import DeviceRow, HostRow, RankRow, Snapshot, Speed, TaskRow
from .terminal import ending
from .text import line_of
from .training_loops import full_name


def snapshot(summary: Summary) -> Snapshot:
    """The final state of the run that ``summary`` is of."""
    profile = summary.profile
    loops = profile.loops if profile else ()
    main = loops[0] if loops else None
    duration = number(summary.duration)
    watched = summary.machines
    verdict = [f"verdict: {profile.verdict.sentence}"] if profile and loops else []
    return Snapshot(
        name=summary.title,
        elapsed=duration if duration is not None else (profile.wall if profile else 0.0),
        state="ended",
        steps=main.steps if main else 0,
        goal=_goal(summary.limits),
        left=None,
        unit=_unit(main),
        rate=None,
        overall=_speed(main.throughput.items, main.throughput.steps) if main else None,
        step=main.step.median if main else None,
        regions=_regions(main) if main else {},
        values=_values(summary.summary),
        ranks=tuple(_ranks(summary, loops)),
        devices=tuple(_devices(watched)),
        hosts=tuple(_host(machine) for machine in watched if machine.samples > 1),
        tasks=_tasks(profile),
        missing=summary.missing,
        notes=(*ending(summary), *summary.outcomes, *verdict),
    )


def _goal(limits: object) -> int | None:
    stop = limits.get("stop") if isinstance(limits, dict) else None
    if not isinstance(limits, dict) or not isinstance(stop, (int, float)):
        return None
    return int(stop + (limits.get("skip") or 0))


def _unit(loop: TrainingLoop | None) -> str:
    return "steps/s" if loop is None or loop.throughput.items is None else "items/s"


def _speed(items: float | None, steps: float) -> float:
    return steps if items is None else items


def _regions(loop: TrainingLoop) -> dict[str, float]:
    """The parts of a step by name, each without those inside it, as its verdict and a live view have them."""
    shares = loop.tree.shares()
    return {name: share for name, share in shares.items() if name != "other" and share}


def _values(summary: Recorded) -> dict[str, float]:
    """The last value of each series."""
    found = {}
    for series in summary.series:
        last = number(series.last)
        if last is not None:
            name = f"{series.task}/{series.name}" if series.task else series.name
            found[name] = last
    return found


def _tasks(profile: Profile | None) -> tuple[TaskRow, ...]:
    """Every loop, the longest first, and every place that evaluates."""
    if profile is None:
        return ()
    found = [
        TaskRow(
            task=full_name(loop),
            ranks=len({track.rank for track in loop.ranks}),
            steps=loop.steps,
            unit=_unit(loop),
            rate=None,
            overall=_speed(loop.throughput.items, loop.throughput.steps),
            step=loop.step.median,
            active=False,
        )
        for loop in profile.loops
    ]
    for each in profile.evaluations:
        name = (
            f"evaluation {line_of(each.place)}{f' data {each.data}' if each.data else ''}".strip()
        )
        found.append(TaskRow(name, 1, each.batches, "items/s", None, each.throughput, None, False))
    return tuple(found)


def _ranks(summary: Summary, loops: Sequence[TrainingLoop]) -> Iterable[RankRow]:
    """A row for each process of the last attempt, at the loop that it spent most time in."""
    last = max((loop.attempt or 0 for loop in loops), default=0)
    tracks: dict[int, list[tuple[TrainingLoop, LoopRank]]] = {}
    for loop in loops:
        for track in loop.ranks:
            if (loop.attempt or 0) == last:
                tracks.setdefault(track.process, []).append((loop, track))
    losses = [value for name, value in _values(summary.summary).items() if "loss" in name.lower()]
    processes = summary.processes
    for process, mine in sorted(tracks.items(), key=lambda each: each[1][0][1].order):
        loop, track = mine[0]
        fact = processes[process] if process < len(processes) else {}
        outcome = next((each for each in summary.broken if each.process == process), None)
        yield RankRow(
            rank=track.rank,
            pid=fact.get("pid"),
            host=track.host,
            device=track.device,
            steps=track.steps,
            rate=_speed(track.throughput.items, track.throughput.steps),
            step=track.step.median,
            loss=losses[0] if losses and len(tracks) == 1 else None,
            state="ended" if outcome is None else outcome.state,
            regions=_shares(track),
            attempt=last,
            tasks={each.task: _task(of) for each, of in mine},
        )


def _shares(track: LoopRank) -> dict[str, float]:
    """Of the median step of one rank."""
    step = track.step.median
    return {name: s / step for name, s in track.regions.items() if step > 0 and name != "other"}


def _task(track: LoopRank) -> Speed:
    rate = _speed(track.throughput.items, track.throughput.steps)
    return Speed(track.steps, 0, None, track.step.median, rate)


def _devices(watched: Iterable[HostUsage]) -> Iterable[DeviceRow]:
    """Means and peaks of the whole run."""
    for machine in watched:
        for each in machine.devices:
            memory = None if each.peak_memory is None else float(each.peak_memory)
            total = None if each.total_memory is None else float(each.total_memory)
            yield DeviceRow(
                number=each.number,
                name=each.name,
                host=machine.host,
                load=each.load,
                memory=memory,
                memory_total=total,
                temperature=each.peak_temperature,
                power=each.power,
                mean_load=each.load,
                mean_power=each.power,
                ranks=machine.ranks.get(each.number, ()),
            )


def _host(machine: HostUsage) -> HostRow:
    """The mean of its processors, the most memory."""
    metrics: dict[str, Any] = machine.metrics
    cpu, memory = (
        metrics.get("cpu_avg_utilization_pct"),
        metrics.get("node_max_memory_utilization_pct"),
    )
    return HostRow(
        machine.host,
        None if cpu is None else cpu / 100,
        None if memory is None else memory / 100,
        float(machine.peak_rss) or None,
    )
