"""What a device did for the calls of a step, and where a step passes while it has nothing queued.

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

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..store.call_sites import CallSite
from ..store.spans import START
from .arrays import ExcludedIntervals, distinct, owners, places
from .columns import SECOND, Ints
from .pieces import Pieces, Seconds
from .steps import TrackSteps
from .tables import StepTable
from .tracks import Track
from .training_loop import TRANSFER

_Column = npt.NDArray[np.floating]


class TimedCalls(NamedTuple):
    """The calls at one line that a device timed. Some were not: too many were in flight."""

    device: Track
    site: CallSite
    calls: Ints
    """The rows of the host of all calls."""
    host_rows: Ints
    """Of the timed ones; ``device_rows`` are those of the device for the same calls."""
    device_rows: Ints


def add_devices(
    table: StepTable,
    track: Track,
    pieces: Pieces,
    devices: Iterable[Track],
    steps: TrackSteps,
    excluded: ExcludedIntervals,
) -> None:
    """Add to ``table`` the time that ``devices`` worked for the calls of ``steps``.

    If the ``pieces`` are timed, those with nothing queued, and of copied batches, are added as well.
    """
    timed = [each for device in devices for each in _timed_calls(track, device)]
    for each in timed:
        _add_seconds(table, track, pieces, steps, each)
    if timed and pieces.times is not None:
        _add_queue(table, track, pieces, pieces.times, steps, excluded, timed)


def _timed_calls(track: Track, device: Track) -> Iterator[TimedCalls]:
    """The calls of ``track`` that ``device`` timed, by the call sites of the device."""
    # A site of a device has the same attributes as the host's site that caused it, but another number.
    host_sites = {
        _call_identity(site): number for number, site in track.sites.items() if site.clock == "host"
    }
    for number in device.kinds:
        site = device.sites[number]
        host = host_sites.get(_call_identity(site))
        if host is None or not len(calls := _spans(track, host)):
            continue
        rows = _matched_rows(track, calls, device, _spans(device, number), site.payload == START)
        yield TimedCalls(device, site, calls, *rows)


def _add_seconds(
    table: StepTable, track: Track, pieces: Pieces, steps: TrackSteps, timed: TimedCalls
) -> None:
    """Add the device's seconds for ``timed`` calls to the columns of their paths."""
    n, rows = len(table.seconds), timed.host_rows
    device = timed.device
    seconds = (device.end[timed.device_rows] - device.start[timed.device_rows]) / SECOND
    # A step that a voirfile marks is timed as a whole, and is no column.
    if timed.site.region == "step":
        step = owners(steps.start, steps.end, track.start[rows])
        table.device = _sum(table.device, _per_step(step[step >= 0], seconds[step >= 0], n))
        return
    step, step_of_call = pieces.step_of[rows], pieces.step_of[timed.calls]
    for path in distinct(pieces.path[timed.calls[step_of_call >= 0]]).tolist():
        column = table.columns.get(pieces.paths[path]) if path >= 0 else None
        if column is None:
            continue
        in_path = (pieces.path[rows] == path) & (step >= 0)
        column.device = _sum(column.device, _per_step(step[in_path], seconds[in_path], n))
        # A step that lacks a call has no device time.
        if len(rows) < len(timed.calls):
            of_path = (pieces.path[timed.calls] == path) & (step_of_call >= 0)
            called = np.bincount(step_of_call[of_path], minlength=n)
            is_timed = called == np.bincount(step[in_path], minlength=n)
            column.timed = is_timed if column.timed is None else column.timed & is_timed
            table.timed = is_timed if table.timed is None else table.timed & is_timed


def _per_step(step: Ints, seconds: _Column, n: int) -> Seconds:
    return np.bincount(step, seconds, n).astype(np.float32)


def _sum(total: Seconds | None, more: Seconds) -> Seconds:
    return more if total is None else total + more


def _matched_rows(
    track: Track, host_rows: Ints, device: Track, device_rows: Ints, exact: bool
) -> tuple[Ints, Ints]:
    """The rows of the host and of the device that belong to the same calls, in two arrays of one length.

    With ``exact``, the payload of each device row is the start of its host row. Else time matches them.
    """
    if exact:
        begins = track.start[host_rows]
        nearest = np.minimum(places(begins, device.payload[device_rows]), len(host_rows) - 1)
        matches = begins[nearest] == device.payload[device_rows]
        return host_rows[nearest[matches]], device_rows[matches]
    if len(host_rows) != len(device_rows):  # some were lost: the latest call before each
        host_rows = host_rows[
            np.maximum(places(track.start[host_rows], device.start[device_rows], "right") - 1, 0)
        ]
    return host_rows, device_rows


def _spans(track: Track, site: int) -> Ints:
    """The first rows of the spans of a site."""
    return track.where(lambda other: other.number == site)


def _call_identity(site: CallSite) -> tuple[object, ...]:
    """What the call sites of one call have in common on the host and on its device."""
    return site.region, site.place, site.object_id, site.phase, site.thread, site.selector


def _add_queue(
    table: StepTable,
    track: Track,
    pieces: Pieces,
    times: tuple[Ints, Ints],
    steps: TrackSteps,
    excluded: ExcludedIntervals,
    timed: Sequence[TimedCalls],
) -> None:
    """Put into ``table`` the seconds of each step with nothing queued, and those of copied batches."""
    queue = Queue(_queued_times(track, timed), excluded)
    n, path_count = len(table.seconds), len(pieces.paths) + 1
    table.idle = _compact(table.seconds - queue.within(steps.start, steps.end))
    # One bincount for all paths: row 0 of the matrix is for pieces without a path.
    cell = (pieces.path[pieces.row] + 1) * n + pieces.step
    # What a piece lasts without the time in which something was queued; clocks differ by microseconds.
    idle = np.maximum(pieces.seconds - queue.within(*times), 0)
    columns = np.bincount(cell, idle, path_count * n).reshape(path_count, n)
    for number, path in enumerate(pieces.paths, 1):
        if path in table.columns:
            table.columns[path].idle = _compact(columns[number])
    copying = np.zeros(n)
    for device, site, _, host_rows, device_rows in timed:
        if site.region == TRANSFER:
            step = pieces.step_of[host_rows]
            seconds = queue.within(device.start[device_rows], device.end[device_rows])
            copying += np.bincount(step[step >= 0], seconds[step >= 0], n)
    table.copying = _compact(copying)


def _compact(seconds: _Column) -> Seconds:
    """``seconds`` as float32, without what differences of clocks put below 0."""
    return np.maximum(seconds, 0).astype(np.float32)


def _queued_times(track: Track, timed: Iterable[TimedCalls]) -> tuple[Ints, Ints]:
    """When an event of the host was queued and not yet passed by the device: starts and ends."""
    queued, passed = [], []
    for device, _, _, host_rows, device_rows in timed:
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
        both = self._queued_or_excluded.within(start, end)
        return np.asarray((both - self._excluded.within(start, end)) / SECOND)
