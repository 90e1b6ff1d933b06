"""What each layer of the models takes of a step, in forward and backward (``--layers``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..store.call_sites import CallSite, SourceLine
from .arrays import owners, places
from .columns import SECOND, Ints
from .profile import Layer
from .traces import LoopTrace, Thread
from .tracks import LAYERS, Track

FORWARD, BACKWARD = LAYERS
MOST = 200
"""The most layers that are kept: those that were called first."""


class _Sums:
    """Seconds of one layer in all measured steps."""

    def __init__(self, place: SourceLine | None) -> None:
        self.place = place
        self.calls = 0
        self.forward = self.backward = self.device = 0.0
        self.has_device = False


def layers_of(
    threads: Sequence[Thread], devices: Sequence[Track], trace: LoopTrace, warmup: int
) -> tuple[Layer, ...]:
    """The layers in the mean measured step of ``trace``, in the order of their first calls.

    Seconds of a layer include those of the layers within it. The label of a layer's call site is its path,
    its class and the model that it belongs to, with tabs in between.
    """
    first = trace.measured_from(warmup)
    start, end = trace.start[first:], trace.end[first:]
    total = float(trace.table.seconds[first:].sum(dtype=np.float64))
    sums: dict[str, _Sums] = {}
    for track in [*(thread.track for thread in threads), *devices]:
        rows = track.where(
            lambda site: site.region in LAYERS and (site.label or "").count("\t") == 2
        )
        step = owners(start, end, track.start[rows])
        # A span that ends in another step is a backward that an exception left open.
        rows = rows[(step >= 0) & (step == owners(start, end, track.end[rows]))]
        rows, not_own = _counted(track, rows)
        for number in dict.fromkeys(track.site[rows].tolist()):
            of_site = track.site[rows] == number
            seconds = float((track.end[rows] - track.start[rows] - not_own)[of_site].sum()) / SECOND
            _add(sums, track.sites[number], int(of_site.sum()), seconds)
    return tuple(_layer(label, sums, max(len(start), 1), total) for label in list(sums)[:MOST])


def _layer(label: str, sums: Mapping[str, _Sums], steps: int, total: float) -> Layer:
    """One layer: the means over ``steps``, some of them without it, which took ``total`` seconds."""
    own, (path, kind, root) = sums[label], label.split("\t")
    # Spans of forward include the layers within, but those of backward are a layer's own time.
    same_model = (name for name in sums if name != label and name.split("\t")[2] == root)
    layers_within = [name for name in same_model if not path or name.startswith(f"{path}.")]
    backward = own.backward + sum(sums[name].backward for name in layers_within)
    return Layer(
        path=path or kind.rpartition(" ")[2],
        kind=kind,
        depth=path.count(".") + 1 if path else 0,
        place=own.place,
        calls=own.calls / steps,
        forward=own.forward / steps,
        backward=backward / steps if backward else None,
        share=(own.forward + backward) / total if total else 0.0,
        device=own.device / steps if own.has_device else None,
    )


def _counted(track: Track, rows: Ints) -> tuple[Ints, Ints]:
    """The rows that count, and the nanoseconds of each that are not its own.

    Gradients that a model takes within its forward are part of that. What a checkpoint computes once more
    within a backward belongs to the layers that are called for it.
    """
    backward = track.table(lambda site: site.region == BACKWARD, rows) == 1
    calls = track.outermost(rows[~backward])
    start, end = track.start[calls], track.end[calls]
    is_kept = ~(backward & (owners(start, end, track.start[rows]) >= 0))
    rows, backward = rows[is_kept], backward[is_kept]
    # Cumulated, so that what was called within each backward takes two look-ups.
    called_until = np.concatenate(([0], np.cumsum(end - start)))
    first_call, last_call = (places(start, each[rows]) for each in (track.start, track.end))
    recomputed = np.minimum(
        called_until[last_call] - called_until[first_call], track.end[rows] - track.start[rows]
    )
    return rows, np.where(backward, recomputed, 0)


def _add(sums: dict[str, _Sums], site: CallSite, calls: int, seconds: float) -> None:
    layer_sums = sums.setdefault(site.label or "", _Sums(site.place))
    if site.clock == "device":
        layer_sums.device, layer_sums.has_device = layer_sums.device + seconds, True
    elif site.region == BACKWARD:
        layer_sums.backward += seconds
    else:
        layer_sums.place = layer_sums.place or site.place
        layer_sums.forward += seconds
        layer_sums.calls += calls
