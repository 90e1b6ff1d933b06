"""Upper bounds: how many times as fast a run would be if one thing took no time.

What is hidden takes no time of its own, and all else stays as long as it was. No change of a program reaches
its bound, as whatever is done instead costs something too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from .arrays import exceptional, mean_across, median_across, parts_of
from .pieces import Path
from .profile import TimeSegment, UpperBound
from .ranks import ranked, waits_of
from .tables import StepTable
from .traces import LoopTrace
from .training_loop import COMPUTING, READING, Straggler
from .wording import short

LEAST = 0.01
"""The least fraction of a step or of the run that has to be saved for a bound to be given."""
RUNS = {name: f"without {name}" for name in ("evaluation", "checkpoint", "logging", "callback")}
"""Time segments of a run that could be left out, or be done by another process."""
_Column = npt.NDArray[np.floating]
"""A value for each step."""


def bounds_of(
    traces: list[LoopTrace], warmup: int, straggler: Straggler | None
) -> list[UpperBound]:
    """A bound for each region of a loop that computes nothing, and for its straggler; the largest first.

    What would remain of a step is the largest, over ranks, of what the rank does outside of collectives and
    of the hidden region, plus the transfer of each collective: the time of the rank that waits least in it.
    No step becomes shorter than its device works, or longer than it was; nor does it save more than all ranks
    together spend in what is hidden, however far apart their steps begin.
    """
    one_per_rank = ranked(traces) or traces[:1]
    count = min(map(len, one_per_rank))
    aligned = slice(min(warmup, count // 2), count)
    tables = [trace.table for trace in one_per_rank]
    seconds = [table.seconds[aligned] for table in tables]
    step = mean_across([seconds[0].astype(np.float64), *seconds[1:]])
    # An exceptional step would decide the mean.
    usual = ~exceptional(step.astype(np.float32))
    if not usual.any():
        return []
    waits, transfer = _collectives(one_per_rank, aligned, count)
    bounds = []

    def add(kind: str, words: str, left: _Column, hidden: _Column) -> None:
        left = np.maximum(left, _busy(tables, aligned, kind))
        left = np.minimum(np.maximum(left, step - hidden), step)
        bound = _bound(kind, words, float(step[usual].mean()), float(left[usual].mean()))
        if bound is not None:
            bounds.append(bound)

    for name, (largest, hidden) in _longest_without(tables, seconds, waits, aligned).items():
        # Nothing of the collectives remains then, their transfer included.
        if name == "comm" and len(one_per_rank) > 1:
            add(name, "collectives hidden completely", largest, hidden)
            continue
        words = "without what no region covers" if name == "other" else f"{name} hidden completely"
        add(name, words, largest + transfer, hidden)
    if straggler is not None and len(one_per_rank) > 1:
        ranks = [trace.source.rank for trace in one_per_rank]
        longest, hidden = _without_straggler(seconds, waits, ranks.index(straggler.rank))
        words = f"rank {straggler.rank} as fast as the others' median"
        add("straggler", words, longest + transfer, hidden)
    return sorted(bounds, key=lambda each: -each.factor)


def _longest_without(
    tables: Sequence[StepTable],
    seconds: Sequence[_Column],
    waits: Sequence[_Column],
    aligned: slice,
) -> dict[str, tuple[_Column, _Column]]:
    """For each region that computes nothing, the longest work of any rank in each step without it, and what
    all ranks together spend in it.

    It is computed rank after rank: the columns of all ranks do not fit into memory at once.
    """
    longest_work = np.full(len(seconds[0]), -np.inf)
    longest_without: dict[str, npt.NDArray[np.float64]] = {}
    spent: dict[str, npt.NDArray[np.float64]] = {}
    for table, rank_seconds, wait in zip(tables, seconds, waits, strict=True):
        work, regions = rank_seconds.astype(np.float64) - wait, _regions(table, aligned)
        for name in regions:
            # A region that no earlier rank has: for these, hiding it changes nothing.
            if name not in longest_without:
                longest_without[name] = longest_work.copy()
                spent[name] = np.zeros(len(longest_work))
            spent[name] += regions[name]
        for name, largest in longest_without.items():
            # Of several ranks, time in collectives is no work already.
            is_hidden = name in regions and not (name == "comm" and len(tables) > 1)
            np.maximum(largest, work - regions[name] if is_hidden else work, out=largest)
        np.maximum(longest_work, work, out=longest_work)
    return {name: (largest, spent[name]) for name, largest in longest_without.items()}


def _without_straggler(
    seconds: list[_Column], waits: Sequence[_Column], culprit: int
) -> tuple[_Column, _Column]:
    """The longest work of any rank in each step if the ``culprit`` took no longer than the others' median.

    And how much less it would take than it did.
    """
    longest, less = [], []
    for part in parts_of(seconds):
        pairs = zip(seconds, waits, strict=True)
        work = [rank_seconds[part].astype(np.float64) - wait[part] for rank_seconds, wait in pairs]
        culprit_work = work.pop(culprit)
        evened = np.minimum(culprit_work, median_across(work))
        longest.append(np.maximum(reduce(np.maximum, work), evened))
        less.append(culprit_work - evened)
    return np.concatenate(longest), np.concatenate(less)


def bounds_of_run(segments: Sequence[TimeSegment], wall: float) -> list[UpperBound]:
    """A bound for each thing that a run does beside training: the run without those time segments."""
    bounds = []
    for name, words in RUNS.items():
        seconds = sum(each.seconds for each in segments if each.name == name)
        bound = _bound(name, words, wall, wall - seconds, of="run")
        if bound is not None:
            bounds.append(bound)
    return sorted(bounds, key=lambda each: -each.factor)


def _bound(
    kind: str, words: str, before: float, after: float, of: str = "step"
) -> UpperBound | None:
    """The bound for ``before`` seconds that become ``after``; None if it says little."""
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
    """Seconds of the regions that compute nothing. All ways of reading are ``io``."""
    regions: dict[str, _Column] = {}
    for name, seconds in table.regions().items():
        if name not in COMPUTING:
            name = "io" if name in READING else name
            part = seconds[aligned]
            regions[name] = regions[name] + part.astype(np.float64) if name in regions else part
    return regions


def _collectives(
    ranks: list[LoopTrace], aligned: slice, count: int
) -> tuple[list[_Column], _Column | float]:
    """Seconds of each rank in collectives, and the part of them that the transfer itself takes.

    Without recorded collectives they are what each rank waits for others.
    """
    nothing = np.zeros(aligned.stop - aligned.start)
    if len(ranks) < 2:
        return [nothing], 0.0
    comm = [trace.table.region("comm") for trace in ranks]
    if any(column is not None for column in comm):
        transfer = nothing.copy()
        # The rank that comes last to a collective does not wait in it: its time is what the transfer takes.
        for path in _shared(ranks):
            transfer += reduce(np.minimum, (trace.table.own(path)[aligned] for trace in ranks))
        return [nothing if column is None else column[aligned] for column in comm], transfer
    return [column[aligned] for column in waits_of(ranks, count)], 0.0


def _shared(ranks: list[LoopTrace]) -> list[Path]:
    """The collectives that all ranks take part in."""
    first, *others = (trace.table.columns for trace in ranks)
    paths = [path for path in first if path[-1][0] == "comm"]
    return [path for path in paths if all(path in columns for columns in others)]


def _busy(tables: Sequence[StepTable], aligned: slice, without: str) -> _Column | float:
    """Seconds that the busiest device works in each step, but for the region ``without``."""
    columns = [busy[aligned] for table in tables if (busy := table.busy(without)) is not None]
    return reduce(np.maximum, columns).astype(np.float64) if columns else 0.0
