"""How much faster training could be at most if one thing took no time: upper bounds, of the steps of a run.

What is hidden takes no time of its own; all else stays as long as it was. What is put in its place costs
something, so no change of a program reaches its bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .arrays import exceptional
from .profile import COMPUTING, READING, Straggler, TimeSegment, UpperBound
from .ranks import ranked, waits_of
from .tables import Path, StepTable
from .traces import LoopTrace
from .wording import short

LEAST = 0.01
"""Of a step or of the run: what would save less has no bound."""
RUNS = {name: f"without {name}" for name in ("evaluation", "checkpoint", "logging", "callback")}
"""Time segments of a run that could be left out, or be done by another process."""
_Column = npt.NDArray[np.floating]
_Matrix = npt.NDArray[np.float64]
"""A column for each step; a row for each rank, where there are rows."""


def bounds_of(
    traces: list[LoopTrace], warmup: int, straggler: Straggler | None
) -> list[UpperBound]:
    """For each region of a loop that computes nothing, and its straggler; the largest first.

    Of each step, what would remain is the largest over ranks of what it does without collectives and
    without what is hidden, and what the transfer of each collective takes: the time of the rank that waits
    least in it. No step becomes shorter than what the device works in it, nor longer than it was.
    """
    whole = ranked(traces) or traces[:1]
    count = min(len(trace.start) for trace in whole)
    aligned = slice(min(warmup, count // 2), count)
    tables = [trace.table for trace in whole]
    step = np.stack([table.seconds[aligned] for table in tables]).astype(np.float64)
    usual = ~exceptional(step.mean(axis=0).astype(np.float32))
    regions = [_regions(table, aligned) for table in tables]
    waits, transfer = _collectives(whole, regions, aligned, count)
    work = step - waits
    names = dict.fromkeys(name for each in regions for name in each)
    found = []

    def add(kind: str, words: str, remaining: _Matrix, added: _Matrix | float) -> None:
        left = remaining.max(axis=0) + added
        busy = _busy(tables, aligned, kind)
        left = np.minimum(np.maximum(left, busy), step.mean(axis=0))
        made = _bound(
            kind, words, float(step.mean(axis=0)[usual].mean()), float(left[usual].mean())
        )
        if made is not None:
            found.append(made)

    if not usual.any():
        return []
    for name in names:
        if name == "comm" and len(whole) > 1:
            add(name, "collectives hidden completely", work, 0.0)
            continue
        nothing = np.zeros(step.shape[1])
        own = np.stack([each.get(name, nothing) for each in regions])
        words = "without what no region covers" if name == "other" else f"{name} hidden completely"
        add(name, words, work - own, transfer)
    if straggler is not None and len(whole) > 1:
        culprit = next(n for n, trace in enumerate(whole) if trace.source.rank == straggler.rank)
        others = np.median(np.delete(work, culprit, axis=0), axis=0)
        even = work.copy()
        even[culprit] = np.minimum(even[culprit], others)
        add("straggler", f"rank {straggler.rank} as fast as the others' median", even, transfer)
    return sorted(found, key=lambda each: -each.factor)


def bounds_of_run(segments: Sequence[TimeSegment], wall: float) -> list[UpperBound]:
    """For what a run does beside training: its wall time without the segments of one name."""
    found = []
    for name, words in RUNS.items():
        seconds = sum(each.seconds for each in segments if each.name == name)
        made = _bound(name, words, wall, wall - seconds, of="run")
        if made is not None:
            found.append(made)
    return sorted(found, key=lambda each: -each.factor)


def _bound(
    kind: str, words: str, before: float, after: float, of: str = "step"
) -> UpperBound | None:
    if before <= 0 or before - after < LEAST * before:
        return None
    if after <= before * 1e-3:  # nothing would remain: no number says how fast that is
        return None
    factor = before / after
    what = "a step" if of == "step" else "the run"
    text = (
        f"upper bound: {words}, {what} would be at most {factor:.3g} times as fast "
        f"({short(after)} instead of {short(before)}{' on average' if of == 'step' else ''})"
    )
    return UpperBound(kind, of, before, after, factor, text)


def _regions(table: StepTable, aligned: slice) -> dict[str, _Column]:
    """What of a step computes nothing, by regions; reading is one of them, whatever part of it.

    Of thousands of ranks that is much, and no copy of it is made where a region is one column.
    """
    found: dict[str, _Column] = {}
    for name, seconds in table.regions().items():
        if name not in COMPUTING:
            name = "io" if name in READING else name
            mine = seconds[aligned]
            found[name] = found[name] + mine.astype(np.float64) if name in found else mine
    return found


def _collectives(
    ranks: list[LoopTrace], regions: list[dict[str, _Column]], aligned: slice, count: int
) -> tuple[_Column, _Matrix | float]:
    """What each rank spends in collectives in each step, and what of that is no waiting for others."""
    nothing = np.zeros(aligned.stop - aligned.start)
    if len(ranks) < 2:
        return nothing[None], 0.0
    if any("comm" in each for each in regions):
        spent = np.stack([each.get("comm", nothing) for each in regions])
        paths = _shared(ranks)
        transfer = nothing.copy()
        for path in paths:
            columns = [trace.table.own(path)[aligned] for trace in ranks]
            transfer += np.min(np.stack(columns), axis=0)
        return spent, transfer
    return np.stack([each[aligned] for each in waits_of(ranks, count)]).astype(np.float64), 0.0


def _shared(ranks: list[LoopTrace]) -> list[Path]:
    """The collectives that all ranks make."""
    first, *others = (trace.table.columns for trace in ranks)
    paths = [path for path in first if path[-1][0] == "comm"]
    return [path for path in paths if all(path in each for each in others)]


def _busy(tables: Sequence[StepTable], aligned: slice, without: str) -> _Matrix | float:
    """Seconds for which the busiest device works in each step, without what it does for one region."""
    found = [busy[aligned] for table in tables if (busy := table.busy(without)) is not None]
    return np.max(np.stack(found), axis=0).astype(np.float64) if found else 0.0
