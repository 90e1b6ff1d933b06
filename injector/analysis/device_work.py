"""What a device had to do while its host did something: where a step passes with nothing queued for it.

An event that is queued on a device is passed once all before it is done, so that the device has work from
the moment when an event is queued until it is passed: that much is certain. Between events that were
passed at once it may have worked or not: it had at most what the host was handing to it just then. What
a device took for a region (``device`` in reports) does not say that, as the device's waiting for the
host's next kernel is a part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ..store.call_sites import CallSite
from .arrays import ExcludedIntervals
from .columns import SECOND, Ints
from .profile import TRANSFER
from .steps import TrackSteps
from .tables import Pieces, Seconds, StepTable
from .tracks import Track

_Column = npt.NDArray[np.floating]

Matched = tuple[Track, CallSite, Ints, Ints]
"""A device, a site of its, the rows of the host and those of the device for the same calls."""


def add_queue(
    table: StepTable,
    track: Track,
    pieces: Pieces,
    steps: TrackSteps,
    excluded: ExcludedIntervals,
    matched: Sequence[Matched],
) -> None:
    """Put into ``table`` where its ``steps`` passed with nothing queued, and what was copied.

    ``pieces`` have to be timed.
    """
    assert pieces.times is not None
    if not matched:
        return
    queue = Queue(_waits(track, matched), excluded)
    n, many = len(table.seconds), len(pieces.paths) + 1
    table.idle = _narrow(table.seconds - queue.within(steps.start, steps.end))
    # All paths in one go, each a row; the first row is of what has none.
    place = (pieces.path[pieces.row] + 1) * n + pieces.step
    idle = np.maximum(pieces.seconds - queue.within(*pieces.times), 0)
    columns = np.bincount(place, idle, many * n).reshape(many, n)
    for number, path in enumerate(pieces.paths, 1):
        if path in table.columns:
            table.columns[path].idle = _narrow(columns[number])
    copying = np.zeros(n)
    for device, site, rows, mine in matched:
        if site.region == TRANSFER:
            step = pieces.step_of[rows]
            took = queue.within(device.start[mine], device.end[mine])
            copying += np.bincount(step[step >= 0], took[step >= 0], n)
    table.copying = _narrow(copying)


def _narrow(seconds: _Column) -> Seconds:
    return np.maximum(seconds, 0).astype(np.float32)


def _waits(track: Track, matched: Iterable[Matched]) -> tuple[Ints, Ints]:
    """From when until when an event was queued and not passed."""
    queued, passed = [], []
    for device, _, rows, mine in matched:
        queued += [track.start[rows], track.end[rows]]
        passed += [device.start[mine], device.end[mine]]
    start, end = np.concatenate(queued), np.concatenate(passed)
    some = end > start
    return start[some], end[some]


class Queue:
    """When the device had work for certain, without what is excluded."""

    def __init__(self, waits: tuple[Ints, Ints], excluded: ExcludedIntervals) -> None:
        self._excluded = excluded
        self._both = ExcludedIntervals(
            np.concatenate((waits[0], excluded.start)), np.concatenate((waits[1], excluded.end))
        )

    def within(self, start: Ints, end: Ints) -> _Column:
        """Seconds of each interval."""
        found = self._both.within(start, end) - self._excluded.within(start, end)
        return np.asarray(found / SECOND)
