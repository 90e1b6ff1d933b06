"""The views that a query sees: each makes its columns on demand."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..store import monitor
from ..store.call_sites import CallSite
from ..store.folder import Run, read_events
from ..store.logs import Damage
from ..store.place import default_runs
from ..store.spans import unpack
from .arrays import owners
from .benchmark_metrics import benchmark_metrics
from .columns import SECOND, Ints, RecordedProcess, SpanColumns, read_rows, sources
from .loops import grouped
from .query import Columns, View, Words, joined, length
from .recorded import CONTEXT, number
from .runs import Listed, listed, one
from .traces import LoopTrace, threads_of, traces_of
from .tracks import lookup

VIEWS = ("steps", "regions", "values", "metrics", "devices", "host", "events", "runs")


def views(run: Run, runs: str | None = None) -> dict[str, View]:
    """The views of ``run``; ``runs`` says where its siblings are."""
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
    """The views of several runs, one after the other: each row has the labels of its run first, which
    are of the same names in each; None is null.
    """
    makers = [(labels, run, views(run)) for labels, run in labelled]

    def make(name: str) -> Columns:
        parts = []
        for labels, run, of_one in makers:
            columns = _listed([one(run.path)]) if name == "runs" else of_one[name]()
            codes = np.zeros(length(columns), np.int32)
            own = {
                label: Words(codes - 1, []) if text is None else Words(codes, [text])
                for label, text in labels.items()
            }
            parts.append({**own, **{key: v for key, v in columns.items() if key not in own}})
        return joined(parts)

    return {name: partial(make, name) for name in VIEWS}


class _Rows:
    """Columns that grow row by row."""

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
    """Every number that a ``data`` event names, one a row; rates are those of steps."""
    rows = _Rows("bench", "task", "process", "rank", "name", "time", "value", "text", "step")
    ranks = _ranks(run)
    for bench, event, data in read_events(run, Damage()):
        if event != "data" or not isinstance(data, dict):
            continue
        process = data.get("process", 0)
        process = process if isinstance(process, int) else 0
        for name, value in data.items():
            if name in CONTEXT - {"rate"} or isinstance(value, (dict, list)):
                continue
            found = number(value)
            text = None if found is not None or value is None else str(value)
            when = number(data.get("time"))
            task = data.get("task")
            step = data.get("batch_id")
            step = step if isinstance(step, int) else None
            rows.add(bench, task, process, ranks.get(process), name, when, found, text, step)
    return rows.columns


def _metrics(run: Run) -> Columns:
    """What lightgbm-benchmark would report, under its names, node by node."""
    rows = _Rows("name", "node", "step", "time", "value", "unit")
    for each in benchmark_metrics(run):
        rows.add(each.name, each.node, each.step, each.time, each.value, each.unit)
    return rows.columns


def _ranks(run: Run) -> dict[int, int]:
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
    """The samples of each device; fractions, bytes, °C, watts, joules."""
    rows = _Rows("host", "device", "name", "time", *_DEVICE, "throttle", "processes")
    for seen in monitor.read(run.content):
        for sample in seen.devices:
            for device, state in sample.data.items():
                name = seen.described.get(device, {}).get("name")
                numbers = [number(state.get(key)) for key in _DEVICE]
                reasons = state.get("throttle")
                throttle = ", ".join(reasons) if isinstance(reasons, list) else None
                pids = state.get("processes")
                users = ", ".join(map(str, pids)) if isinstance(pids, dict) else None
                rows.add(seen.host, device, name, sample.time, *numbers, throttle, users)
    return rows.columns


def _host(run: Run) -> Columns:
    """The samples of each host: fractions, bytes; what moved, since boot."""
    names = ("cpu", "busiest_core", "idlest_core", "memory_used", "memory", "load", "disk")
    moved = ("disk_read", "disk_written", "net_sent", "net_received")
    tree = ("processes", "tree_cpu", "tree_rss")
    rows = _Rows("host", "time", *names, *moved, *tree)
    for seen in monitor.read(run.content):
        trees = iter(seen.trees)
        before = None
        for sample in seen.hosts:
            cores = sample.data.get("cores")
            loads = monitor.core_loads(before, cores)
            busy = [sum(loads) / len(loads), max(loads), min(loads)] if loads else [None] * 3
            before = cores
            below = next(trees, None)
            rows.add(
                seen.host,
                sample.time,
                *busy,
                *_of_host(sample.data),
                *_of_tree(below.data.get("processes") or [] if below else None),
            )
    return rows.columns


def _of_host(data: dict[str, Any]) -> list[float | None]:
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
    if not isinstance(counters, dict):
        return [None, None]
    return [float(sum(pair[at] for pair in counters.values())) for at in (0, 1)]


def _of_tree(processes: list[dict[str, Any]] | None) -> list[float | None]:
    if processes is None:
        return [None, None, None]
    return [
        float(len(processes)),
        float(sum(each["cpu"] for each in processes)),
        float(sum(each["rss"] for each in processes)),
    ]


def _runs(run: Run, runs: str | None) -> Columns:
    """This run and those beside it."""
    folder = default_runs(runs)
    here = os.path.dirname(os.path.abspath(run.path))
    found = listed(here) if os.path.isdir(here) else [one(run.path)]
    if os.path.isdir(folder) and not os.path.samefile(folder, here):
        found += listed(folder)
    return _listed(found)


def _listed(found: Sequence[Listed]) -> Columns:
    return {name: [getattr(each, name) for each in found] for name in Listed._fields}


def steps(run: Run) -> Columns:
    """Each step of each rank: ``start`` is unix seconds, ``seconds`` is without evaluation in it."""
    loops = enumerate(grouped(traces_of(run)))
    return _joined([_steps(loop, trace) for loop, traces in loops for trace in traces], _STEPS)


_COUNTS = ("step", "start", "seconds", "items", "tokens", "waits", "measured")
_STEPS = ("loop", "task", "process", "rank", "attempt", "host", *_COUNTS)


def _steps(loop: int, trace: LoopTrace) -> dict[str, Any]:
    n = len(trace.start)
    number = np.arange(n)
    return {
        "loop": np.full(n, loop),
        "task": Words(np.zeros(n, np.int32), [trace.pace.task]),
        **_who(trace.source, n),
        "step": number,
        "start": trace.start / SECOND,
        "seconds": trace.table.seconds.astype(np.float64),
        "items": _known(trace.items, n),
        "tokens": _known(trace.tokens, n),
        "waits": trace.waits.astype(np.float64),
        "measured": number >= trace.measured_from(trace.warmup),
    }


def _known(column: Any, n: int) -> Any:
    return np.full(n, np.nan) if column is None else column.astype(np.float64)


def _who(source: RecordedProcess, n: int) -> dict[str, Any]:
    rank, attempt = (np.nan if x is None else float(x) for x in (source.rank, source.attempt))
    return {
        "process": np.full(n, source.index),
        "rank": np.full(n, rank),
        "attempt": np.full(n, attempt),
        "host": Words(np.zeros(n, np.int32), [source.host]),
    }


def regions(run: Run) -> Columns:
    """Each span: ``start`` is unix seconds; ``step`` is the step of its thread that it lies in."""
    parts = [_regions(source) for source in sources(run) if source.has_spans()]
    return _joined(parts, _REGIONS)


_PAYLOADS = {"items": 1, "counted": 1, "bytes": 2}
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


def _regions(source: RecordedProcess) -> dict[str, Any]:
    rows = read_rows(source)
    n = len(rows.start)
    items, tokens = unpack(rows.payload)
    line = lookup(source.sites, lambda s: s.place.line if s.place else -1)[rows.site]
    kind = lookup(source.sites, lambda site: _PAYLOADS.get(site.payload or "", 0))[rows.site]
    return {
        **_who(source, n),
        **{name: _words(source, rows, text) for name, text in _TEXTS.items()},
        "line": np.where(line >= 0, line, np.nan),
        "thread": lookup(source.sites, lambda site: site.thread)[rows.site].astype(np.float64),
        "step": _step_of(source, rows),
        "start": rows.start / SECOND,
        "seconds": (rows.end - rows.start) / SECOND,
        "items": np.where((kind == 1) & (items > 0), items, np.nan),
        "tokens": np.where((kind == 1) & (tokens > 0), tokens, np.nan),
        "bytes": np.where(kind == 2, rows.payload, np.nan),
    }


def _words(
    source: RecordedProcess, rows: SpanColumns, of: Callable[[CallSite], str | None]
) -> Words:
    words = list(dict.fromkeys(word for s in source.sites.values() if (word := of(s)) is not None))
    numbers: dict[str | None, int] = {word: code for code, word in enumerate(words)}
    codes = lookup(source.sites, lambda site: numbers.get(of(site), -1), -1)
    return Words(codes.astype(np.int32)[rows.site], words)


def _step_of(source: RecordedProcess, rows: SpanColumns) -> Any:
    """The step that each span lies in, of the loop of its own thread; NaN for none."""
    found = np.full(len(rows.start), np.nan)
    thread_of = lookup(source.sites, lambda site: site.thread)[rows.site]
    for thread in threads_of(source, rows):
        mine = np.flatnonzero(thread_of == thread.number)
        for trace in thread.traces:
            step: Ints = owners(trace.start, trace.end, rows.start[mine])
            inside = step >= 0
            found[mine[inside]] = step[inside]
    return found


def _joined(parts: list[dict[str, Any]], names: tuple[str, ...]) -> Columns:
    if not parts:
        return {name: np.empty(0) for name in names}
    found: Columns = {}
    for name in names:
        columns = [part[name] for part in parts]
        joined = Words.joined(columns) if isinstance(columns[0], Words) else np.concatenate(columns)
        found[name] = joined
    return found
