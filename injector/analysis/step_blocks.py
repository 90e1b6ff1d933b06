"""Sums over blocks of a loop's steps, which a comparison of two runs resamples.

It resamples no single steps, since consecutive ones depend on each other: a slow disk makes many of them
slow. Blocks are so long that one says next to nothing of the next (:func:`correlation_time`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .arrays import mean_across
from .columns import Floats, Ints
from .traces import LoopTrace
from .training_loop import Blocks

MOST = 64
"""The most blocks of a loop."""
LONG = 5
"""Correlation times that a block lasts, at least."""
_POINTS = 4096
"""Steps whose correlation is computed; of a longer series it is that of so many means of equal parts."""


def blocks_of(traces: Sequence[LoopTrace], warmup: int) -> Blocks | None:
    """Sums over blocks of the measured steps that all ranks of one job made; None if there are none."""
    first = [trace.measured_from(warmup) for trace in traces]
    number = min(len(trace) - at for trace, at in zip(traces, first, strict=True))
    if number < 1:
        return None
    # From the first measured step of each rank on.
    kept = [slice(at, at + number) for at in first]
    seconds = [trace.table.seconds[part] for trace, part in zip(traces, kept, strict=True)]
    edges = edges_of(mean_across(seconds))
    regions: dict[str, Floats] = {}
    for trace, part in zip(traces, kept, strict=True):
        for name, column in trace.table.regions().items():
            regions[name] = regions.get(name, 0.0) + sums_of(column[part], edges) / len(traces)

    def total(columns: Sequence[npt.NDArray[np.floating] | None]) -> tuple[float, ...] | None:
        known = [
            column[part] for column, part in zip(columns, kept, strict=True) if column is not None
        ]
        # One rank that does not know its items makes the sum unknown.
        if len(known) < len(columns):
            return None
        return tuple(np.sum([sums_of(column, edges) for column in known], axis=0).tolist())

    return Blocks(
        steps=tuple(np.diff(edges, append=number).tolist()),
        seconds=tuple(np.mean([sums_of(column, edges) for column in seconds], axis=0).tolist()),
        items=total([trace.items for trace in traces]),
        tokens=total([trace.tokens for trace in traces]),
        regions={name: tuple(column.tolist()) for name, column in regions.items()},
    )


def sums_of(values: npt.NDArray[np.floating], edges: Ints) -> Floats:
    """The sum of ``values``, one per step, over each block that begins at one of ``edges``."""
    return np.add.reduceat(values, edges, dtype=np.float64)


def edges_of(seconds: npt.NDArray[np.floating]) -> Ints:
    """The first step of each block, out of the ``seconds`` of all steps.

    Blocks are equally long, to one step.
    """
    number = len(seconds)
    blocks = min(MOST, int(number / (LONG * correlation_time(seconds))))
    return np.arange(max(blocks, 1)) * number // max(blocks, 1)


def correlation_time(values: npt.NDArray[np.floating]) -> float:
    """The number of values over which values depend on each other: 1 + 2 Σ ρ(k), at least 1.

    ρ(k) is the correlation of values that lie ``k`` apart. The sum ends before the first pair of neighbouring
    ρ that is not positive: Geyer's initial positive sequence ("Practical Markov chain Monte Carlo", 1992).
    """
    number = len(values)
    per_mean = -(-number // _POINTS)
    # The correlation time of means is that of the steps, in units of so many steps.
    if per_mean > 1:
        values = values[: number // per_mean * per_mean].reshape(-1, per_mean).mean(axis=1)
    centred = values.astype(np.float64) - values.mean(dtype=np.float64)
    size = len(centred)
    spread = float(centred @ centred)
    if size < 4 or spread == 0:
        return 1.0
    # By Fourier transform, padded with as many zeros again: else the end would be correlated with the
    # begin.
    spectrum = np.fft.rfft(centred, 2 * size)
    correlation = np.fft.irfft(np.abs(spectrum) ** 2)[:size] / spread
    pairs = correlation[: size // 2 * 2].reshape(-1, 2).sum(axis=1)
    not_positive = np.flatnonzero(pairs <= 0)
    total = 2 * float(pairs[: not_positive[0] if len(not_positive) else len(pairs)].sum()) - 1
    return max(total, 1.0) * per_mean
