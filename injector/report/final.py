"""The state of a run that has ended, as a live view shows it.

Its figures are those of the report, which are of all measured steps, while a live view shows the last
seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..analysis.machines import HostUsage
from ..analysis.profile import Profile
from ..analysis.recorded import Recorded
from ..analysis.statistics import number
from ..analysis.summary import Summary
from ..analysis.training_loop import LoopRank, TrainingLoop
from ..live.snapshot import DeviceRow, HostRow, RankRow, Snapshot, Speed, TaskRow
from .terminal import ending
from .text import line_of
from .training_loops import full_name


def snapshot(summary: Summary) -> Snapshot:
    """The snapshot of a run that has ended."""
    profile = summary.profile
    loops = profile.loops if profile else ()
    main = loops[0] if loops else None
    duration = number(summary.duration)
    machines = summary.machines
    verdict = [f"verdict: {profile.verdict.sentence}"] if profile and loops else []
    return Snapshot(
        name=summary.title,
        elapsed=duration if duration is not None else (profile.wall if profile else 0.0),
        state="ended",
        steps=main.steps if main else 0,
        goal=_goal(summary.limits),
        left=None,
        unit=main.throughput.unit if main else "steps/s",
        rate=None,
        overall=main.throughput.speed if main else None,
        step=main.step.median if main else None,
        regions=_regions(main) if main else {},
        values=_values(summary.summary),
        ranks=tuple(_ranks(summary, loops)),
        devices=tuple(_devices(machines)),
        hosts=tuple(_host(machine) for machine in machines if machine.samples > 1),
        tasks=_tasks(profile),
        missing=summary.missing,
        notes=(*ending(summary), *summary.outcomes, *verdict),
    )


def _goal(limits: Mapping[str, Any]) -> int | None:
    """The number of steps after which ``--stop`` was to end the run; None without one."""
    stop = limits.get("stop")
    return None if stop is None else int(stop + (limits.get("skip") or 0))


def _regions(loop: TrainingLoop) -> dict[str, float]:
    """The shares of a step by region, without regions inside, as the verdict and a live view have them."""
    shares = loop.tree.shares()
    return {name: share for name, share in shares.items() if name != "other" and share}


def _values(summary: Recorded) -> dict[str, float]:
    """The last value of each series, by its name as a live view has it."""
    values = {}
    for series in summary.series:
        last = number(series.last)
        if last is not None:
            name = f"{series.task}/{series.name}" if series.task else series.name
            values[name] = last
    return values


def _tasks(profile: Profile | None) -> tuple[TaskRow, ...]:
    """A row for each loop, the longest first, and for each place that evaluates."""
    if profile is None:
        return ()
    rows = [
        TaskRow(
            task=full_name(loop),
            ranks=len({track.rank for track in loop.ranks}),
            steps=loop.steps,
            unit=loop.throughput.unit,
            rate=None,
            overall=loop.throughput.speed,
            step=loop.step.median,
            active=False,
        )
        for loop in profile.loops
    ]
    for each in profile.evaluations:
        name = (
            f"evaluation {line_of(each.place)}{f' data {each.data}' if each.data else ''}".strip()
        )
        rows.append(TaskRow(name, 1, each.batches, "items/s", None, each.throughput, None, False))
    return tuple(rows)


def _ranks(summary: Summary, loops: Sequence[TrainingLoop]) -> Iterable[RankRow]:
    """A row for each process of the last attempt, with the figures of the longest loop that it is in."""
    last = max((loop.attempt or 0 for loop in loops), default=0)
    tracks: dict[int, list[tuple[TrainingLoop, LoopRank]]] = {}
    for loop in loops:
        for track in loop.ranks:
            if (loop.attempt or 0) == last:
                tracks.setdefault(track.process, []).append((loop, track))
    losses = [value for name, value in _values(summary.summary).items() if "loss" in name.lower()]
    processes = summary.processes
    for process, of_process in sorted(tracks.items(), key=lambda item: item[1][0][1].order):
        loop, track = of_process[0]
        facts = processes[process] if process < len(processes) else {}
        outcome = next((broken for broken in summary.broken if broken.process == process), None)
        yield RankRow(
            rank=track.rank,
            pid=facts.get("pid"),
            host=track.host,
            device=track.device,
            steps=track.steps,
            rate=track.throughput.speed,
            step=track.step.median,
            loss=losses[0] if losses and len(tracks) == 1 else None,
            state="ended" if outcome is None else outcome.state,
            regions=_shares(track),
            attempt=last,
            tasks={one.task: _task(in_loop) for one, in_loop in of_process},
        )


def _shares(track: LoopRank) -> dict[str, float]:
    """The shares of the median step of one rank, by region."""
    step = track.step.median
    return {name: s / step for name, s in track.regions.items() if step > 0 and name != "other"}


def _task(track: LoopRank) -> Speed:
    return Speed(track.steps, 0, None, track.step.median, track.throughput.speed)


def _devices(machines: Iterable[HostUsage]) -> Iterable[DeviceRow]:
    """A row for each device: mean load and power, peaks of memory and temperature."""
    for machine in machines:
        for device in machine.devices:
            memory = None if device.peak_memory is None else float(device.peak_memory)
            total = None if device.total_memory is None else float(device.total_memory)
            yield DeviceRow(
                number=device.number,
                name=device.name,
                host=machine.host,
                load=device.load,
                memory=memory,
                memory_total=total,
                temperature=device.peak_temperature,
                power=device.power,
                mean_load=device.load,
                mean_power=device.power,
                ranks=machine.ranks.get(device.number, ()),
            )


def _host(machine: HostUsage) -> HostRow:
    """The row of a host: the mean load of its processors, the peaks of memory."""
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
