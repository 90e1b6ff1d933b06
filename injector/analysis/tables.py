"""What each step of a track spent in each region: a column per region and line, with a value per step.

:func:`table_of` sums the seconds of all :mod:`.pieces` by path and step::

    step 0:  io 20 ms | forward 30 ms, in it comm 5 ms | backward 40 ms

    (("io", train.py:10),)                           20 ms
    (("forward", train.py:12),)                      30 ms     25 ms of its own
    (("forward", train.py:12), ("comm", ddp.py:7))    5 ms
    (("backward", train.py:13),)                     40 ms

:mod:`.device_work` puts the device's time beside the host's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce

import numpy as np

from ..store.call_sites import CallSite
from ..value_class import field, state_class
from .arrays import ExcludedIntervals, warmup_of
from .columns import SECOND, Flags
from .pieces import Name, Path, Pieces, Seconds, loads_batch
from .steps import TrackSteps
from .tracks import Track


@state_class
class Column:
    """One region at one line, inside the regions of its path, in each step."""

    seconds: Seconds
    calls: float
    """Per step, on average over all steps after the warm-up, as is ``nbytes``."""
    what: frozenset[str] = frozenset()
    """Labels of its call sites."""
    nbytes: float | None = None
    device: Seconds | None = None
    """Seconds that the device worked on what the region started; None if that was not timed."""
    timed: Flags | None = None
    """The steps in which ``device`` is known; None for all."""
    idle: Seconds | None = None
    """The part of ``seconds`` in which the device had nothing queued; None if no device has a clock."""

    def device_filled(self) -> Seconds:
        """``device``, with the mean of the known steps where it is not known."""
        device, timed = _not_none(self.device), self.timed
        if timed is None or not timed.any():
            return device
        filled: Seconds = np.where(timed, device, device[timed].mean(dtype=np.float64))
        return filled.astype(np.float32)


@state_class
class StepTable:
    """All regions of all steps of one loop on one track."""

    seconds: Seconds
    """Of each step, without the evaluations that are cut out of it."""
    columns: dict[Path, Column] = field(default_factory=dict)
    """Parents before children."""
    device: Seconds | None = None
    """Seconds of the device for the step as a whole, if a voirfile had that timed."""
    idle: Seconds | None = None
    """Seconds of each step in which the device had nothing queued; None if no device has a clock."""
    timed: Flags | None = None
    """The steps in which the device's time of all regions, and ``idle``, are known; None for all."""
    copying: Seconds | None = None
    """Seconds of each step in which the device copied batches that had been queued for it."""
    crossed: frozenset[tuple[Name, Name]] = frozenset()
    """Pairs of regions that overlap without nesting: the one that begins later first."""

    def own(self, path: Path) -> Seconds:
        """Seconds of ``path`` without the regions inside it.

        They are computed each time, as all ranks' would be much memory.
        """
        whole = self.columns[path].seconds if path else self.seconds
        return _minus(whole, [each.seconds for each in self._inside(path)])

    def _own_idle(self, path: Path) -> Seconds:
        whole = self.columns[path].idle if path else self.idle
        inside = [each.idle for each in self._inside(path)]
        return _minus(_not_none(whole), [_not_none(each) for each in inside])

    def _inside(self, path: Path) -> list[Column]:
        return [
            column
            for other, column in self.columns.items()
            if len(other) == len(path) + 1 and other[:-1] == path
        ]

    def regions(self) -> dict[str, Seconds]:
        """Seconds of each step by region. They add up to the step, since ``other`` is what no region covers.

        Whatever is done while a batch is waited for counts as that wait.
        """
        return self._divided(self.own)

    def region(self, name: str) -> Seconds | None:
        """The seconds of one of :meth:`regions`; None if there is none of that name."""
        columns = [self.own(path) for path in self.columns if _region_name(path) == name]
        return reduce(operator.add, columns) if columns else None

    def idle_regions(self) -> dict[str, Seconds]:
        """The seconds of :meth:`regions` in which the device had nothing queued. Needs :attr:`idle`."""
        return self._divided(self._own_idle)

    def _divided(self, own: Callable[[Path], Seconds]) -> dict[str, Seconds]:
        """``own`` of all paths, summed by the name of the region."""
        regions: dict[str, Seconds] = {"other": own(())}
        for path in self.columns:
            name = _region_name(path)
            regions[name] = regions[name] + own(path) if name in regions else own(path)
        return regions

    def busy(self, without: str = "") -> Seconds | None:
        """Seconds that the device worked in each step; None without a device clock.

        What it did for the region ``without`` is left out. A step in which they are not known has the mean of
        those in which they are.
        """
        timed = {path for path, column in self.columns.items() if column.device is not None}
        total = None
        for path in timed:
            # The device's time of a region includes that of the regions inside it.
            if any(path[:n] in timed for n in range(1, len(path))):
                continue
            device = self.columns[path].device_filled()
            total = device if total is None else total + device
        if total is None or not without:
            return total
        for path in timed:
            if path[-1][0] == without and not any(name == without for name, _ in path[:-1]):
                total = total - self.columns[path].device_filled()
        return np.maximum(total, 0)


