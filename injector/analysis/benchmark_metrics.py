"""A run under the names of lightgbm-benchmark: properties, times of tasks, latencies, metrics.

It is the one place that maps what is recorded to these names, which are those of its ``MetricsLogger``,
``LightGBMCallbackHandler`` and ``PerfReportPlotter``. Each is of a *node*: a rank of the job, or, of what a
host did, a host. As there, the time of loading is no part of a training, and a time is one of the wall.
What a program logs under these names itself (task ``logged``) counts where it was not measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import fsum
from typing import Any, NamedTuple

import numpy as np

from ..metrics import METRICS
from ..store.call_sites import CallSite
from ..store.folder import Run, read_events
from ..store.logs import Damage
from ..store.monitor import read as read_monitor
from . import hosts
from .columns import SECOND, Floats, Ints, RecordedProcess, read_rows, sources
from .latencies import latency
from .recorded import CONTEXT, number
from .tracks import Track, split

LOADING, TRAINING, INFERENCING, GENERATING = "dataset", "fit", "predict", "generate"
"""The regions that stand for tasks."""
TASKS = {TRAINING: "train", INFERENCING: "score", GENERATING: "generate"}
"""By its region, what lightgbm-benchmark calls a task; a run that trains and predicts is a training."""
TIMES = {
    LOADING: "time_data_loading",
    GENERATING: "time_data_generation",
    TRAINING: "time_training",
    INFERENCING: "time_inferencing",
}
BOOSTING = "boost"
LOGGED = "logged"
"""The task of what a program logs of itself; its ``properties`` are a mapping."""
MICROSECOND = 1e6


class NodeMetric(NamedTuple):
    """One value, as ``log_metric`` has it."""

    name: str
    node: int
    """A rank, or of what a host did the number of the host."""
    step: int | None
    """The iteration that it is of; None of what there is once for a node."""
    value: float
    time: float | None = None
    """Unix seconds; None for the end of the run."""

    @property
    def unit(self) -> str:
        """One of :data:`injector.metrics.UNITS`; empty for a metric of the program's own."""
        return METRICS[self.name].unit if self.name in METRICS else ""


class _Value(NamedTuple):
    """A number that was recorded, or the properties that were."""

    process: int
    time: float | None
    task: str
    name: str
    value: float | Mapping[str, object]


def benchmark_metrics(run: Run) -> list[NodeMetric]:
    """All of them. Raises OSError, NotARunError."""
    values = list(_values(run))
    # Ranks start in any order.
    known = sorted(_processes(sources(run), values), key=lambda each: each[0])
    found = [each for node, source in known for each in _of_process(node, source)]
    found += _recorded(values, {source.index: (node, source) for node, source in known}, found)
    for node, seen in enumerate(read_monitor(run.content)):
        found += [
            NodeMetric(name, node, None, value)
            for name, value in hosts.metrics(seen, hosts.utilization(seen)).items()
        ]
    return found


def _values(run: Run) -> Iterator[_Value]:
    """Shapes of data, evaluations, and what programs log of themselves."""
    for _, event, data in read_events(run, Damage()):
        if event != "data" or not isinstance(data, dict):
            continue
        process, time = data.get("process", 0), number(data.get("time"))
        # ``above``: of a name with slashes all but its last part.
        task, _, above = str(data.get("task")).partition("/")
        if not isinstance(process, int) or task not in ("data", "eval", LOGGED):
            continue
        for name, given in data.items():
            value = None if name in CONTEXT else number(given)
            if value is not None:
                yield _Value(process, time, task, f"{above}/{name}" if above else name, value)
        properties = data.get("properties")
        if task == LOGGED and isinstance(properties, dict):
            yield _Value(process, time, task, "properties", properties)


def _processes(
    found: Iterable[RecordedProcess], values: Iterable[_Value]
) -> Iterator[tuple[int, RecordedProcess]]:
    """Those that did any of the tasks, or tell of one, by their nodes."""
    logging = {each.process for each in values if each.task == LOGGED}
    having = [each for each in found if each.index in logging or _does(each)]
    for number_, source in enumerate(having):
        yield (number_ if source.rank is None else source.rank), source


def _does(source: RecordedProcess) -> bool:
    return source.has_spans() and any(
        site.region in TIMES or site.region == BOOSTING for site in source.sites.values()
    )


def _of_process(node: int, source: RecordedProcess) -> Iterator[NodeMetric]:
    """Times of its tasks in seconds, and the latencies of its predictions in microseconds."""
    if not source.has_spans():
        return
    tracks = split(read_rows(source), source.sites, "host").values()
    for region, name in TIMES.items():
        parts = [_lengths(track, track.region(region)) for track in tracks]
        if any(map(len, parts)):
            loading = fsum(_loading_in(track) for track in tracks) if region == TRAINING else 0.0
            yield NodeMetric(name, node, None, fsum(part.sum() for part in parts) - loading)
    calls = [(track, track.region(INFERENCING)) for track in tracks]
    seconds = [_lengths(track, rows) for track, rows in calls]
    items = [track.payload[rows] & 0xFFFFFF for track, rows in calls]
    if any(map(len, seconds)):
        yield from _latencies(node, np.concatenate(seconds), np.concatenate(items))


