"""Loops over their ranks: throughput, and the rank that the others wait for."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np

from .arrays import chained, median_across, median_of, middle_of, statistics_of
from .profile import LoopRank, Straggler, Throughput
from .tables import Seconds
from .traces import LoopTrace

EXPLAINS = 0.8
"""Of the others' wait, what the excess of one region has to cover to be its reason."""
LEAST_STEPS = 20
"""Measured steps that it takes to name a rank."""
LEAST_WAIT = 0.5e-3
"""Seconds of a step that the others have to wait: below, it is what any collective takes."""
STEADY = 0.8
"""In so many of the steps the culprit has to wait less than the others: chance would make it half."""


class Amounts(NamedTuple):
    """What a trace got through in its measured steps."""

    steps: int
    seconds: float
    items: float | None
    tokens: float | None


def rate_of(trace: LoopTrace, warmup: int) -> Amounts:
    """Sums over the measured steps of one trace."""
    first = trace.measured_from(warmup)
    seconds = float(trace.table.seconds[first:].sum(dtype=np.float64))
    items, tokens = (
        None if each is None else float(each[first:].sum(dtype=np.float64))
        for each in (trace.items, trace.tokens)
    )
    return Amounts(len(trace) - first, seconds, items, tokens)


def throughput_of(traces: list[LoopTrace], warmup: int, together: bool) -> Throughput:
    """Sums over sums of each rank, added up where ranks run at the same time."""
    by_rank: dict[object, list[Amounts]] = {}
    for number, trace in enumerate(traces):
        who = trace.source.rank if trace.source.rank is not None else ("none", number)
        by_rank.setdefault(who, []).append(rate_of(trace, warmup))
    sums = [_sum(rates) for rates in by_rank.values()]
    made_steps = sum(each.steps for each in sums)
    steps = [each.steps / each.seconds for each in sums if each.seconds > 0]
    items = [each.items / each.seconds for each in sums if each.items and each.seconds > 0]
    tokens = [each.tokens / each.seconds for each in sums if each.tokens and each.seconds > 0]
    whole = len(items) == len(sums)
    # Ranks that work on one job make each step together; others make their own.
    made = float(middle_of(np.array(steps))) if together and steps else sum(steps)
    why = next((trace.why for trace in traces if trace.why), None)
    return Throughput(
        steps=made,
        items=sum(items) if items and whole else None,
        tokens=sum(tokens) if tokens else None,
        rate=statistics_of(chained((_rates(each, warmup, whole) for each in traces), made_steps)),
        why_no_items=None if items and whole else why or "not all ranks recorded items",
    )


def _sum(rates: list[Amounts]) -> Amounts:
    items = [rate.items for rate in rates if rate.items is not None]
    tokens = [rate.tokens for rate in rates if rate.tokens is not None]
    return Amounts(
        sum(rate.steps for rate in rates),
        sum(rate.seconds for rate in rates),
        sum(items) if items else None,
        sum(tokens) if tokens else None,
    )


def _rates(trace: LoopTrace, warmup: int, items: bool) -> Seconds:
    first = trace.measured_from(warmup)
    seconds = trace.table.seconds[first:]
    number = trace.items[first:] if items and trace.items is not None else np.float32(1)
    if seconds.min(initial=1) > 0:
        return number / seconds
    return np.where(seconds > 0, number / np.where(seconds > 0, seconds, 1), 0).astype(np.float32)


def loop_rank_of(trace: LoopTrace, warmup: int) -> LoopRank:
    """One rank of a loop."""
    first = trace.measured_from(warmup)
    return LoopRank(
        process=trace.source.index,
        rank=trace.source.rank,
        host=trace.source.host,
        device=trace.device,
        steps=len(trace),
        step=statistics_of(trace.table.seconds[first:]),
        throughput=throughput_of([trace], warmup, together=False),
        waits=median_of(trace.waits[first:]),
        regions={name: median_of(each[first:]) for name, each in trace.table.regions().items()},
    )


def ranked(traces: list[LoopTrace]) -> list[LoopTrace]:
    """For each rank the process that made most of its steps: a restarted one has several."""
    best: dict[int, LoopTrace] = {}
    for trace in traces:
        rank = trace.source.rank
        if rank is not None and (rank not in best or len(trace) > len(best[rank])):
            best[rank] = trace
    return [best[rank] for rank in sorted(best)]


def straggler_of(traces: list[LoopTrace], warmup: int) -> Straggler | None:
    """The rank that waits least, and what it does meanwhile; None unless there are several ranks.

    The rule is TraceML's: the others wait for the rank that never waits. Of any ranks one waits
    least: it is named only where there are steps enough, and where nearly all of them say the same.
    """
    ranks = ranked(traces)
    n = min(map(len, ranks), default=0)
    aligned = slice(min(warmup, n // 2), n)
    if len(ranks) < 2 or aligned.stop - aligned.start < LEAST_STEPS:
        return None
    waits = [each[aligned] for each in waits_of(ranks, n)]
    culprit = int(np.argmin([median_of(each) for each in waits]))
    own = waits.pop(culprit)
    theirs = median_across(waits)
    lack = theirs - own
    if median_of(theirs) < LEAST_WAIT or np.mean(lack > 0) < STEADY:
        return None
    whole = median_of(median_across([trace.table.seconds[aligned] for trace in ranks]))
    wait = median_of(lack)
    if whole <= 0 or wait <= 0:
        return None
    slow_at, excess = _reason(ranks, culprit, aligned)
    rank = ranks[culprit].source.rank
    assert rank is not None
    reason = slow_at if excess >= EXPLAINS * wait else None
    return Straggler(rank, wait / whole, reason, excess)


def waits_of(ranks: list[LoopTrace], n: int) -> list[Seconds]:
    """Seconds for which each rank waits for others, in the first ``n`` steps."""
    waits = [trace.waits[:n] for trace in ranks]
    if any(each.any() for each in waits):
        return waits
    # Gradients that are exchanged while they are computed: who waits is longest in its backward.
    inside = [trace.table.region("backward") for trace in ranks]
    if any(each is None for each in inside):
        return waits
    backward = [each[:n] for each in inside if each is not None]
    fastest = reduce(np.minimum, backward)
    return [each - fastest for each in backward]


def _reason(ranks: list[LoopTrace], culprit: int, aligned: slice) -> tuple[str | None, float]:
    """The region in which the culprit spends most more than the others do."""
    medians = [
        {name: median_of(each[aligned]) for name, each in trace.table.regions().items()}
        for trace in ranks
    ]
    own = medians.pop(culprit)
    best: tuple[str | None, float] = (None, 0.0)
    for name, mine in own.items():
        theirs = np.array([each.get(name, 0.0) for each in medians])
        excess = mine - float(middle_of(theirs))
        if name != "comm" and excess > best[1]:
            best = (name, excess)
    return best
