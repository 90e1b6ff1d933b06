"""A run under the names of lightgbm-benchmark: properties, times of tasks, latencies, metrics.

This is the one module that maps what is recorded to these names, which are those of its ``MetricsLogger``,
``LightGBMCallbackHandler`` and ``PerfReportPlotter``. Each value is of a *node*: a rank of the job, or a host
for metrics of hosts. As in lightgbm-benchmark, times are wall time, and loading data is no part of a
training. A value that the program logs itself under one of these names (task ``logged``) counts only if it
was not measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import fsum
from typing import Any, NamedTuple

import numpy as np

from ..metrics import METRICS
from ..store.call_sites import CallSite
from ..store.folder import Run, data_events
from ..store.monitor import read as read_monitor
from ..store.spans import unpack
from . import hosts
from .columns import SECOND, Floats, Ints, RecordedProcess, read_rows, sources
from .event_samples import CONTEXT
from .latencies import latency
from .statistics import number
from .tracks import Track, split

LOADING, TRAINING, INFERENCING, GENERATING = "dataset", "fit", "predict", "generate"
"""The regions of its tasks."""
TASKS = {TRAINING: "train", INFERENCING: "score", GENERATING: "generate"}
"""What lightgbm-benchmark calls a task, by its region. The first one counts: a run that trains and predicts
is a training."""
TIMES = {
    LOADING: "time_data_loading",
    GENERATING: "time_data_generation",
    TRAINING: "time_training",
    INFERENCING: "time_inferencing",
}
BOOSTING = "boost"
LOGGED = "logged"
"""The task under which a program's own logging is recorded; its ``properties`` are a mapping."""
MICROSECOND = 1e6
"""Microseconds in a second."""


class NodeMetric(NamedTuple):
    """One value, as lightgbm-benchmark's ``log_metric`` has it."""

    name: str
    node: int
    """A rank; for metrics of hosts, the number of the host."""
    step: int | None
    """The iteration that the value is of; None for what a node has once."""
    value: float
    time: float | None = None
    """Unix seconds; None for the end of the run."""

    @property
    def unit(self) -> str:
        """One of :data:`injector.metrics.UNITS`; empty for a metric of the program's own."""
        return METRICS[self.name].unit if self.name in METRICS else ""


class _Value(NamedTuple):
    """A recorded number, or the recorded properties of a run."""

    process: int
    time: float | None
    task: str
    name: str
    value: float | Mapping[str, object]


def benchmark_metrics(run: Run) -> list[NodeMetric]:
    """All metrics of ``run``. Raises OSError, NotARunError."""
    values = list(_values(run))
    # Sorted, as ranks start in any order.
    nodes = sorted(_processes(sources(run), values), key=lambda item: item[0])
    metrics = [metric for node, source in nodes for metric in _measured(node, source)]
    metrics += _recorded(values, {source.index: (node, source) for node, source in nodes}, metrics)
    for node, monitored in enumerate(read_monitor(run.content)):
        metrics += [
            NodeMetric(name, node, None, value)
            for name, value in hosts.metrics(monitored, hosts.utilization(monitored)).items()
        ]
    return metrics


def _values(run: Run) -> Iterator[_Value]:
    """Sizes of data sets, results of evaluations, and what programs log themselves."""
    for _, process, data in data_events(run):
        time = number(data.get("time"))
        # A name with slashes was recorded with all but its last part in the task.
        task, _, prefix = str(data.get("task")).partition("/")
        if task not in ("data", "eval", LOGGED):
            continue
        for name, recorded in data.items():
            value = None if name in CONTEXT else number(recorded)
            if value is not None:
                yield _Value(process, time, task, f"{prefix}/{name}" if prefix else name, value)
        properties = data.get("properties")
        if task == LOGGED and isinstance(properties, dict):
            yield _Value(process, time, task, "properties", properties)


def _processes(
    processes: Iterable[RecordedProcess], values: Iterable[_Value]
) -> Iterator[tuple[int, RecordedProcess]]:
    """The processes that did one of the tasks, or logged values of one, each with its node."""
    logging = {value.process for value in values if value.task == LOGGED}
    of_tasks = [each for each in processes if each.index in logging or _does_a_task(each)]
    for at, source in enumerate(of_tasks):
        yield (at if source.rank is None else source.rank), source


def _does_a_task(source: RecordedProcess) -> bool:
    return source.has_spans() and any(
        site.region in TIMES or site.region == BOOSTING for site in source.sites.values()
    )


def _measured(node: int, source: RecordedProcess) -> Iterator[NodeMetric]:
    """Times of the tasks of a process in seconds, and latencies of its predictions in microseconds."""
    if not source.has_spans():
        return
    tracks = split(read_rows(source), source.sites, "host").values()
    for region, name in TIMES.items():
        durations = [_durations(track, track.region(region)) for track in tracks]
        if any(map(len, durations)):
            loading = fsum(_loading_in(track) for track in tracks) if region == TRAINING else 0.0
            seconds = fsum(of_track.sum() for of_track in durations)
            yield NodeMetric(name, node, None, seconds - loading)
    calls = [(track, track.region(INFERENCING)) for track in tracks]
    durations = [_durations(track, rows) for track, rows in calls]
    items = [unpack(track.payload[rows])[0] for track, rows in calls]
    if any(map(len, durations)):
        yield from _latencies(node, np.concatenate(durations), np.concatenate(items))


def _durations(track: Track, rows: Ints) -> Floats:
    """Seconds of the spans in ``rows``."""
    return (track.end[rows] - track.start[rows]) / SECOND


