"""Loops over all their ranks, as the report wants them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .profile import Loop, Warmup
from .ranks import straggler_of, throughput_of, track_of
from .tree import exceptional_of, measured_from, tree_of
from .units import Unit


def grouped(all_units: list[Unit], jobs: bool = True) -> list[list[Unit]]:
    """The units of each loop in the order of ranks; the loop that took longest first.

    What a launcher starts again is another loop: its steps did not come after those of the first attempt.
    Processes that are no ranks of one job (the trials of a study) have a loop each, unless ``jobs`` is
    False.
    """
    job = _jobs(all_units) if jobs else {}
    found: dict[object, list[Unit]] = {}
    for unit in all_units:
        which = job.get(unit.source.index)
        found.setdefault((unit.key, unit.source.attempt, which), []).append(unit)
    for units in found.values():
        units.sort(key=lambda unit: (unit.source.rank is None, unit.source.rank or 0,
                                     unit.source.index))  # fmt: skip
    return sorted(found.values(), key=lambda units: -max(unit.total for unit in units))


def _jobs(units: list[Unit]) -> dict[int, str]:
    """By process, which of several jobs it works on: one where every rank comes again is the next one."""
    sources = {unit.source.index: unit.source for unit in units}
    found = {index: f"process {index}" for index, each in sources.items() if not each.is_rank}
    ranks: dict[object, dict[int | None, list[int]]] = {}
    for index in sorted(sources.keys() - found.keys()):
        attempt, rank = sources[index].attempt, sources[index].rank
        ranks.setdefault(attempt, {}).setdefault(rank, []).append(index)
    for of_rank in ranks.values():
        times = {len(processes) for processes in of_rank.values()}
        several = len(of_rank) > 1 and len(times) == 1 and times != {1}
        for processes in of_rank.values():
            for number, index in enumerate(processes):
                found[index] = f"job {number}" if several else "job"
    return found


def labels(loops: list[list[Unit]]) -> list[str | None]:
    """Of each loop in which of several jobs it is; None for all where there is one job."""
    job = _jobs([unit for units in loops for unit in units])
    found = [job[units[0].source.index] for units in loops]
    return [*found] if len(set(found)) > 1 else [None] * len(found)


def warmup_steps(units: list[Unit], asked: int) -> int:
    """The steps at the begin of a loop that no rank counts."""
    return max(asked, *(unit.warmup for unit in units))


def loop_of(units: list[Unit], asked: int, where: str | None) -> Loop:
    """A loop over all its ranks."""
    steps = warmup_steps(units, asked)
    longest = max(units, key=lambda unit: len(unit.start))
    kept = measured_from(longest, steps)
    first = longest.table.seconds[:kept]
    tree = tree_of(units, steps, where)
    together = len({unit.source.rank for unit in units} - {None}) > 1
    items, tokens = (_per_step(units, steps, name) for name in ("items", "tokens"))
    return Loop(
        task=longest.pace.task,
        paced_by=longest.pace.paced_by,
        place=longest.pace.place,
        steps=len(longest.start),
        warmup=Warmup(kept, float(first.sum(dtype=np.float64)),
                      float(first.max()) if kept else 0.0, min(asked, kept)),
        step=tree.host,
        tree=tree,
        throughput=throughput_of(units, steps, together),
        items_per_step=items,
        tokens_per_step=tokens,
        fetches_per_step=longest.fetches,
        updates_per_step=longest.updates,
        tracks=tuple(track_of(unit, steps) for unit in units),
        straggler=straggler_of(units, steps),
        exceptional=exceptional_of(longest, steps),
    )  # fmt: skip


def numbered(found: list[Loop], loops: list[list[Unit]]) -> list[Loop]:
    """The loops ``found`` of ``loops``, each with its job and its attempt where there are several."""
    named = zip(found, labels(loops), strict=True)
    found = [replace(loop, job=job) for loop, job in named]
    attempts = [units[0].source.attempt for units in loops]
    if len(set(attempts)) < 2:
        return found
    return [replace(loop, attempt=at) for loop, at in zip(found, attempts, strict=True)]


def _per_step(units: list[Unit], warmup: int, name: str) -> float | None:
    """On average, of one rank."""
    total = steps = 0.0
    for unit in units:
        column = unit.items if name == "items" else unit.tokens
        if column is not None:
            first = measured_from(unit, warmup)
            total += float(column[first:].sum(dtype=np.float64))
            steps += len(column) - first
    return total / steps if steps and total else None
