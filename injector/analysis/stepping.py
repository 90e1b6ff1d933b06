"""The rate of each step of a run's longest loop, all its ranks together: what a score is made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..store.folder import Run
from .columns import read_rows, sources
from .loops import grouped
from .units import Unit, threads_of

Column = npt.NDArray[np.float64]


class Stepping(NamedTuple):
    """The steps of one loop, those to skip left out."""

    task: str
    paced_by: str
    """``"loader"``, ``"optimizer"`` or ``"step"`` (said so by a voirfile)."""
    unit: str
    """``"items/s"``; ``"steps/s"`` where the items of a step cannot be told."""
    rates: tuple[float, ...]
    """One a step: the sum over ranks of items (else steps) by that step's seconds."""
    seconds: float
    """Of a step, on average over steps and ranks; 0 where there is none."""
    items: float | None
    """Of a step of all ranks together, on average."""
    ranks: int
    """Processes that made the steps side by side."""
    world: int | None
    """How many ranks there were, as they say themselves."""


class _Lane(NamedTuple):
    """The steps of one rank, in order."""

    seconds: Column
    items: Column | None


def stepping(run: Run, skip: int = 0) -> Stepping | None:
    """The steps of ``run`` after the first ``skip``; None where no loop was seen.

    Where several loops were seen, those of the one that took longest. Nothing else is taken for
    warm-up: ``skip`` decides, so that ``--skip K --stop N`` gives N rates. Raises OSError, and
    NotARunError for records of a later version.
    """
    found = sources(run)
    units = [
        unit
        for source in found
        if source.has_spans()
        for thread in threads_of(source, read_rows(source))
        for unit in thread.units
    ]
    if not units:
        return None
    longest = grouped(units, jobs=False)[0]
    lanes = _lanes(longest)
    count = min(len(lane.seconds) for lane in lanes)
    seconds = np.stack([lane.seconds[skip:count] for lane in lanes])
    items = None
    if all(lane.items is not None for lane in lanes):
        items = np.stack([lane.items[skip:count] for lane in lanes if lane.items is not None])
    together = len({unit.source.rank for unit in longest} - {None}) > 1
    return Stepping(
        task=longest[0].pace.task,
        paced_by=longest[0].pace.paced_by,
        unit="items/s" if items is not None else "steps/s",
        rates=tuple(_rates(seconds, items, together).tolist()),
        seconds=float(seconds.mean()) if seconds.size else 0.0,
        items=float(items.sum(0).mean()) if items is not None and items.size else None,
        ranks=len(lanes),
        world=max((source.world for source in found if source.world), default=None),
    )


def _rates(seconds: Column, items: Column | None, together: bool) -> Column:
    """Both of shape (ranks, steps)."""
    timed = (seconds > 0).all(0)
    if not timed.all():
        seconds = seconds[:, timed]
        items = None if items is None else items[:, timed]
    if items is not None:
        found: Column = (items / seconds).sum(0)
        return found
    # Ranks that work on one job make each step together; others make their own.
    steps = 1 / seconds
    return np.median(steps, axis=0) if together else steps.sum(0)


def _lanes(units: list[Unit]) -> list[_Lane]:
    """The steps of each rank: what was started again, or follows in time, goes on where that ended."""
    ranks: dict[object, list[Unit]] = {}
    for unit in sorted(units, key=lambda unit: int(unit.start[0])):
        rank = unit.source.rank
        ranks.setdefault(_free(ranks, unit) if rank is None else rank, []).append(unit)
    return [_lane(of_rank) for of_rank in ranks.values()]


def _free(ranks: dict[object, list[Unit]], unit: Unit) -> object:
    """Where ``unit``, which has no rank, can follow: processes side by side have a lane each."""
    for name, others in ranks.items():
        if isinstance(name, tuple) and int(others[-1].end[-1]) <= int(unit.start[0]):
            return name
    return "none", len(ranks)


def _lane(units: list[Unit]) -> _Lane:
    items = [unit.items for unit in units if unit.items is not None]
    return _Lane(
        np.concatenate([unit.table.seconds for unit in units]).astype(np.float64),
        np.concatenate(items).astype(np.float64) if len(items) == len(units) else None,
    )