def _loading_in(track: Track) -> float:
    """Seconds of loading within trainings: LightGBM reads a data set only when it is needed."""
    fits, loads = track.region(TRAINING), track.region(LOADING)
    if not len(fits):
        return 0.0
    last_fit = track.start[fits].searchsorted(track.start[loads], side="right") - 1
    inside = loads[(last_fit >= 0) & (track.end[loads] <= track.end[fits[last_fit]])]
    return float(_durations(track, inside).sum())


def _latencies(node: int, seconds: Floats, items: Ints) -> Iterator[NodeMetric]:
    """The metrics of ``log_inferencing_latencies``: each call is a batch, and each row of it a query."""
    queries = items.astype(np.float64) if (items > 0).all() else None
    figures = latency(seconds, queries)
    mean = figures.mean
    values: dict[str, float | None] = {
        "time_inferencing_per_query": mean,
        "prediction_batches": figures.batches,
        "prediction_queries": figures.queries,
        "prediction_latency_avg": None if mean is None else mean * MICROSECOND,
    }
    if figures.batches > 1:  # lightgbm-benchmark gives no percentiles of a single batch either
        for kind, percentiles in (("batch", figures.batch), ("prediction", figures.query)):
            for share in (50, 75, 90, 95, 99):
                value = getattr(percentiles, f"p{share}", None)
                name = f"{kind}_latency_p{share}_usecs"
                values[name] = None if value is None else value * MICROSECOND
    for name, value in values.items():
        if value is not None:
            yield NodeMetric(name, node, None, float(value))


def _recorded(
    values: Iterable[_Value],
    nodes: Mapping[int, tuple[int, RecordedProcess]],
    measured: Iterable[NodeMetric],
) -> Iterator[NodeMetric]:
    """Sizes of data sets, metrics of each iteration (``node_0/valid_0.rmse``), and what programs log.

    ``nodes`` are the processes to consider, by their index. What is ``measured`` too is left out.
    """
    iterations: dict[str, int] = {}
    known = {(metric.name, metric.node) for metric in measured}
    for process, time, task, name, value in values:
        if process not in nodes or isinstance(value, Mapping):
            continue
        node, source = nodes[process]
        if task == "data":
            yield NodeMetric(_size_name(name, source), node, None, value, time)
        elif task == LOGGED and "/" not in name:
            if (name, node) not in known:
                yield NodeMetric(name, node, None, value, time)
        elif task == LOGGED or "-" in name:
            # Evaluations are recorded as "valid_0-rmse", and again in each iteration.
            data_set, _, metric = name.rpartition("-")
            key = name if task == LOGGED else f"node_{node}/{data_set}.{metric}"
            step = iterations[key] = iterations.get(key, -1) + 1
            yield NodeMetric(key, node, step, value, time)


def _size_name(name: str, source: RecordedProcess) -> str:
    """The name of a data set's size: a process that trains nothing loads what it predicts."""
    trains = any(site.region in (TRAINING, BOOSTING) for site in source.sites.values())
    return name if trains else name.replace("train_data.", "inference_data_")


def of_job(metrics: Iterable[NodeMetric]) -> dict[str, float]:
    """One value for each name, of all nodes.

    Numbers of rows and of batches are added up. Of anything else, the largest value counts (a job takes as
    long as its slowest node), and of iterations the last one.
    """
    values: dict[str, float] = {}
    for metric in metrics:
        before = values.get(metric.name)
        # Of several iterations, the last one is that of the finished model.
        if before is None or metric.step is not None:
            values[metric.name] = metric.value
        elif metric.name in ADDED:
            values[metric.name] = before + metric.value
        else:
            values[metric.name] = max(before, metric.value)
    return values


ADDED = ("prediction_batches", "prediction_queries", "train_data.length", "inference_data_length")
"""Metrics of which a job has the sum over its nodes."""


def benchmark_properties(run: Run) -> dict[str, str]:
    """``task``, ``framework``, ``framework_version`` and the platform; empty if no process did a task.

    Properties that the program logs itself are added, but do not replace these. Raises OSError, NotARunError.
    """
    values = list(_values(run))
    processes = list(_processes(sources(run), values))
    logged = {
        name: property_
        for value in values
        if isinstance(value.value, Mapping)
        for name, property_ in value.value.items()
    }
    sites = [site for _, source in processes for site in source.sites.values()]
    of_tasks = [site for region in TASKS for site in sites if site.region == region]
    if not of_tasks and not logged:
        return {}
    info = run.info
    framework = _library(of_tasks[0]) if of_tasks else None
    versions = {each.get("library"): each.get("version") for each in info.get("automatic") or ()}
    # System, its version, which may have blanks, and machine: "Linux 6.1.0 x86_64".
    system, *rest = str(info.get("platform") or "").split(" ")
    cpu: Mapping[str, Any] = info.get("cpu") or {}
    memory = [
        sample.data["memory"]["total"]
        for monitored in read_monitor(run.content)
        for sample in monitored.hosts[:1]
        if "memory" in sample.data
    ]
    properties = {
        "task": TASKS[of_tasks[0].region] if of_tasks else None,
        "framework": framework,
        "framework_version": versions.get(framework),
        "system": system,
        "system_version": " ".join(rest[:-1]),
        "machine": rest[-1] if rest else None,
        "processor": cpu.get("brand"),
        "architecture": cpu.get("architecture"),
        "platform": info.get("platform"),
        "cpu_count": cpu.get("count"),
        "cpu_frequency": cpu.get("frequency"),
        "system_memory": round(memory[0] / (1 << 30)) if memory else None,
    }
    known = {name: value for name, value in properties.items() if value not in (None, "")}
    return {name: str(value) for name, value in {**logged, **known}.items()}


def _library(site: CallSite) -> str | None:
    """The library that the selector of a call site names; None if it is the program itself."""
    module = (site.selector or "").lstrip("/").partition("/")[0]
    return module.partition(".")[0] or None
