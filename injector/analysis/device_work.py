"""Where a step passes while its device has nothing queued.

An event that is queued on a device is passed once all work before it is done. So the device certainly has
work from the moment when an event is queued until it is passed::

    host     queue event            | queue event
                  |                       |
    device        `---- has work ----*    `-- passed at once: nothing was queued before

Between events that are passed at once the device may have worked, but on no more than the host was handing to
it just then. The time that reports call ``device`` does not tell this: it includes the device's waiting for
the host's next kernel.
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
"""A device, one of its sites, and for the same calls the rows of the host and those of the device."""


def add_queue(
    table: StepTable,
    track: Track,
    pieces: Pieces,
    steps: TrackSteps,
    excluded: ExcludedIntervals,
    matched: Sequence[Matched],
) -> None:
    """Put into ``table`` the seconds of each step with nothing queued, and those of copied batches.

    ``pieces`` have to be timed. ``matched`` is what :func:`.tables.add_device` returned for all devices of
    the track.
    """
    assert pieces.times is not None
    if not matched:
        return
    queue = Queue(_queued_times(track, matched), excluded)
    n, path_count = len(table.seconds), len(pieces.paths) + 1
    table.idle = _compact(table.seconds - queue.within(steps.start, steps.end))
    # One bincount for all paths: row 0 of the matrix is for pieces without a path.
    cell = (pieces.path[pieces.row] + 1) * n + pieces.step
    # What a piece lasts without the time in which something was queued; clocks differ by microseconds.
    idle = np.maximum(pieces.seconds - queue.within(*pieces.times), 0)
    columns = np.bincount(cell, idle, path_count * n).reshape(path_count, n)
    for number, path in enumerate(pieces.paths, 1):
        if path in table.columns:
            table.columns[path].idle = _compact(columns[number])
    copying = np.zeros(n)
    for device, site, host_rows, device_rows in matched:
        if site.region == TRANSFER:
            step = pieces.step_of[host_rows]
            seconds = queue.within(device.start[device_rows], device.end[device_rows])
            copying += np.bincount(step[step >= 0], seconds[step >= 0], n)
    table.copying = _compact(copying)


def _compact(seconds: _Column) -> Seconds:
    """``seconds`` as float32, without what differences of clocks put below 0."""
    return np.maximum(seconds, 0).astype(np.float32)


def _queued_times(track: Track, matched: Iterable[Matched]) -> tuple[Ints, Ints]:
    """When an event of the host was queued and not yet passed by the device: starts and ends."""
    queued, passed = [], []
    for device, _, host_rows, device_rows in matched:
        # A call has an event at its start and one at its end.
        queued += [track.start[host_rows], track.end[host_rows]]
        passed += [device.start[device_rows], device.end[device_rows]]
    start, end = np.concatenate(queued), np.concatenate(passed)
    waited = end > start
    return start[waited], end[waited]


class Queue:
    """When the devices certainly had work, outside of ``excluded``."""

    def __init__(self, waits: tuple[Ints, Ints], excluded: ExcludedIntervals) -> None:
        self._excluded = excluded
        self._queued_or_excluded = ExcludedIntervals(
            np.concatenate((waits[0], excluded.start)), np.concatenate((waits[1], excluded.end))
        )

    def within(self, start: Ints, end: Ints) -> _Column:
        """Seconds of each interval in which they had."""
        nanoseconds = self._queued_or_excluded.within(start, end) - self._excluded.within(
            start, end
        )
        return np.asarray(nanoseconds / SECOND)
