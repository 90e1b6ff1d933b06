"""What each layer of the models takes of a step, forward and backward (``--layers``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..store.call_sites import CallSite, SourceLine
from .arrays import owners, places
from .columns import SECOND, Ints
from .profile import Layer
from .traces import LoopTrace, Thread
from .tracks import LAYERS, Track

FORWARD, BACKWARD = LAYERS
MOST = 200
"""Layers that are kept: the first ones that were called."""


class _Sums:
    def __init__(self, place: SourceLine | None) -> None:
        self.place = place
        self.calls = 0
        self.forward = self.backward = self.device = 0.0
        self.has_device = False


def layers_of(
    threads: Sequence[Thread], devices: Sequence[Track], trace: LoopTrace, warmup: int
) -> tuple[Layer, ...]:
    """The mean of the measured steps of ``trace``; seconds of a layer include those within it."""
    first = trace.measured_from(warmup)
    start, end = trace.start[first:], trace.end[first:]
    total = float(trace.table.seconds[first:].sum(dtype=np.float64))
    sums: dict[str, _Sums] = {}
    for track in [*(thread.track for thread in threads), *devices]:
        rows = track.where(
            lambda site: site.region in LAYERS and (site.label or "").count("\t") == 2
        )
        step = owners(start, end, track.start[rows])
        # What ends in another step is a backward that an exception ended, as far as it was seen.
        rows = rows[(step >= 0) & (step == owners(start, end, track.end[rows]))]
        rows, again = _counted(track, rows)
        for number in dict.fromkeys(track.site[rows].tolist()):
            mine = track.site[rows] == number
            seconds = float((track.end[rows] - track.start[rows] - again)[mine].sum()) / SECOND
            _add(sums, track.sites[number], int(mine.sum()), seconds)
    found = []
    steps = max(len(start), 1)
    for what, each in list(sums.items())[:MOST]:
        path, kind, root = what.split("\t")
        # Spans of backward are a layer's own time, without that of those within.
        inner = (name for name in sums if name != what and name.split("\t")[2] == root)
        within = [name for name in inner if not path or name.startswith(f"{path}.")]
        backward = each.backward + sum(sums[name].backward for name in within)
        found.append(
            Layer(
                path=path or kind.rpartition(" ")[2],
                kind=kind,
                depth=path.count(".") + 1 if path else 0,
                place=each.place,
                calls=each.calls / steps,
                forward=each.forward / steps,
                backward=backward / steps if backward else None,
                share=(each.forward + backward) / total if total else 0.0,
                device=each.device / steps if each.has_device else None,
            )
        )
    return tuple(found)


def _counted(track: Track, rows: Ints) -> tuple[Ints, Ints]:
    """The rows that count, and the nanoseconds of each that are none of its own.

    Gradients that a model takes within its forward are a part of that; of a backward, what a checkpoint
    computes once more is that of the layers that are called for it.
    """
    backward = track.table(lambda site: site.region == BACKWARD, rows) == 1
    calls = track.outermost(rows[~backward])
    start, end = track.start[calls], track.end[calls]
    kept = ~(backward & (owners(start, end, track.start[rows]) >= 0))
    rows, backward = rows[kept], backward[kept]
    until = np.concatenate(([0], np.cumsum(end - start)))
    begun, ended = (places(start, each[rows]) for each in (track.start, track.end))
    again = np.minimum(until[ended] - until[begun], track.end[rows] - track.start[rows])
    return rows, np.where(backward, again, 0)


def _add(sums: dict[str, _Sums], site: CallSite, calls: int, seconds: float) -> None:
    each = sums.setdefault(site.label or "", _Sums(site.place))
    if site.clock == "device":
        each.device, each.has_device = each.device + seconds, True
    elif site.region == BACKWARD:
        each.backward += seconds
    else:
        each.place = each.place or site.place
        each.forward += seconds
        each.calls += calls
