"""The measured steps of a loop as sums over blocks of consecutive steps: what a comparison resamples.

Steps follow one another, so their times depend on each other: a slow disk makes many steps slow. Blocks are
made so long that one says next to nothing of the next (:func:`correlation_time`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .profile import Blocks
from .traces import LoopTrace

Sums = npt.NDArray[np.float64]
MOST = 64
"""Blocks of a process at most."""
LONG = 5
"""Correlation times that a block lasts at least."""
_POINTS = 4096
"""Of a longer series, means of so many equal parts are correlated."""


def blocks_of(traces: Sequence[LoopTrace], warmup: int) -> Blocks | None:
    """Of the ranks of one job: the steps that all of them made; None where there are none."""
    first = [trace.measured_from(warmup) for trace in traces]
    number = min(len(trace.start) - at for trace, at in zip(traces, first, strict=True))
    if number < 1:
        return None
    kept = [slice(at, at + number) for at in first]
    whole = [trace.table.seconds[part] for trace, part in zip(traces, kept, strict=True)]
    edges = edges_of(whole[0] if len(whole) == 1 else np.mean(whole, axis=0))
    regions: dict[str, Sums] = {}
    for trace, part in zip(traces, kept, strict=True):
        for name, each in trace.table.regions().items():
            regions[name] = regions.get(name, 0.0) + sums_of(each[part], edges) / len(traces)

    def total(columns: Sequence[npt.NDArray[np.floating] | None]) -> tuple[float, ...] | None:
        known = [each[part] for each, part in zip(columns, kept, strict=True) if each is not None]
        if len(known) < len(columns):
            return None
        return tuple(np.sum([sums_of(each, edges) for each in known], axis=0).tolist())

    return Blocks(
        steps=tuple(np.diff(edges, append=number).tolist()),
        seconds=tuple(np.mean([sums_of(each, edges) for each in whole], axis=0).tolist()),
        items=total([trace.items for trace in traces]),
        tokens=total([trace.tokens for trace in traces]),
        regions={name: tuple(each.tolist()) for name, each in regions.items()},
    )


def sums_of(values: npt.NDArray[np.floating], edges: npt.NDArray[np.int64]) -> Sums:
    """Of ``values``, one a step, the sum of each block that begins at one of ``edges``."""
    return np.add.reduceat(values, edges, dtype=np.float64)


def edges_of(seconds: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
    """Where each block of steps of so many ``seconds`` begins; their lengths differ by one step at most."""
    number = len(seconds)
    blocks = min(MOST, int(number / (LONG * correlation_time(seconds))))
    return np.arange(max(blocks, 1)) * number // max(blocks, 1)


def correlation_time(values: npt.NDArray[np.floating]) -> float:
    """Over how many values they depend on each other: 1 + 2 Σ ρ(k), at least 1.

    The sum ends before the first pair of neighbouring correlations that is not positive: Geyer's initial
    positive sequence ("Practical Markov chain Monte Carlo", 1992).
    """
    number = len(values)
    merged = -(-number // _POINTS)
    if merged > 1:
        values = values[: number // merged * merged].reshape(-1, merged).mean(axis=1)
    centred = values.astype(np.float64) - values.mean(dtype=np.float64)
    size = len(centred)
    spread = float(centred @ centred)
    if size < 4 or spread == 0:
        return 1.0
    spectrum = np.fft.rfft(centred, 2 * size)
    correlation = np.fft.irfft(np.abs(spectrum) ** 2)[:size] / spread
    pairs = correlation[: size // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    total = 2 * float(pairs[: ends[0] if len(ends) else len(pairs)].sum()) - 1
    return max(total, 1.0) * merged
