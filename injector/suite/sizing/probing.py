"""Which batch sizes to try: doubling until one does not fit, then between the two."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..plan.batch_sizes import REACH, largest, rounded
from ..plan.observations import BatchObservations, Limit, Observation

MOST_PROBES = 10
CLOSE = 1 / 16
"""Of a size: a gap that is not worth a probe."""


class Probe(NamedTuple):
    """One short run with a batch."""

    batch: int
    fits: bool
    memory: float | None = None
    """The most bytes of a device; of one that did not fit, not known."""
    rate: float | None = None
    """Items per second."""
    reason: str = ""
    """Why it did not fit."""


class ProbeError(Exception):
    """A probe failed for a reason that no other batch would mend."""


class Interrupted(Exception):
    """Somebody wants us to stop."""


class Search:
    """The sizes that are worth a probe, one after the other.

    ``start``: the first. ``capacity``: bytes of a device; where it is known, and ``careful`` asks for it,
    nothing is tried that the line through the observations says does not fit: on a machine whose memory
    is the programs' own, a batch that is too large may take others with it.
    """

    def __init__(
        self,
        start: int,
        *,
        multiple: int | None = None,
        power: int | None = None,
        capacity: float | None = None,
        careful: bool = False,
        most: int = MOST_PROBES,
    ) -> None:
        self.multiple, self.power = multiple, power
        self.capacity, self.careful, self.most = capacity, careful, most
        self.start = max(self._round(start), 1)
        self.probes: list[Probe] = []

    def run(self, probe: Callable[[int], Probe]) -> None:
        """Probe until nothing more can be learnt. What ``probe`` raises ends it."""
        while len(self.probes) < self.most:
            batch = self.next()
            if batch is None:
                return
            try:
                self.probes.append(probe(batch))
            except ProbeError as error:
                if any(each.fits for each in self.probes):  # whatever it was, it is this size's
                    self.probes.append(Probe(batch, False, reason=str(error)))
                raise

    def next(self) -> int | None:
        """The batch to try; None when it is known well enough which fits."""
        if not self.probes:
            return self.start
        fits = max((each.batch for each in self.probes if each.fits), default=0)
        above = min((each.batch for each in self.probes if not each.fits), default=None)
        if not fits:
            assert above is not None
            return self._new(above // 2) if above > 1 else None
        if above is None:
            return self._new(self._ahead(fits))
        found = self._new((fits + above) // 2)
        return found if found and found > fits and above - fits > CLOSE * fits else None

    def _ahead(self, fits: int) -> int:
        """Twice as much, or as far as memory is expected to reach."""
        ahead = fits * self.power if self.power else max(2 * fits, fits + (self.multiple or 1))
        if self.capacity is None or not self.careful:
            return ahead
        reach = largest(self.known(), self.capacity)
        # Of one observation there is no line: twice is a guess that memory for twice as much allows.
        if sum(each.fits for each in self.probes) < 2:
            held = max(each.memory or 0.0 for each in self.probes)
            return ahead if held * REACH <= self.capacity else fits
        return min(ahead, reach or fits)

    def _round(self, batch: int) -> int:
        return rounded(batch, self.multiple, self.power)

    def _new(self, batch: int) -> int | None:
        """``batch`` rounded, unless that was tried."""
        batch = self._round(batch)
        return batch if batch >= 1 and all(batch != each.batch for each in self.probes) else None

    def known(self) -> BatchObservations:
        """What the probes tell."""
        fitting = sorted(
            Observation(each.batch, each.memory, each.rate)
            for each in self.probes
            if each.fits and each.memory is not None
        )
        limits = sorted(
            Limit(each.batch, self.capacity)
            for each in self.probes
            if not each.fits and self.capacity is not None
        )
        return BatchObservations(tuple(fitting), tuple(limits))
