"""Loops over their ranks: throughput, and who makes the others wait."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import median_of, statistics_of
from .profile import Straggler, Throughput, Track
from .tables import Seconds
from .traces import Unit

EXPLAINS = 0.8
"""Of the others' wait, what the excess of one region has to cover to be its reason."""
LEAST_STEPS = 20
"""Measured steps that it takes to name a rank."""
LEAST_WAIT = 0.5e-3
"""Seconds of a step that the others have to wait: below, it is what any collective takes."""
STEADY = 0.8
"""In so many of the steps the culprit has to wait less than the others: chance would make it half."""


class Rate(NamedTuple):
    """What a unit got through in its measured steps."""

    steps: int
    seconds: float
    items: float | None
    tokens: float | None


def rate_of(unit: Unit, warmup: int) -> Rate:
    """Sums over the measured steps of one unit."""
    first = unit.measured_from(warmup)
    seconds = float(unit.table.seconds[first:].sum(dtype=np.float64))
    items, tokens = (
        None if each is None else float(each[first:].sum(dtype=np.float64))
        for each in (unit.items, unit.tokens)
    )
    return Rate(len(unit.start) - first, seconds, items, tokens)


def throughput_of(units: list[Unit], warmup: int, together: bool) -> Throughput:
    """Sums over sums of each rank, added up where ranks run at the same time."""
    by_rank: dict[object, list[Rate]] = {}
    for number, unit in enumerate(units):
        who = unit.source.rank if unit.source.rank is not None else ("none", number)
        by_rank.setdefault(who, []).append(rate_of(unit, warmup))
    sums = [_sum(rates) for rates in by_rank.values()]
    steps = [each.steps / each.seconds for each in sums if each.seconds > 0]
    items = [each.items / each.seconds for each in sums if each.items and each.seconds > 0]
    tokens = [each.tokens / each.seconds for each in sums if each.tokens and each.seconds > 0]
    whole = len(items) == len(sums)
    # Ranks that work on one job make each step together; others make their own.
    made = float(np.median(steps)) if together and steps else sum(steps)
    why = next((unit.why for unit in units if unit.why), None)
    return Throughput(
        steps=made,
        items=sum(items) if items and whole else None,
        tokens=sum(tokens) if tokens else None,
        rate=statistics_of(np.concatenate([_rates(unit, warmup, whole) for unit in units])),
        why_no_items=None if items and whole else why or "not all ranks recorded items",
    )


def _sum(rates: list[Rate]) -> Rate:
    items = [rate.items for rate in rates if rate.items is not None]
    tokens = [rate.tokens for rate in rates if rate.tokens is not None]
    return Rate(
        sum(rate.steps for rate in rates),
        sum(rate.seconds for rate in rates),
        sum(items) if items else None,
        sum(tokens) if tokens else None,
    )


def _rates(unit: Unit, warmup: int, items: bool) -> Seconds:
    first = unit.measured_from(warmup)
    seconds = unit.table.seconds[first:]
    number = unit.items[first:] if items and unit.items is not None else np.float32(1)
    return np.where(seconds > 0, number / np.where(seconds > 0, seconds, 1), 0).astype(np.float32)


def track_of(unit: Unit, warmup: int) -> Track:
    """One rank of a loop."""
    first = unit.measured_from(warmup)
    return Track(
        process=unit.source.index,
        rank=unit.source.rank,
        host=unit.source.host,
        device=unit.device,
        steps=len(unit.start),
        step=statistics_of(unit.table.seconds[first:]),
        throughput=throughput_of([unit], warmup, together=False),
        waits=median_of(unit.waits[first:]),
        regions={name: median_of(each[first:]) for name, each in unit.table.regions().items()},
    )


def ranked(units: list[Unit]) -> list[Unit]:
    """For each rank the process that made most of its steps: a restarted one has several."""
    best: dict[int, Unit] = {}
    for unit in units:
        rank = unit.source.rank
        if rank is not None and (rank not in best or len(unit.start) > len(best[rank].start)):
            best[rank] = unit
    return [best[rank] for rank in sorted(best)]


def straggler_of(units: list[Unit], warmup: int) -> Straggler | None:
    """The rank that waits least, and what it does meanwhile; None unless there are several ranks.

    The rule is TraceML's: whoever never waits is who the others wait for. Of any ranks one waits
    least: it is named only where there are steps enough, and where nearly all of them say the same.
    """
    ranks = ranked(units)
    n = min((len(unit.start) for unit in ranks), default=0)
    aligned = slice(min(warmup, n // 2), n)
    if len(ranks) < 2 or aligned.stop - aligned.start < LEAST_STEPS:
        return None
    waits = np.stack([each[aligned] for each in _waits(ranks, n)])
    typical = np.array([median_of(each) for each in waits])
    culprit = int(typical.argmin())
    others = [i for i in range(len(ranks)) if i != culprit]
    theirs = np.median(waits[others], axis=0)
    lack = theirs - waits[culprit]
    if median_of(theirs) < LEAST_WAIT or np.mean(lack > 0) < STEADY:
        return None
    step = np.median(np.stack([unit.table.seconds[aligned] for unit in ranks]), axis=0)
    whole = median_of(step)
    wait = median_of(lack)
    if whole <= 0 or wait <= 0:
        return None
    slow_at, excess = _reason(ranks, culprit, aligned)
    rank = ranks[culprit].source.rank
    assert rank is not None
    reason = slow_at if excess >= EXPLAINS * wait else None
    return Straggler(rank, wait / whole, reason, excess)


def _waits(ranks: list[Unit], n: int) -> list[Seconds]:
    waits = [unit.waits[:n] for unit in ranks]
    if any(each.any() for each in waits):
        return waits
    # Gradients that are exchanged while they are computed: who waits is longest in its backward.
    inside = [unit.table.regions().get("backward") for unit in ranks]
    if any(each is None for each in inside):
        return waits
    backward = [each[:n] for each in inside if each is not None]
    fastest = np.min(np.stack(backward), axis=0)
    return [each - fastest for each in backward]


def _reason(ranks: list[Unit], culprit: int, aligned: slice) -> tuple[str | None, float]:
    """The region in which the culprit spends most more than the others do."""
    regions = [unit.table.regions() for unit in ranks]
    best: tuple[str | None, float] = (None, 0.0)
    for name, mine in regions[culprit].items():
        if name == "comm":
            continue
        theirs = [
            median_of(each[name][aligned]) if name in each else 0.0
            for number, each in enumerate(regions)
            if number != culprit
        ]
        excess = median_of(mine[aligned]) - float(np.median(theirs))
        if excess > best[1]:
            best = (name, excess)
    return best
