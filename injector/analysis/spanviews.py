"""The views ``steps`` and ``regions``: what the spans of a run say, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..store.folder import Run
from .columns import SECOND, Ints, Rows, Site, Source, read_rows, sources
from .intervals import owners
from .loops import grouped
from .query import Columns, Words
from .tables import counted
from .tree import measured_from
from .units import Unit, threads_of


def steps(run: Run) -> Columns:
    """Each step of each rank: ``start`` is unix seconds, ``seconds`` is without evaluation in it."""
    parts = [_steps(loop, unit) for loop, unit in _units(run)]
    return _joined(parts, _STEPS)


_COUNTS = ("step", "start", "seconds", "items", "tokens", "waits", "measured")
_STEPS = ("loop", "task", "process", "rank", "attempt", "host", *_COUNTS)


def _units(run: Run) -> Iterable[tuple[int, Unit]]:
    found = [
        unit
        for source in sources(run)
        if source.has_spans()
        for thread in threads_of(source, read_rows(source))
        for unit in thread.units
    ]
    return ((loop, unit) for loop, units in enumerate(grouped(found)) for unit in units)


def _steps(loop: int, unit: Unit) -> dict[str, Any]:
    n = len(unit.start)
    number = np.arange(n)
    return {
        "loop": np.full(n, loop),
        "task": Words(np.zeros(n, np.int32), [unit.pace.task]),
        **_who(unit.source, n),
        "step": number,
        "start": unit.start / SECOND,
        "seconds": unit.table.seconds.astype(np.float64),
        "items": _known(unit.items, n),
        "tokens": _known(unit.tokens, n),
        "waits": unit.waits.astype(np.float64),
        "measured": number >= measured_from(unit, unit.warmup),
    }


def _known(column: Any, n: int) -> Any:
    return np.full(n, np.nan) if column is None else column.astype(np.float64)


def _who(source: Source, n: int) -> dict[str, Any]:
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


_TEXTS: dict[str, Callable[[Site], str | None]] = {
    "region": lambda site: site.region,
    "clock": lambda site: site.clock,
    "phase": lambda site: site.phase,
    "task": lambda site: site.task,
    "what": lambda site: site.what,
    "device": lambda site: site.device,
    "file": lambda site: site.place.file if site.place else None,
}
_NUMBERS = ("line", "thread", "step", "start", "seconds", "items", "tokens", "bytes")
_REGIONS = ("process", "rank", "attempt", "host", *_TEXTS, *_NUMBERS)


def _regions(source: Source) -> dict[str, Any]:
    rows = read_rows(source)
    n = len(rows.start)
    items, tokens = counted(rows.payload)
    kind = _lookup(
        source,
        lambda site: {"items": 1.0, "counted": 1.0, "bytes": 2.0}.get(site.payload or "", 0.0),
    )
    kind = kind[rows.site]
    return {
        **_who(source, n),
        **{name: _words(source, rows, text) for name, text in _TEXTS.items()},
        "line": _lookup(source, lambda s: float(s.place.line) if s.place else np.nan)[rows.site],
        "thread": _lookup(source, lambda site: float(site.thread))[rows.site],
        "step": _step_of(source, rows),
        "start": rows.start / SECOND,
        "seconds": (rows.end - rows.start) / SECOND,
        "items": np.where((kind == 1) & (items > 0), items, np.nan),
        "tokens": np.where((kind == 1) & (tokens > 0), tokens, np.nan),
        "bytes": np.where(kind == 2, rows.payload, np.nan),
    }


def _lookup(source: Source, of: Callable[[Site], float]) -> Any:
    found = np.full(1 + max(source.sites, default=0), np.nan)
    for number, site in source.sites.items():
        found[number] = of(site)
    return found


def _words(source: Source, rows: Rows, of: Callable[[Site], str | None]) -> Words:
    words = list(dict.fromkeys(word for s in source.sites.values() if (word := of(s)) is not None))
    codes = np.full(1 + max(source.sites, default=0), -1, np.int32)
    for number, site in source.sites.items():
        word = of(site)
        codes[number] = -1 if word is None else words.index(word)
    return Words(codes[rows.site], words)


def _step_of(source: Source, rows: Rows) -> Any:
    """The step that each span lies in, of the loop of its own thread; NaN for none."""
    found = np.full(len(rows.start), np.nan)
    thread_of = _lookup(source, lambda site: float(site.thread))[rows.site]
    for thread in threads_of(source, rows):
        mine = np.flatnonzero(thread_of == thread.number)
        for unit in thread.units:
            step: Ints = owners(unit.start, unit.end, rows.start[mine])
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