def _lengths(track: Track, rows: Ints) -> Floats:
    return (track.end[rows] - track.start[rows]) / SECOND


def _loading_in(track: Track) -> float:
    """Seconds of loading within trainings: data that is only read once it is needed."""
    fits, loads = track.region(TRAINING), track.region(LOADING)
    if not len(fits):
        return 0.0
    last = track.start[fits].searchsorted(track.start[loads], side="right") - 1
    inside = loads[(last >= 0) & (track.end[loads] <= track.end[fits[last]])]
    return float(_lengths(track, inside).sum())


def _latencies(node: int, seconds: Floats, items: Ints) -> Iterator[NodeMetric]:
    """What ``log_inferencing_latencies`` makes of the calls: a call is a batch, a row of it a query."""
    known = items.astype(np.float64) if (items > 0).all() else None
    found = latency(seconds, known)
    values: dict[str, float | None] = {
        "time_inferencing_per_query": found.mean,
        "prediction_batches": found.batches,
        "prediction_queries": found.queries,
        "prediction_latency_avg": None if found.mean is None else found.mean * MICROSECOND,
    }
    if found.batches > 1:  # of one there are no percentiles
        for kind, percentiles in (("batch", found.batch), ("prediction", found.query)):
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
    """Shapes of data, and the metrics of each iteration (``node_0/valid_0.rmse``), of these processes; of
    what they log, whatever is not ``measured``.
    """
    iterations: dict[str, int] = {}
    known = {(each.name, each.node) for each in measured}
    for process, time, task, name, value in values:
        if process not in nodes or isinstance(value, Mapping):
            continue
        node, source = nodes[process]
        if task == "data":
            yield NodeMetric(_of_data(name, source), node, None, value, time)
        elif task == LOGGED and "/" not in name:
            if (name, node) not in known:
                yield NodeMetric(name, node, None, value, time)
        elif task == LOGGED or "-" in name:
            of, _, metric = name.rpartition("-")
            key = name if task == LOGGED else f"node_{node}/{of}.{metric}"
            step = iterations[key] = iterations.get(key, -1) + 1
            yield NodeMetric(key, node, step, value, time)


def _of_data(name: str, source: RecordedProcess) -> str:
    """The name of a data set's size: what a process loads that trains nothing is what it predicts."""
    trains = any(site.region in (TRAINING, BOOSTING) for site in source.sites.values())
    return name if trains else name.replace("train_data.", "inference_data_")


def of_job(found: Iterable[NodeMetric]) -> dict[str, float]:
    """One value for each name: rows add up over nodes, of all else the node that needed most counts, and
    of iterations the last.
    """
    values: dict[str, float] = {}
    for each in found:
        before = values.get(each.name)
        if before is None or each.step is not None:
            values[each.name] = each.value
        elif each.name in ADDED:
            values[each.name] = before + each.value
        else:
            values[each.name] = max(before, each.value)
    return values


ADDED = ("prediction_batches", "prediction_queries", "train_data.length", "inference_data_length")


def benchmark_properties(run: Run) -> dict[str, str]:
    """``task``, ``framework``, ``framework_version`` and the platform; empty where no task was seen.

    Raises OSError, NotARunError.
    """
    values = list(_values(run))
    known = list(_processes(sources(run), values))
    logged = {
        name: value
        for each in values
        if isinstance(each.value, Mapping)
        for name, value in each.value.items()
    }
    sites = [site for _, source in known for site in source.sites.values()]
    first = [site for region in TASKS for site in sites if site.region == region]
    if not first and not logged:
        return {}
    info = run.info
    framework = _library(first[0]) if first else None
    versions = {each.get("library"): each.get("version") for each in info.get("automatic") or ()}
    system, *rest = str(info.get("platform") or "").split(" ")
    cpu: Mapping[str, Any] = info.get("cpu") or {}
    memory = [
        sample.data["memory"]["total"]
        for seen in read_monitor(run.content)
        for sample in seen.hosts[:1]
        if "memory" in sample.data
    ]
    found = {
        "task": TASKS[first[0].region] if first else None,
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
    seen = {name: value for name, value in found.items() if value not in (None, "")}
    return {name: str(value) for name, value in {**logged, **seen}.items()}


def _library(site: CallSite) -> str | None:
    """The library whose function the span is of, by the selector of its probe; None of the program's own."""
    module = (site.selector or "").lstrip("/").partition("/")[0]
    return module.partition(".")[0] or None
