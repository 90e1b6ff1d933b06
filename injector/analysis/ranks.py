"""Loops over their ranks: throughput, and the straggler, which the other ranks wait for.

In a job of several ranks, nearly every rank waits in each step, for the slowest one. So the rank that waits
least is the one that the others wait for (:func:`straggler_of`)::

    rank 0   compute ======  wait ----|
    rank 1   compute ======  wait ----|
    rank 2   compute =================|      waits least: the straggler
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np

from .arrays import chained, median_across, median_of, median_over_rows, statistics_of
from .pieces import Seconds
from .traces import LoopTrace
from .training_loop import LoopRank, Straggler, Throughput

EXPLAINS = 0.8
"""A region is the reason for the others' wait if the straggler's excess in it covers this fraction of it."""
LEAST_STEPS = 20
"""Fewer measured steps name no straggler."""
LEAST_WAIT = 0.5e-3
"""The least wait per step, in seconds, that names one: any collective takes that long."""
STEADY = 0.8
"""The straggler has to wait less than the others in this fraction of steps: chance would make it half."""


class Amounts(NamedTuple):
    """What the measured steps of a trace worked on, in sums."""

    steps: int
    seconds: float
    items: float | None
    tokens: float | None


def measured_amounts(trace: LoopTrace, warmup: int) -> Amounts:
    first = trace.measured_from(warmup)
    seconds = float(trace.table.seconds[first:].sum(dtype=np.float64))
    items, tokens = (
        None if column is None else float(column[first:].sum(dtype=np.float64))
        for column in (trace.items, trace.tokens)
    )
    return Amounts(len(trace) - first, seconds, items, tokens)


def throughput_of(traces: list[LoopTrace], warmup: int, together: bool) -> Throughput:
    """The sums of each rank divided by its seconds, and added up over ranks.

    If ranks work ``together``, their items are added up, but not their steps: all make the same ones.
    """
    by_rank: dict[object, list[Amounts]] = {}
    for number, trace in enumerate(traces):
        # A rank that was started again has several traces; each process without a rank counts for itself.
        rank = trace.source.rank if trace.source.rank is not None else ("none", number)
        by_rank.setdefault(rank, []).append(measured_amounts(trace, warmup))
    sums = [_sum(rates) for rates in by_rank.values()]
    step_count = sum(each.steps for each in sums)
    rates = [each.steps / each.seconds for each in sums if each.seconds > 0]
    items = [each.items / each.seconds for each in sums if each.items and each.seconds > 0]
    tokens = [each.tokens / each.seconds for each in sums if each.tokens and each.seconds > 0]
    all_know_items = len(items) == len(sums)
    # The median, as ranks may have recorded different numbers of the same steps.
    steps_per_second = (
        float(median_over_rows(np.array(rates))) if together and rates else sum(rates)
    )
    why = next((trace.why for trace in traces if trace.why), None)
    return Throughput(
        steps=steps_per_second,
        items=sum(items) if items and all_know_items else None,
        tokens=sum(tokens) if tokens else None,
        rate=statistics_of(
            chained((_rates(each, warmup, all_know_items) for each in traces), step_count)
        ),
        why_no_items=None if items and all_know_items else why or "not all ranks recorded items",
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
    """Items per second of each measured step, or without ``items`` steps per second; 0 for an empty step."""
    first = trace.measured_from(warmup)
    seconds = trace.table.seconds[first:]
    amount = trace.items[first:] if items and trace.items is not None else np.float32(1)
    if seconds.min(initial=1) > 0:
        return amount / seconds
    # Clocks may be too coarse for a tiny step.
    return np.where(seconds > 0, amount / np.where(seconds > 0, seconds, 1), 0).astype(np.float32)


def loop_rank_of(trace: LoopTrace, warmup: int) -> LoopRank:
    """The figures of one rank."""
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
    """One trace for each rank, in their order: of a rank that was started again the one with most steps."""
    best: dict[int, LoopTrace] = {}
    for trace in traces:
        rank = trace.source.rank
        if rank is not None and (rank not in best or len(trace) > len(best[rank])):
            best[rank] = trace
    return [best[rank] for rank in sorted(best)]


def straggler_of(traces: list[LoopTrace], warmup: int) -> Straggler | None:
    """The rank that the others wait for, and the region in which it is slow; None if there is none.

    The rule is TraceML's: it is the rank that waits least. Since some rank always does, it is named only
    after enough steps, and if nearly all of them say the same.
    """
    ranks = ranked(traces)
    n = min(map(len, ranks), default=0)
    # Ranks are compared over the steps that all of them made, without the warm-up.
    aligned = slice(min(warmup, n // 2), n)
    if len(ranks) < 2 or aligned.stop - aligned.start < LEAST_STEPS:
        return None
    waits = [seconds[aligned] for seconds in waits_of(ranks, n)]
    culprit = int(np.argmin([median_of(seconds) for seconds in waits]))
    its_waits = waits.pop(culprit)
    other_waits = median_across(waits)
    difference = other_waits - its_waits
    if median_of(other_waits) < LEAST_WAIT or np.mean(difference > 0) < STEADY:
        return None
    step_seconds = median_of(median_across([trace.table.seconds[aligned] for trace in ranks]))
    wait = median_of(difference)
    if step_seconds <= 0 or wait <= 0:
        return None
    slow_at, excess = _reason(ranks, culprit, aligned)
    rank = ranks[culprit].source.rank
    assert rank is not None
    reason = slow_at if excess >= EXPLAINS * wait else None
    return Straggler(rank, wait / step_seconds, reason, excess)


def waits_of(ranks: list[LoopTrace], n: int) -> list[Seconds]:
    """Seconds that each rank spent waiting for others in the first ``n`` steps, one array per rank."""
    waits = [trace.waits[:n] for trace in ranks]
    if any(column.any() for column in waits):
        return waits
    # No collectives were recorded: gradients are exchanged while backward computes them, and a rank that
    # waits for others is longer in its backward.
    backwards = [trace.table.region("backward") for trace in ranks]
    if any(column is None for column in backwards):
        return waits
    seconds = [column[:n] for column in backwards if column is not None]
    fastest = reduce(np.minimum, seconds)
    return [column - fastest for column in seconds]


def _reason(ranks: list[LoopTrace], culprit: int, aligned: slice) -> tuple[str | None, float]:
    """The region in which the straggler exceeds the others' median most, and by how many seconds."""
    medians = [
        {name: median_of(seconds[aligned]) for name, seconds in trace.table.regions().items()}
        for trace in ranks
    ]
    its_medians = medians.pop(culprit)
    best: tuple[str | None, float] = (None, 0.0)
    for name, its_median in its_medians.items():
        other_medians = np.array([seconds.get(name, 0.0) for seconds in medians])
        excess = its_median - float(median_over_rows(other_medians))
        # It waits least in collectives, which never are the reason.
        if name != "comm" and excess > best[1]:
            best = (name, excess)
    return best
