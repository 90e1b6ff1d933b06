"""What each layer of the models takes of a step, forward and backward (``--layers``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..store.call_sites import CallSite, SourceLine
from .arrays import owners
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
        rows = rows[owners(start, end, track.start[rows]) >= 0]
        for number in dict.fromkeys(track.site[rows].tolist()):
            _add(sums, track.sites[number], track, rows[track.site[rows] == number])
    found = []
    steps = max(len(start), 1)
    for what, each in list(sums.items())[:MOST]:
        path, kind, root = what.split("\t")
        is_root = path == kind
        # Backward is of the lowest layers: that of others is that of those within.
        inner = (name for name in sums if name != what and name.split("\t")[2] == root)
        within = [name for name in inner if is_root or name.startswith(f"{path}.")]
        backward = each.backward + sum(sums[name].backward for name in within)
        found.append(
            Layer(
                path=path,
                kind=kind,
                depth=0 if is_root else path.count(".") + 1,
                place=each.place,
                calls=each.calls / steps,
                forward=each.forward / steps,
                backward=backward / steps if backward else None,
                share=(each.forward + backward) / total if total else 0.0,
                device=each.device / steps if each.has_device else None,
            )
        )
    return tuple(found)


def _add(sums: dict[str, _Sums], site: CallSite, track: Track, rows: Ints) -> None:
    each = sums.setdefault(site.label or "", _Sums(site.place))
    seconds = float((track.end[rows] - track.start[rows]).sum()) / SECOND
    if site.clock == "device":
        each.device, each.has_device = each.device + seconds, True
    elif site.region == BACKWARD:
        each.backward += seconds
    else:
        each.place = each.place or site.place
        each.forward += seconds
        each.calls += len(rows)
