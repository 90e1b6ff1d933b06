"""What every tracker is given of a run: its properties, its figures, and its series step by step.

Series longer than wanted are thinned: of each part the least and the largest value stay, each at its own
step, so that no slow step is lost; :func:`thinning` says how many there were.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from itertools import chain
from math import isfinite, nan
from typing import Any

import numpy as np
import numpy.typing as npt

from ..analysis.arrays import distinct, kept_of, owners
from ..analysis.benchmark_metrics import NodeMetric, benchmark_metrics, benchmark_properties
from ..analysis.columns import SECOND, Floats, Ints, RecordedProcess, read_rows, sources
from ..analysis.loops import grouped, labels
from ..analysis.profile import Latency, Node, Study, TrainingLoop
from ..analysis.summary import Summary
from ..analysis.traces import LoopTrace, Thread, threads_of
from ..analysis.views import views
from ..metrics import unit_of
from ..store.folder import Run
from ..store.seal import ARTIFACTS
from ..value_class import fields

POINTS = 1000
"""Of a series, unless more are wanted: what trackers draw of one."""
EARLY = 2e-6
"""Seconds after the begin of a step in which a value still is of the step before: unix time as a float is as
exact as a quarter of a microsecond, and what a step made may be known between it and the next.
"""
MARKED = "injector.region"
"""The selector of what the program itself marks."""
NEGATIVE = re.compile(r"-\.?\d")
SECRET = re.compile(r"(?i)(passw|secret|token|api.?key|credential)")


@dataclass(frozen=True)
class Figure:
    """One number about a run as a whole."""

    value: float
    unit: str


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
    """Points before it was thinned."""
    axis: str = "step"
    """What ``steps`` count: ``step``, ``call``, ``sample`` or ``node``."""

    def points(self) -> Iterator[tuple[int, float, float]]:
        """Step, time and value of each."""
        return zip(self.steps.tolist(), self.times.tolist(), self.values.tolist(), strict=True)


@dataclass(frozen=True)
class Content:
    """One run, as it is exported."""

    run: Run
    summary: Summary
    labels: Mapping[str, str] = field(default_factory=dict)
    """What tells it from the other runs of its suite."""
    points: int = POINTS
    """Points of a series, at most; 0 for all."""
    pages: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """What is kept beside it as files, by their names: what makes the text of each."""

    @property
    def files(self) -> dict[str, str]:
        """The files that the program added (``injector.artifact``) and that are as they were: their paths by
        their names.
        """
        folder = os.path.join(self.run.content, ARTIFACTS)
        added = (str(each["name"]) for each in self.summary.artifacts if each.get("copied"))
        paths = {name: os.path.join(folder, name) for name in added}
        return {name: path for name, path in paths.items() if os.path.isfile(path)}

    @property
    def name(self) -> str:
        """Of the run; of one of a suite what tells it from the others."""
        return " ".join(map(str, self.labels.values())) or self.summary.title

    @cached_property
    def tags(self) -> dict[str, str]:
        """Properties of the run, its own and those of ``--tag``."""
        return {**benchmark_properties(self.run), **tags_of(self.summary, self.labels)}

    @cached_property
    def params(self) -> dict[str, str]:
        """What it was run with."""
        return params_of(self.summary)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """What it came to."""
        return {
            name: Figure(float(value), unit)
            for name, value, unit in _figures(self.summary)
            if value is not None and isfinite(value)
        }

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """All that has a value at many steps, thinned. Raises OSError."""
        traces: list[LoopTrace] = []
        marked: list[MarkedCalls] = []
        for source in sources(self.run):
            for thread in threads_of(source, read_rows(source)) if source.has_spans() else ():
                traces += thread.traces
                marked += _marked(thread)
        nodes = nodes_of(benchmark_metrics(self.run), self.summary.ended or 0.0)
        values, samples = values_of(self.run, traces), samples_of(self.run)
        found = chain(_loops(traces), _calls(marked), values, samples, nodes)
        return tuple(_thinned(one, self.points) for one in found)

    def regions(self) -> list[Series]:
        """Those series that have the seconds of regions, which nothing sends while the run goes on. Raises
        OSError.
        """
        return [one for one in self.series if "regions" in one.name.split("/")[:2]]


def thinning(content: Content) -> str:
    """Which series were thinned, as a sentence; empty where none was."""
    long = [one for one in content.series if one.total > len(one.values)]
    if not long:
        return ""
    most = max(long, key=lambda one: one.total)
    return (
        f"{len(long)} series are longer than {content.points} points: of each part the least and the "
        f"largest value are exported ({most.name}: {len(most.values)} of {most.total}); --points 0 "
        "exports all"
    )


def clean(name: str) -> str:
    """``name`` with the letters that every tracker takes in the name of a metric."""
    return re.sub(r"[^\w\-. /]", "_", name, flags=re.ASCII).strip("/ ") or "unnamed"


# --- properties -----------------------------------------------------------------------------------


def tags_of(summary: Summary, labels: Mapping[str, str]) -> dict[str, str]:
    """What a run is found by: its own tags, and what it was and how it ended."""
    ended = summary.exit or {}
    git = summary.environment.git if summary.environment else {}
    sentence = summary.profile.verdict.sentence if summary.profile else None
    own = {
        "command": " ".join(without_secrets(summary.command or ())) or None,
        "host": summary.host,
        "started": None if summary.started is None else _utc(summary.started),
        "exit": ended.get("signal") or ended.get("code"),
        "stopped": "true" if summary.stopped else None,
        "verdict": sentence,
        "folder": os.path.basename(os.path.abspath(summary.run)),
        "git.commit": git.get("commit"),
        "git.branch": git.get("branch"),
        "git.dirty": None if git.get("dirty") is None else str(bool(git["dirty"])).lower(),
        "damage": "; ".join(summary.missing) or None,
    }
    found = {f"injector.{key}": str(value) for key, value in own.items() if value is not None}
    return {**found, **labels, **{key: str(value) for key, value in summary.tags.items()}}


def _utc(moment: float) -> str:
    return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="milliseconds")


def params_of(summary: Summary) -> dict[str, str]:
    """The program's own options, and what it ran on."""
    environment = summary.environment
    cpu = environment.cpu if environment else {}
    found: dict[str, object] = {
        **dict(_options(summary.command or ())),
        **{key: text for key, text in summary.params.items() if not SECRET.search(key)},
        **{f"injector.{key}": value for key, value in summary.limits.items()},
        "python": summary.python,
        "platform": environment.platform if environment else None,
        "cpu": cpu.get("brand"),
        "cpu_count": cpu.get("count"),
        "ranks": len({each.get("rank") for each in summary.processes} - {None}) or None,
    }
    for name, study in _studies(summary):
        found |= _params_of_study(name, study)
    devices = [each.name for seen in summary.machines for each in seen.devices]
    found["devices"] = ", ".join(devices) or None
    for name in (
        "torch",
        "jax",
        "keras",
        "lightning",
        "transformers",
        "lightgbm",
        "xgboost",
        "catboost",
    ):
        found[f"version.{name}"] = environment.packages.get(name) if environment else None
    return {key: str(value) for key, value in found.items() if value not in (None, "")}


