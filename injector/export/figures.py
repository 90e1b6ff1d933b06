"""The figures of a run: one number each about the run as a whole, or one of its loops, devices and so on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from ..analysis.profile import Latency
from ..analysis.study import Study
from ..analysis.summary import Summary
from ..analysis.training_loop import Node, TrainingLoop
from ..metrics import unit_of
from ..value_class import fields
from .series import clean, loop_name, unused

Named = tuple[str, float | None, str]
"""The name, value and unit of a figure. The value is None if it is not known."""


@dataclass(frozen=True)
class Figure:
    """One number about a run as a whole."""

    value: float
    unit: str


def figures_of(summary: Summary) -> dict[str, Figure]:
    """The figures that are known, by name."""
    return {
        name: Figure(float(value), unit)
        for name, value, unit in _figures(summary)
        if value is not None and isfinite(value)
    }


def studies_of(summary: Summary) -> Iterator[tuple[str, Study]]:
    """The studies of a run in the order in which they began: ``study``, ``study_2`` and so on."""
    names: set[str] = set()
    for study in summary.profile.studies if summary.profile else ():
        yield unused("study", names), study


def _figures(summary: Summary) -> Iterator[Named]:
    yield "duration", summary.duration, unit_of("export duration")
    if summary.exit and summary.exit.get("code") is not None:
        yield "exit_code", summary.exit["code"], unit_of("export exit_code")
    if summary.profile:
        names: set[str] = set()
        for loop in summary.profile.loops:
            name = unused(loop_name(loop.task, loop.job, loop.attempt), names)
            yield from _below(name, "LOOP", _of_loop(loop))
            for region, share in loop.tree.shares().items():
                yield clean(f"{name}/share/{region}"), share, unit_of("export LOOP/share/REGION")
        for number, passes in enumerate(summary.profile.evaluations):
            name = f"evaluation{f'_{number}' if number else ''}"
            values = {key: getattr(passes, key) for key in ("passes", "seconds", "throughput")}
            yield from _below(name, "evaluation", values)
        for name, study in studies_of(summary):
            yield from _of_study(name, study)
        yield from _of_regions(summary.profile.others)
        names = set()
        for latency in summary.profile.latencies:
            name = unused(f"latency/{latency.what}", names)
            yield from _below(name, "latency/WHAT", _of_latency(latency))
    yield from _of_machines(summary)
    for one in summary.summary.series:
        if one.statistics:
            last = one.last if isinstance(one.last, (int, float)) else None
            name = clean("/".join(filter(None, (one.bench, one.task, one.name))))
            yield from _below(name, "TASK/NAME", {"last": last, "min": one.statistics.min})


def _below(name: str, pattern: str, values: Mapping[str, float | None]) -> Iterator[Named]:
    """``values`` below ``name``, with the units that the registry of metrics has below ``pattern``."""
    for key, value in values.items():
        yield f"{name}/{key}", value, unit_of(f"export {pattern}/{key}")


def _of_loop(loop: TrainingLoop) -> dict[str, float | None]:
    epochs = [each.seconds for each in loop.epochs]
    return {
        "epochs": len(epochs) or None,
        "epoch_time/mean": sum(epochs) / len(epochs) if epochs else None,
        "steps": loop.steps,
        "step_time/median": loop.step.median,
        "step_time/mean": loop.step.mean,
        "step_time/p95": loop.step.p95,
        "steps_per_second": loop.throughput.steps,
        "throughput": loop.throughput.items,
        "token_throughput": loop.throughput.tokens,
    }


def _of_study(name: str, study: Study) -> Iterator[Named]:
    """The times of a study's workers and phases, the numbers of its trials, and the best trial's values."""
    times = ("seconds", "workers", "in_trials", "in_framework", "idle")
    yield from _below(name, "STUDY", {key: getattr(study, key) for key in times})
    yield from _below(f"{name}/trials", "STUDY/trials", study.counts())
    best = study.best_trial
    for key, value in best.values.items() if best else ():
        yield clean(f"{name}/best/{key or 'value'}"), value, unit_of("export STUDY/best/VALUE")
    for phase in study.phases:
        for kind in ("seconds", "cpu", "peak_rss", "energy"):
            title = clean(f"{name}/phases/{phase.name}/{kind}")
            yield title, getattr(phase, kind), unit_of(f"export STUDY/phases/PHASE/{kind}")


def _of_regions(others: Sequence[Node]) -> Iterator[Named]:
    """The regions in no step and no evaluation. Those of one name are one."""
    for name in dict.fromkeys(node.name for node in others):
        calls = sum(node.host.n for node in others if node.name == name)
        total = sum(node.host.n * node.host.mean for node in others if node.name == name)
        values = {"calls": calls, "seconds": total, "mean": total / calls if calls else None}
        yield from _below(f"regions/{clean(name)}", "regions/REGION", values)


def _of_latency(latency: Latency) -> dict[str, float | None]:
    values = {
        f"{of}/{name}": getattr(percentiles, name)
        for of, percentiles in (("batch", latency.batch), ("query", latency.query))
        if percentiles is not None
        for name in fields(percentiles)
    }
    counts = {"batches": latency.batches, "queries": latency.queries}
    return {**values, "query/mean": latency.mean, **counts}


def _of_machines(summary: Summary) -> Iterator[Named]:
    """The peak memory of each host, and the load, memory, power and energy of its devices."""
    for machine in summary.machines:
        peak = {"peak_memory": machine.peak_rss or None}
        yield from _below(clean(f"hosts/{machine.host}"), "hosts/HOST", peak)
        for device in machine.devices:
            keys = ("load", "peak_memory", "power", "energy")
            values = {key: getattr(device, key) for key in keys}
            name = clean(f"devices/{machine.host}/{device.number}")
            yield from _below(name, "devices/HOST/DEVICE", values)
