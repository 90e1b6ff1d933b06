"""The views that a query of ``inject query`` can name: tables of what a run recorded.

A view is a function without arguments that returns its columns. It is called when a query names it, so that
counting events does not read spans. Rows of events and samples are collected in lists; columns of steps and
spans, of which a run has millions, are NumPy arrays from the start, their texts coded as
:class:`.query.Words`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..store import monitor
from ..store.call_sites import CallSite
from ..store.folder import Run, data_events, read_events
from ..store.logs import Damage
from ..store.place import default_runs
from ..store.spans import unpack
from .arrays import owners
from .benchmark_metrics import benchmark_metrics
from .columns import SECOND, Ints, RecordedProcess, SpanColumns, read_rows, sources
from .event_samples import CONTEXT
from .loops import grouped, skipped_steps, warmup_steps
from .query import Columns, View, Words, joined, length
from .runs import Listed, listed, one
from .statistics import number
from .traces import LoopTrace, threads_of, traces_of
from .tracks import lookup

VIEWS = ("steps", "regions", "values", "metrics", "devices", "host", "events", "runs")


def views(run: Run, runs: str | None = None) -> dict[str, View]:
    """The views of ``run`` by name; ``runs`` is the folder of all runs, which the view ``runs`` lists."""
    makers = {
        "steps": partial(steps, run),
        "regions": partial(regions, run),
        "values": partial(_values, run),
        "metrics": partial(_metrics, run),
        "devices": partial(_devices, run),
        "host": partial(_host, run),
        "events": partial(_events, run),
        "runs": partial(_runs, run, runs),
    }
    return {name: makers[name] for name in VIEWS}


def views_of_all(labelled: Sequence[tuple[Mapping[str, str | None], Run]]) -> dict[str, View]:
    """Views over several runs, with the rows of each run after those of the run before it.

    Each row begins with the labels of its run, which all runs must have by the same names; None becomes null.
    """
    views_of_run = [(labels, run, views(run)) for labels, run in labelled]

    def make(name: str) -> Columns:
        parts = []
        for labels, run, makers in views_of_run:
            columns = _columns_of([one(run.path)]) if name == "runs" else makers[name]()
            # Code 0 is the only word, -1 is null.
            codes = np.zeros(length(columns), np.int32)
            label_columns = {
                label: Words(codes - 1, []) if text is None else Words(codes, [text])
                for label, text in labels.items()
            }
            others = {key: v for key, v in columns.items() if key not in label_columns}
            parts.append({**label_columns, **others})
        return joined(parts)

    return {name: partial(make, name) for name in VIEWS}


class _Rows:
    """A table that grows row by row."""

    def __init__(self, *names: str) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in names}

    def add(self, *values: Any) -> None:
        for column, value in zip(self.columns.values(), values, strict=True):
            column.append(value)


def _events(run: Run) -> Columns:
    rows = _Rows("bench", "event", "time", "process", "data")
    for bench, event, data in read_events(run, Damage()):
        facts = data if isinstance(data, dict) else {}
        process = facts.get("process")
        rows.add(
            bench,
            event,
            number(facts.get("time")),
            process if isinstance(process, int) else None,
            json.dumps(data),
        )
    return rows.columns


def _values(run: Run) -> Columns:
    """Each value of each ``data`` event in a row; a text has no ``value``, and a number no ``text``."""
    rows = _Rows("bench", "task", "process", "rank", "name", "time", "value", "text", "step")
    ranks = _ranks(run)
    for bench, process, data in data_events(run):
        for name, value in data.items():
            if name in CONTEXT - {"rate"} or isinstance(value, (dict, list)):
                continue
            as_number = number(value)
            text = None if as_number is not None or value is None else str(value)
            time = number(data.get("time"))
            task = data.get("task")
            step = data.get("batch_id")
            step = step if isinstance(step, int) else None
            rows.add(bench, task, process, ranks.get(process), name, time, as_number, text, step)
    return rows.columns


def _metrics(run: Run) -> Columns:
    """What lightgbm-benchmark would report about each node, under its own names."""
    rows = _Rows("name", "node", "step", "time", "value", "unit")
    for metric in benchmark_metrics(run):
        rows.add(metric.name, metric.node, metric.step, metric.time, metric.value, metric.unit)
    return rows.columns


def _ranks(run: Run) -> dict[int, int]:
    """The rank of each process that has one."""
    processes = run.info.get("processes") or []
    return {
        index: process["rank"]
        for index, process in enumerate(processes)
        if isinstance(process.get("rank"), int)
    }


_DEVICE = (
    "load",
    "memory_load",
    "memory_used",
    "memory_total",
    "temperature",
    "power",
    "power_limit",
    "energy",
)


def _devices(run: Run) -> Columns:
    """The samples of each device, in fractions, bytes, °C, watts and joules."""
    rows = _Rows("host", "device", "name", "time", *_DEVICE, "throttle", "processes")
    for monitored in monitor.read(run.content):
        for sample in monitored.devices:
            for device, state in sample.data.items():
                name = monitored.described.get(device, {}).get("name")
                numbers = [number(state.get(key)) for key in _DEVICE]
                reasons = state.get("throttle")
                throttle = ", ".join(reasons) if isinstance(reasons, list) else None
                pids = state.get("processes")
                users = ", ".join(map(str, pids)) if isinstance(pids, dict) else None
                rows.add(monitored.host, device, name, sample.time, *numbers, throttle, users)
    return rows.columns


def _host(run: Run) -> Columns:
    """The samples of each host, in fractions and bytes; what disks and networks moved, since its boot."""
    names = ("cpu", "busiest_core", "idlest_core", "memory_used", "memory", "load", "disk")
    moved = ("disk_read", "disk_written", "net_sent", "net_received")
    tree = ("processes", "tree_cpu", "tree_rss")
    rows = _Rows("host", "time", *names, *moved, *tree)
    for monitored in monitor.read(run.content):
        # The monitor samples the host and the program's processes in turn: the n-th of both belong together.
        trees = iter(monitored.trees)
        before = None
        for sample in monitored.hosts:
            cores = sample.data.get("cores")
            loads = monitor.core_loads(before, cores)
            busy = [sum(loads) / len(loads), max(loads), min(loads)] if loads else [None] * 3
            before = cores
            processes = next(trees, None)
            rows.add(
                monitored.host,
                sample.time,
                *busy,
                *_host_values(sample.data),
                *_tree_values(processes.data.get("processes") or [] if processes else None),
            )
    return rows.columns


def _host_values(data: dict[str, Any]) -> list[float | None]:
    memory, disk = data.get("memory") or {}, data.get("filesystem") or {}
    load = data.get("load") or [None]
    return [
        number(memory.get("used")),
        number(memory.get("fraction")),
        number(load[0]),
        number(disk.get("fraction")),
        *_sums(data.get("disks")),
        *_sums(data.get("nets")),
    ]


def _sums(counters: Any) -> list[float | None]:
    """The sums over all disks or networks of their two counters."""
    if not isinstance(counters, dict):
        return [None, None]
    return [float(sum(pair[at] for pair in counters.values())) for at in (0, 1)]


def _tree_values(processes: list[dict[str, Any]] | None) -> list[float | None]:
    """How many processes the program had, their seconds of processor time, and their resident bytes."""
    if processes is None:
        return [None, None, None]
    return [
        float(len(processes)),
        float(sum(process["cpu"] for process in processes)),
        float(sum(process["rss"] for process in processes)),
    ]


def _runs(run: Run, runs: str | None) -> Columns:
    """The runs beside ``run``, and those in the folder ``runs`` if that is another one."""
    folder = default_runs(runs)
    here = os.path.dirname(os.path.abspath(run.path))
    rows = listed(here) if os.path.isdir(here) else [one(run.path)]
    if os.path.isdir(folder) and not os.path.samefile(folder, here):
        rows += listed(folder)
    return _columns_of(rows)


def _columns_of(rows: Sequence[Listed]) -> Columns:
    return {name: [getattr(row, name) for row in rows] for name in Listed._fields}


def steps(run: Run) -> Columns:
    """Each step of each rank: ``start`` in unix seconds, ``seconds`` without evaluation in the step."""
    loops, skip = enumerate(grouped(traces_of(run))), skipped_steps(run)
    parts = [
        _steps_of_trace(loop, trace, warmup_steps(traces, skip))
        for loop, traces in loops
        for trace in traces
    ]
    return _concatenated(parts, _STEPS)


_COUNTS = ("step", "start", "seconds", "items", "tokens", "waits", "measured")
_STEPS = ("loop", "task", "process", "rank", "attempt", "host", *_COUNTS)


def _steps_of_trace(loop: int, trace: LoopTrace, warmup: int) -> dict[str, Any]:
    """The columns of a rank of a loop; ``warmup`` is the longest of all its ranks, in steps."""
    n = len(trace.start)
    step = np.arange(n)
    return {
        "loop": np.full(n, loop),
        "task": Words(np.zeros(n, np.int32), [trace.pace.task]),
        **_process_columns(trace.source, n),
        "step": step,
        "start": trace.start / SECOND,
        "seconds": trace.table.seconds.astype(np.float64),
        "items": _or_nan(trace.items, n),
        "tokens": _or_nan(trace.tokens, n),
        "waits": trace.waits.astype(np.float64),
        "measured": step >= trace.measured_from(warmup),
    }


def _or_nan(column: Any, n: int) -> Any:
    return np.full(n, np.nan) if column is None else column.astype(np.float64)


def _process_columns(source: RecordedProcess, n: int) -> dict[str, Any]:
    """Columns of ``n`` equal rows that say which process the rows are of."""
    # A whole column has one type: NaN stands for a rank or an attempt that is not known.
    rank, attempt = (np.nan if x is None else float(x) for x in (source.rank, source.attempt))
    return {
        "process": np.full(n, source.index),
        "rank": np.full(n, rank),
        "attempt": np.full(n, attempt),
        "host": Words(np.zeros(n, np.int32), [source.host]),
    }


def regions(run: Run) -> Columns:
    """Each span; ``start`` is in unix seconds, ``step`` is the step of its thread in which it began."""
    parts = [_spans_of(source) for source in sources(run) if source.has_spans()]
    return _concatenated(parts, _REGIONS)


_PAYLOADS = {"items": 1, "counted": 1, "bytes": 2}
"""What the number that a span carries counts: items and tokens (1), or bytes (2)."""
_TEXTS: dict[str, Callable[[CallSite], str | None]] = {
    "region": lambda site: site.region,
    "clock": lambda site: site.clock,
    "phase": lambda site: site.phase,
    "task": lambda site: site.task,
    "what": lambda site: site.label,
    "device": lambda site: site.device,
    "file": lambda site: site.place.file if site.place else None,
}
_NUMBERS = ("line", "thread", "step", "start", "seconds", "items", "tokens", "bytes")
_REGIONS = ("process", "rank", "attempt", "host", *_TEXTS, *_NUMBERS)


def _spans_of(source: RecordedProcess) -> dict[str, Any]:
    # A span names its call site by a number. What sites have is looked up once for each site, and then
    # spread over all spans by indexing with that number.
    rows = read_rows(source)
    n = len(rows.start)
    items, tokens = unpack(rows.payload)
    line = lookup(source.sites, lambda s: s.place.line if s.place else -1)[rows.site]
    kind = lookup(source.sites, lambda site: _PAYLOADS.get(site.payload or "", 0))[rows.site]
    return {
        **_process_columns(source, n),
        **{name: _words(source, rows, text) for name, text in _TEXTS.items()},
        "line": np.where(line >= 0, line, np.nan),
        "thread": lookup(source.sites, lambda site: site.thread)[rows.site].astype(np.float64),
        "step": _step_of(source, rows),
        "start": rows.start / SECOND,
        "seconds": (rows.end - rows.start) / SECOND,
        # Items that are not known are 0 in the payload.
        "items": np.where((kind == 1) & (items > 0), items, np.nan),
        "tokens": np.where((kind == 1) & (tokens > 0), tokens, np.nan),
        "bytes": np.where(kind == 2, rows.payload, np.nan),
    }


def _words(
    source: RecordedProcess, rows: SpanColumns, text_of: Callable[[CallSite], str | None]
) -> Words:
    """The text of each span's call site."""
    texts = (text_of(site) for site in source.sites.values())
    words = list(dict.fromkeys(text for text in texts if text is not None))
    code_of: dict[str | None, int] = {word: code for code, word in enumerate(words)}
    codes = lookup(source.sites, lambda site: code_of.get(text_of(site), -1), -1)
    return Words(codes.astype(np.int32)[rows.site], words)


def _step_of(source: RecordedProcess, rows: SpanColumns) -> Any:
    """The step in which each span began, in a loop of the span's own thread; NaN if in none."""
    steps = np.full(len(rows.start), np.nan)
    thread_of = lookup(source.sites, lambda site: site.thread)[rows.site]
    for thread in threads_of(source, rows):
        of_thread = np.flatnonzero(thread_of == thread.number)
        for trace in thread.traces:
            step: Ints = owners(trace.start, trace.end, rows.start[of_thread])
            inside = step >= 0
            steps[of_thread[inside]] = step[inside]
    return steps


def _concatenated(parts: list[dict[str, Any]], names: tuple[str, ...]) -> Columns:
    """``parts`` one after the other; without any, empty columns of the same ``names``."""
    return joined(parts) if parts else {name: np.empty(0) for name in names}
