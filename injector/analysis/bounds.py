"""How much faster training could be at most if one thing took no time: upper bounds, of the steps of a run.

What is hidden takes no time of its own; all else stays as long as it was. What is put in its place costs
something, so no change of a program reaches its bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from .arrays import exceptional, mean_across, median_across, parts_of
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
"""A value for each step."""


def bounds_of(
    traces: list[LoopTrace], warmup: int, straggler: Straggler | None
) -> list[UpperBound]:
    """For each region of a loop that computes nothing, and its straggler; the largest first.

    Of each step, what would remain is the largest over ranks of what it does without collectives and
    without what is hidden, and what the transfer of each collective takes: the time of the rank that waits
    least in it. No step becomes shorter than what the device works in it, nor longer than it was.
    """
    whole = ranked(traces) or traces[:1]
    count = min(map(len, whole))
    aligned = slice(min(warmup, count // 2), count)
    tables = [trace.table for trace in whole]
    seconds = [table.seconds[aligned] for table in tables]
    step = mean_across([seconds[0].astype(np.float64), *seconds[1:]])
    usual = ~exceptional(step.astype(np.float32))
    if not usual.any():
        return []
    waits, transfer = _collectives(whole, aligned, count)
    # Of each step the largest over ranks, rank after rank: all of them at once do not fit into memory.
    every, most = np.full(len(step), -np.inf), dict[str, npt.NDArray[np.float64]]()
    for table, taken, wait in zip(tables, seconds, waits, strict=True):
        work, mine = taken.astype(np.float64) - wait, _regions(table, aligned)
        for name in mine:
            if name not in most:
                most[name] = every.copy()
        for name, largest in most.items():
            hidden = name in mine and not (name == "comm" and len(whole) > 1)
            np.maximum(largest, work - mine[name] if hidden else work, out=largest)
        np.maximum(every, work, out=every)
    found = []

    def add(kind: str, words: str, left: _Column) -> None:
        left = np.minimum(np.maximum(left, _busy(tables, aligned, kind)), step)
        made = _bound(kind, words, float(step[usual].mean()), float(left[usual].mean()))
        if made is not None:
            found.append(made)

    for name, largest in most.items():
        if name == "comm" and len(whole) > 1:
            add(name, "collectives hidden completely", largest)
            continue
        words = "without what no region covers" if name == "other" else f"{name} hidden completely"
        add(name, words, largest + transfer)
    if straggler is not None and len(whole) > 1:
        ranks = [trace.source.rank for trace in whole]
        even = _without(seconds, waits, ranks.index(straggler.rank))
        add("straggler", f"rank {straggler.rank} as fast as the others' median", even + transfer)
    return sorted(found, key=lambda each: -each.factor)


def _without(seconds: list[_Column], waits: Sequence[_Column], culprit: int) -> _Column:
    """Of each step the largest work of a rank, were that of the ``culprit`` the others' median at most."""
    found = []
    for part in parts_of(seconds):
        pairs = zip(seconds, waits, strict=True)
        work = [taken[part].astype(np.float64) - wait[part] for taken, wait in pairs]
        own = work.pop(culprit)
        even = np.minimum(own, median_across(work))
        found.append(np.maximum(reduce(np.maximum, work), even))
    return np.concatenate(found)


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
    """What of a step computes nothing, by regions; reading is one of them, whatever part of it."""
    found: dict[str, _Column] = {}
    for name, seconds in table.regions().items():
        if name not in COMPUTING:
            name = "io" if name in READING else name
            mine = seconds[aligned]
            found[name] = found[name] + mine.astype(np.float64) if name in found else mine
    return found


def _collectives(
    ranks: list[LoopTrace], aligned: slice, count: int
) -> tuple[list[_Column], _Column | float]:
    """What each rank spends in collectives in each step, and what of that is no waiting for others."""
    nothing = np.zeros(aligned.stop - aligned.start)
    if len(ranks) < 2:
        return [nothing], 0.0
    comm = [trace.table.region("comm") for trace in ranks]
    if any(each is not None for each in comm):
        transfer = nothing.copy()
        for path in _shared(ranks):
            transfer += reduce(np.minimum, (trace.table.own(path)[aligned] for trace in ranks))
        return [nothing if each is None else each[aligned] for each in comm], transfer
    return [each[aligned] for each in waits_of(ranks, count)], 0.0


def _shared(ranks: list[LoopTrace]) -> list[Path]:
    """The collectives that all ranks make."""
    first, *others = (trace.table.columns for trace in ranks)
    paths = [path for path in first if path[-1][0] == "comm"]
    return [path for path in paths if all(path in each for each in others)]


def _busy(tables: Sequence[StepTable], aligned: slice, without: str) -> _Column | float:
    """Seconds for which the busiest device works in each step, without what it does for one region."""
    found = [busy[aligned] for table in tables if (busy := table.busy(without)) is not None]
    return reduce(np.maximum, found).astype(np.float64) if found else 0.0