def _params_of_study(name: str, study: Study) -> dict[str, object]:
    """What searched, and the hyper-parameters of the best trial."""
    found: dict[str, object] = {
        f"{name}.{key}": getattr(study, key) for key in ("framework", "sampler", "pruner", "metric")
    }
    found[f"{name}.goal"] = ", ".join(study.goals)
    best = study.best_trial
    if best is not None:
        found[f"{name}.best.trial"] = best.number
        params = {key: value for key, value in best.params.items() if not SECRET.search(key)}
        found |= {f"{name}.best.{key}": value for key, value in params.items()}
    return found


def _studies(summary: Summary) -> Iterator[tuple[str, Study]]:
    """``study``, ``study_2`` and so on, in the order in which they began."""
    names: set[str] = set()
    for study in summary.profile.studies if summary.profile else ():
        yield _unused("study", names), study


def _options(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """``--lr 0.1``, ``--lr=0.1`` and ``lr=0.1`` after the program, as pairs; nothing that looks secret."""
    words = list(command)
    start = next((at for at, word in enumerate(words) if word.endswith(".py")), -1)
    words = words[start + 1 :]
    for at, word in enumerate(words):
        key, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and not equals:
            after = words[at + 1] if at + 1 < len(words) else "-"
            value = "true" if after.startswith("-") and not NEGATIVE.match(after) else after
        elif not equals:
            continue
        if re.fullmatch(r"[A-Za-z_][\w.\-]*", key) and not SECRET.search(key):
            yield key, value


def without_secrets(command: Sequence[str]) -> Iterator[str]:
    """The words of ``command``, with ``***`` for the value of an option that looks secret."""
    hidden = False
    for word in command:
        key, equals, _ = word.partition("=")
        secret = bool(SECRET.search(key)) and (bool(equals) or word.startswith("-"))
        if hidden and not word.startswith("-"):
            yield "***"
        else:
            yield f"{key}=***" if secret and equals else word
        hidden = secret and not equals


# --- figures --------------------------------------------------------------------------------------


def _figures(summary: Summary) -> Iterator[tuple[str, float | None, str]]:
    """Name, value and unit of each; None for what is not known."""
    yield "duration", summary.duration, unit_of("export duration")
    if summary.exit and summary.exit.get("code") is not None:
        yield "exit_code", summary.exit["code"], unit_of("export exit_code")
    if summary.profile:
        names: set[str] = set()
        for loop in summary.profile.loops:
            name = _unused(_title(loop.task, loop.job, loop.attempt), names)
            yield from _named(name, "LOOP", _of_loop(loop))
            for region, share in loop.tree.shares().items():
                yield clean(f"{name}/share/{region}"), share, unit_of("export LOOP/share/REGION")
        for number, passes in enumerate(summary.profile.evaluations):
            name = f"evaluation{f'_{number}' if number else ''}"
            known = {key: getattr(passes, key) for key in ("passes", "seconds", "throughput")}
            yield from _named(name, "evaluation", known)
        for name, study in _studies(summary):
            yield from _of_study(name, study)
        yield from _of_regions(summary.profile.others)
        names = set()
        for latency in summary.profile.latencies:
            name = _unused(f"latency/{latency.what}", names)
            yield from _named(name, "latency/WHAT", _of_latency(latency))
    for seen in summary.machines:
        peak = {"peak_memory": seen.peak_rss or None}
        yield from _named(clean(f"hosts/{seen.host}"), "hosts/HOST", peak)
        for device in seen.devices:
            figures = ("load", "peak_memory", "power", "energy")
            values = {each: getattr(device, each) for each in figures}
            name = clean(f"devices/{seen.host}/{device.number}")
            yield from _named(name, "devices/HOST/DEVICE", values)
    for one in summary.summary.series:
        if one.statistics:
            last = one.last if isinstance(one.last, (int, float)) else None
            name = clean("/".join(filter(None, (one.bench, one.task, one.name))))
            yield from _named(name, "TASK/NAME", {"last": last, "min": one.statistics.min})


def _named(
    name: str, pattern: str, values: Mapping[str, float | None]
) -> Iterator[tuple[str, float | None, str]]:
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


def _of_study(name: str, study: Study) -> Iterator[tuple[str, float | None, str]]:
    """The best trial's values, how many trials ended how, and the time of the workers and of phases."""
    whole = ("seconds", "workers", "in_trials", "in_framework", "idle")
    yield from _named(name, "STUDY", {key: getattr(study, key) for key in whole})
    yield from _named(f"{name}/trials", "STUDY/trials", study.counts())
    best = study.best_trial
    for key, value in best.values.items() if best else ():
        yield clean(f"{name}/best/{key or 'value'}"), value, unit_of("export STUDY/best/VALUE")
    for phase in study.phases:
        for kind in ("seconds", "cpu", "peak_rss", "energy"):
            title = clean(f"{name}/phases/{phase.name}/{kind}")
            yield title, getattr(phase, kind), unit_of(f"export STUDY/phases/PHASE/{kind}")


def _of_regions(others: Sequence[Node]) -> Iterator[tuple[str, float | None, str]]:
    """Regions in no step and no evaluation, those of one name as one."""
    for name in dict.fromkeys(node.name for node in others):
        calls = sum(node.host.n for node in others if node.name == name)
        total = sum(node.host.n * node.host.mean for node in others if node.name == name)
        values = {"calls": calls, "seconds": total, "mean": total / calls if calls else None}
        yield from _named(f"regions/{clean(name)}", "regions/REGION", values)


def _of_latency(latency: Latency) -> dict[str, float | None]:
    found = {
        f"{of}/{name}": getattr(percentiles, name)
        for of, percentiles in (("batch", latency.batch), ("query", latency.query))
        if percentiles is not None
        for name in fields(percentiles)
    }
    counts = {"batches": latency.batches, "queries": latency.queries}
    return {**found, "query/mean": latency.mean, **counts}


# --- series ---------------------------------------------------------------------------------------


def _title(task: str, job: str | None, attempt: int | None) -> str:
    again = f"attempt {attempt}" if attempt else None
    return clean(" ".join(filter(None, (task, job, again))))


def _unused(name: str, names: set[str]) -> str:
    """``name``, or ``name_2`` where one of ``names`` is called so already."""
    found = next(
        each for n in range(1, 1 << 30) if (each := f"{name}_{n}" if n > 1 else name) not in names
    )
    names.add(found)
    return found


def _loops(traces: list[LoopTrace]) -> Iterator[Series]:
    names: set[str] = set()
    loops = grouped(traces)
    for group, job in zip(loops, labels(loops), strict=True):
        name = _unused(_title(group[0].pace.task, job, group[0].source.attempt), names)
        for number, trace in enumerate(group):
            rank = number if trace.source.rank is None else trace.source.rank
            yield from _of_trace(name, f"/rank_{rank}" if len(group) > 1 else "", trace)
        if len(group) > 1:
            yield from _together(name, group)


def _of_trace(name: str, rank: str, trace: LoopTrace) -> Iterator[Series]:
    """The seconds of each step and of its regions, and its rate. A step counts when it ends."""
    seconds = trace.table.seconds.astype(np.float64)
    steps, ends = np.arange(len(seconds)), trace.end / SECOND
    unit = unit_of("export LOOP/step_time")
    yield _series(f"{name}/step_time{rank}", unit, steps, ends, seconds)
    unit = unit_of("export LOOP/regions/REGION")
    for region, taken in trace.table.regions().items():
        yield _series(f"{name}/regions/{clean(region)}{rank}", unit, steps, ends, taken)
    for amount, kind in ((trace.items, "rate"), (trace.tokens, "token_rate")):
        if amount is not None:
            rates = amount / np.where(seconds > 0, seconds, np.nan)
            unit = unit_of(f"export LOOP/{kind}")
            yield _series(f"{name}/{kind}{rank}", unit, steps, ends, rates)


def _together(name: str, group: Sequence[LoopTrace]) -> Iterator[Series]:
    """The rate of all ranks together: the sum of what each did of the step by its own seconds."""
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
    """Regions of one name that the program itself marks, in a thread and outside of its steps."""

    name: str
    source: RecordedProcess
    start: Ints
    end: Ints


def _marked(thread: Thread) -> Iterator[MarkedCalls]:
    """Of ``injector.Timer`` and ``injector.region``; in steps they are :func:`_loops`'."""
    track, steps = thread.track, thread.steps
    own = track.flags(lambda site: site.selector == MARKED and site.region != "step")
    rows = np.flatnonzero(own)
    rows = rows[owners(steps.start, steps.end, track.start[rows]) < 0]
    rows = rows[~thread.passes.excluded().hold(track.start[rows])]
    names = {site: track.sites[site].region for site in distinct(track.site[rows]).tolist()}
    for name in dict.fromkeys(names.values()):
        mine = rows[np.isin(track.site[rows], [site for site in names if names[site] == name])]
        yield MarkedCalls(name, thread.source, track.start[mine], track.end[mine])


def _calls(marked: Sequence[MarkedCalls]) -> Iterator[Series]:
    """The seconds of each call, with all that lies in it: of an epoch those of its steps as well."""
    for name in dict.fromkeys(each.name for each in marked):
        mine = [each for each in marked if each.name == name]
        processes = {each.source.index: each.source for each in mine}
        for number, index in enumerate(sorted(processes)):
            start, end = (
                np.concatenate([getattr(each, of) for each in mine if each.source.index == index])
                for of in ("start", "end")
            )
            order = np.argsort(end, kind="stable")
            seconds, times = ((end - start)[order] / SECOND, end[order] / SECOND)
            rank = processes[index].rank
            whose = f"/rank_{number if rank is None else rank}" if len(processes) > 1 else ""
            title = f"regions/{clean(name)}/time{whose}"
            unit = unit_of("export regions/REGION/time")
            yield replace(_series(title, unit, np.arange(len(order)), times, seconds), axis="call")


def values_of(run: Run, traces: Sequence[LoopTrace]) -> Iterator[Series]:
    """What probes and the program gave, at the step that it named, else that of its process in which it was
    given.
    """
    columns = views(run)["values"]()
    found: dict[tuple[str, object], list[tuple[float, float, float]]] = {}
    processes: dict[str, dict[object, int | None]] = {}
    parts = (columns[key] for key in ("task", "name", "process", "rank", "time", "value", "step"))
    for task, name, process, rank, time, value, step in zip(*parts, strict=True):
        if name == "rate" or value is None or not isfinite(value):
            continue
        key = clean("/".join(filter(None, (task, name))))
        named = nan if step is None else step
        found.setdefault((key, process), []).append((time or 0.0, value, named))
        processes.setdefault(key, {})[process] = rank
    longest: dict[object, LoopTrace] = {}
    for trace in traces:
        known = longest.get(trace.source.index)
        if known is None or len(known.start) < len(trace.start):
            longest[trace.source.index] = trace
    for (key, process), points in found.items():
        times, values, named = np.array(points).T
        rank = processes[key][process]
        alone = rank is not None and list(processes[key].values()).count(rank) == 1
        whose = f"rank_{rank}" if alone else f"process_{process}"
        name = key if len(processes[key]) == 1 else f"{key}/{whose}"
        within = longest.get(process)
        steps = np.arange(len(times))
        if within is not None:
            begun = within.start / SECOND + EARLY
            at = np.searchsorted(begun, times, side="right") - 1
            steps = np.maximum(at, 0)
        steps = np.where(np.isnan(named), steps, named).astype(np.int64)
        yield _series(name, unit_of("export TASK/NAME"), steps, times, values)


def nodes_of(metrics: Iterable[NodeMetric], ended: float) -> Iterator[Series]:
    """What lightgbm-benchmark would log: one value a node, which is its step, or one an iteration."""
    found: dict[str, list[NodeMetric]] = {}
    for each in metrics:
        found.setdefault(each.name, []).append(each)
    for name, points in found.items():
        steps = np.array([p.node if p.step is None else p.step for p in points], np.int64)
        times = np.array([p.time or ended for p in points], np.float64)
        values = np.array([p.value for p in points], np.float64)
        one = _series(clean(name), points[0].unit, steps, times, values)
        yield one if points[0].step is not None else replace(one, axis="node")


_DEVICE = ("load", "memory_used", "temperature", "power")
_HOST = ("cpu", "memory", "tree_rss")


def samples_of(run: Run) -> Iterator[Series]:
    """What the monitor saw of hosts and devices: a step is a sample."""
    seen = views(run)
    for kind, view, names in (("devices", "devices", _DEVICE), ("hosts", "host", _HOST)):
        columns = seen[view]()
        if not columns["time"]:
            continue
        whose = [columns["host"], *([columns["device"]] if "device" in columns else [])]
        keys = ["/".join(map(str, key)) for key in zip(*whose, strict=True)]
        times = np.array(columns["time"], np.float64)
        for key in dict.fromkeys(keys):
            mine = np.array([each == key for each in keys])
            for name in names:
                unit = unit_of(f"query {view}.{name}")
                values = np.array(columns[name], np.float64)[mine]  # None becomes NaN
                steps = np.arange(len(values))
                title = clean(f"{kind}/{key}/{name}")
                yield replace(_series(title, unit, steps, times[mine], values), axis="sample")


def _series(
    name: str, unit: str, steps: Any, times: Any, values: npt.NDArray[np.floating]
) -> Series:
    """A series without what is no number."""
    fine = np.isfinite(values)
    known: Floats = values[fine].astype(np.float64)
    return Series(name, unit, steps[fine], times[fine], known, len(known))


def _thinned(one: Series, points: int) -> Series:
    kept = kept_of(one.values, points) if points else np.arange(len(one.values))
    return replace(one, steps=one.steps[kept], times=one.times[kept], values=one.values[kept])
