"""What a comparison found: the change of each figure, by loop, benchmark, and as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from .statistics import Ratio

SLOWER, FASTER, SAME, UNKNOWN = "slower", "faster", "same", "cannot tell"
NEGLIGIBLE = 0.05
"""An interval of the change within plus and minus this part is called no change."""
TIME, RATE = "step_time", "throughput"
HIGHER_IS_BETTER = frozenset({RATE})


@dataclass(frozen=True)
class Change:
    """One figure on both sides."""

    name: str
    unit: str
    before: float
    after: float
    ratio: Ratio | None
    """None if either is 0."""
    interval: tuple[float, float]
    """Of the ratio, for all step times of the comparison together; (0, inf) if nothing is known."""
    why: str = ""
    """Why nothing is known, if so."""

    @property
    def change(self) -> float:
        """The change as a part of ``before``: 0.05 for 5 % more."""
        return self.after / self.before - 1 if self.before else inf

    def worse(self, comparisons: int = 0, falls: bool = False) -> tuple[float, float]:
        """The interval of the change for the worse, as a part: (0.03, 0.08) is surely worse by 3 to 8 %.

        It holds for so many ``comparisons`` together, or for all step times of the comparison. Less is worse
        for throughput, and for a figure that ``falls``. An end is infinite if it is not known.
        """
        low, high = (
            self.ratio.interval(comparisons) if self.ratio and comparisons else self.interval
        )
        if falls or self.name in HIGHER_IS_BETTER:
            return 1 - high, 1 - low
        return low - 1, high - 1

    @property
    def verdict(self) -> str:
        """:data:`SLOWER` (worse), :data:`FASTER` (better), :data:`SAME` or :data:`UNKNOWN`."""
        low, high = self.worse()
        if low > 0:
            return SLOWER
        if high < 0:
            return FASTER
        return SAME if low >= -NEGLIGIBLE and high <= NEGLIGIBLE else UNKNOWN


@dataclass(frozen=True)
class LoopChange:
    """One loop on both sides."""

    name: str
    step: Change
    throughput: Change
    regions: tuple[Change, ...]
    """Seconds of a region in a step; the one that changed by most seconds first."""


class OneSided(NamedTuple):
    """The names of what only one side has."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class BenchmarkChange:
    """One benchmark, or program, on both sides."""

    name: str
    runs: tuple[int, int]
    """How many runs each side has."""
    repeats: tuple[int, int]
    """How many of them ran one after the other: processes of one job count once."""
    work: tuple[tuple[str, str, str], ...]
    """What differs in the work: name, before, after."""
    damage: tuple[str, ...]
    """What is damaged, lost or failed on either side, as sentences."""
    crowded: tuple[int, int]
    """In how many runs of each side other programs had processors that it could have used."""
    loops: tuple[LoopChange, ...]
    only: OneSided
    """Loops of one side."""
    totals: tuple[Change, ...]
    """Values of a whole run, such as its duration, and values that it recorded."""
    totals_only: OneSided

    @property
    def why_nothing(self) -> str:
        """Why nothing can be compared, if so. Durations are no measure of runs without a common loop."""
        has_recorded = any(not change.unit for change in self.totals)
        if self.loops or has_recorded:
            return ""
        if all(self.only):
            return "they train in other loops"
        if any(self.only):
            return f"there are steps only {'before' if self.only.before else 'after'}"
        return "" if self.totals else "neither has steps or a value"


@dataclass(frozen=True)
class Comparison:
    """``after`` beside ``before``."""

    before: str
    """The label of a side."""
    after: str
    benchmarks: tuple[BenchmarkChange, ...]
    only: OneSided
    """Benchmarks of one side."""
    problems: tuple[str, ...]
    """What is wrong with the record of a side, as sentences."""

    @property
    def changes(self) -> list[LoopChange]:
        """The loops of all benchmarks."""
        return [loop for benchmark in self.benchmarks for loop in benchmark.loops]

    @property
    def why_nothing(self) -> str:
        """Why there is nothing to compare, if so."""
        if not self.benchmarks:
            return (
                "no benchmark is in both; they are paired by name (repeats of a program have one)"
            )
        if all(each.why_nothing for each in self.benchmarks):
            return "; ".join(dict.fromkeys(each.why_nothing for each in self.benchmarks))
        return ""
