"""From observations to a batch size: the largest that fits, or the fastest."""

from __future__ import annotations

from math import floor

from .observations import Known, Observation

MARGIN = 0.05
"""Of a device's memory, what is left free: what else lies there differs from run to run."""
REACH = 2
"""How far beyond the largest batch that was measured the line is believed."""


def largest(
    known: Known,
    capacity: float,
    multiple: int | None = None,
    power: int | None = None,
    margin: float = MARGIN,
) -> int | None:
    """The largest batch that fits into ``capacity`` bytes; None if nothing can be said.

    A line is fitted through the observations (least squares, memory → batch, as milabench does it) and
    read at the capacity. Never more than memory allows: by no observation, by no batch that did not
    fit, and not by the line batch → memory raised to the observation that lies highest above it. The
    result is rounded down to ``multiple``, or to a power of ``power``.
    """
    room = capacity * (1 - margin)
    fitting = [each for each in known.observations if each.memory <= room]
    if not fitting:
        return None
    most = max(each.batch for each in fitting)
    line = min(_read(known.observations, room), most * REACH)
    found = min(max(line, most), _below(known, room))
    return rounded(found, multiple, power) if found > 0 else None


def _below(known: Known, room: float) -> int:
    """The largest batch that nothing speaks against."""
    # What needed too much here, and what did not even fit into more than there is here.
    refused = [each.batch for each in known.observations if each.memory > room]
    refused += [each.batch for each in known.limits if each.capacity >= room]
    return min(refused, default=1 << 62) - 1


def _read(observations: tuple[Observation, ...], room: float) -> int:
    """The batch at which the line through ``observations`` reaches ``room``; 0 without a line."""
    memory, batch = [each.memory for each in observations], [each.batch for each in observations]
    there, back = _line(memory, batch), _line(batch, memory)
    if there is None or back is None or there[0] <= 0 or back[0] <= 0:
        return 0  # memory does not grow with the batch, or only one size was measured
    found = floor(there[0] * room + there[1] + 1e-9)
    slope, begin = back
    above = max(each.memory - (slope * each.batch + begin) for each in observations)
    return min(found, floor((room - begin - above) / slope + 1e-9))


def _line(x: list[float] | list[int], y: list[float] | list[int]) -> tuple[float, float] | None:
    """Slope and begin of the line of least squares; None where all of ``x`` are the same."""
    n = len(x)
    middle, level = sum(x) / n, sum(y) / n
    spread = sum((each - middle) ** 2 for each in x)
    if not spread:
        return None
    both = sum((a - middle) * (b - level) for a, b in zip(x, y, strict=True))
    slope = both / spread
    return slope, level - slope * middle


def fastest(known: Known, capacity: float, margin: float = MARGIN) -> int | None:
    """Of the batches that were measured and fit the one with the highest rate; of equals the smallest."""
    room = capacity * (1 - margin)
    below = _below(known, room)
    fitting = [
        each
        for each in known.observations
        if each.memory <= room and each.rate is not None and each.batch <= below
    ]
    best = max(fitting, key=lambda each: (each.rate or 0.0, -each.batch), default=None)
    return best.batch if best else None


def rounded(batch: int, multiple: int | None = None, power: int | None = None) -> int:
    """``batch`` down to a multiple, or to a power; what is below the first one stays."""
    if power and batch >= power:
        found = power
        while found * power <= batch:
            found *= power
        return found
    if multiple and batch >= multiple:
        return batch // multiple * multiple
    return batch
