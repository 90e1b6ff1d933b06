"""Loops over all their ranks, as the report wants them."""

from __future__ import annotations

import numpy as np

from .profile import Loop, Warmup
from .ranks import straggler_of, throughput_of, track_of
from .tree import exceptional_of, measured_from, tree_of
from .units import Unit


def grouped(all_units: list[Unit]) -> list[list[Unit]]:
    """The units of each loop in the order of ranks; the loop that took longest first.

    What a launcher starts again is another loop: its steps did not come after those of the first attempt.
    """
    found: dict[object, list[Unit]] = {}
    for unit in all_units:
        found.setdefault((unit.key, unit.source.attempt), []).append(unit)
    for units in found.values():
        units.sort(key=lambda unit: (unit.source.rank is None, unit.source.rank or 0,
                                     unit.source.index))  # fmt: skip
    return sorted(found.values(), key=lambda units: -max(unit.total for unit in units))


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
    """The loops ``found`` of ``loops``, each with its attempt where there are several."""
    attempts = [units[0].source.attempt for units in loops]
    if len(set(attempts)) < 2:
        return found
    return [loop._replace(attempt=at) for loop, at in zip(found, attempts, strict=True)]


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