def _region_name(path: Path) -> str:
    """The region that the own time of ``path`` is shown as."""
    return "io" if loads_batch(path[:-1]) else path[-1][0]


def _minus(whole: Seconds, inside: list[Seconds]) -> Seconds:
    """``whole`` without what is ``inside``, never below 0: float32 may round the parts up."""
    if not inside:
        return whole
    left = whole - inside[0]
    for seconds in inside[1:]:
        left -= seconds
    np.maximum(left, 0, out=left)
    return left


def _not_none(seconds: Seconds | None) -> Seconds:
    assert seconds is not None
    return seconds


def table_of(
    track: Track, steps: TrackSteps, excluded: ExcludedIntervals, pieces: Pieces
) -> StepTable:
    """The columns of ``steps``, out of their ``pieces``; ``excluded`` are the evaluations cut out of them."""
    n = len(steps)
    nanoseconds = steps.end - steps.start
    if len(excluded):
        nanoseconds = nanoseconds - excluded.within(steps.start, steps.end)
    table = StepTable((nanoseconds / SECOND).astype(np.float32), crossed=pieces.crossed)
    # Calls are averaged without the first steps, which may hold what no other does: an environment is
    # played until there is enough to learn from.
    warmup = warmup_of(table.seconds)
    counted = pieces.whole & (pieces.step >= warmup)
    # One bincount for all paths: row 0 of the matrix is for pieces without a path.
    path, path_count = pieces.path[pieces.row] + 1, len(pieces.paths) + 1
    site = track.site[pieces.row]
    seconds = np.bincount(path * n + pieces.step, pieces.seconds, path_count * n)
    seconds = seconds.reshape(path_count, n)[1:].astype(np.float32)
    calls = np.bincount(path, counted, path_count)
    site_count = 1 + max(track.sites, default=0)
    sites: dict[int, list[CallSite]] = {}
    for code in np.flatnonzero(np.bincount(path * site_count + site)).tolist():
        sites.setdefault(code // site_count, []).append(track.sites[code % site_count])
    for number, region_path in sorted(enumerate(pieces.paths, 1), key=lambda each: len(each[1])):
        path_sites = sites.get(number)
        if path_sites is None:
            continue
        nbytes = None
        if any(site.payload == "bytes" for site in path_sites):
            rows = pieces.row[(path == number) & counted]
            nbytes = float(track.payload[rows].sum()) / (n - warmup)
        table.columns[region_path] = Column(
            seconds[number - 1],
            float(calls[number]) / (n - warmup),
            frozenset(site.label for site in path_sites if site.label),
            nbytes,
        )
    return table
