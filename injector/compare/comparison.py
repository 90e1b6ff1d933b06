"""Two sides beside each other: by benchmark and loop, what changed by how much, and how surely."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np

from ..analysis.profile import Blocks
from ..metrics import unit_of
from .sides import LoopFigures, RunFigures, Side
from .statistics import LEAST_BLOCKS, Process, Ratio, ratio
from .work import differences

SLOWER, FASTER, SAME, UNKNOWN = "slower", "faster", "same", "cannot tell"
NARROW = 0.05
"""Within this part of 1 an interval says that there is no change to speak of."""
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
    """None where one of both is 0."""
    interval: tuple[float, float]
    """Of the ratio, for all step times of the comparison together; (0, inf) where nothing is known."""
    why: str = ""
    """Why nothing is known."""

    @property
    def change(self) -> float:
        """As a part of what it was: 0.05 for 5 % more."""
        return self.after / self.before - 1 if self.before else inf

    def worse(self, comparisons: int = 0, falls: bool = False) -> tuple[float, float]:
        """The interval of the change for the worse, as a part: (0.03, 0.08) is surely worse by 3 to 8 %.

        With ``comparisons`` the one that holds for so many together, else that of the whole comparison.
        ``falls``: less of it is worse, as it is of throughput anyway. An end is infinite where nothing is
        known.
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
        return SAME if low >= -NARROW and high <= NARROW else UNKNOWN


@dataclass(frozen=True)
class LoopChange:
    """One loop on both sides."""

    name: str
    step: Change
    throughput: Change
    regions: tuple[Change, ...]
    """Seconds of a step; the one that changed by most seconds first."""


class Alone(NamedTuple):
    """The names of what only one side has."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class BenchmarkChange:
    """One benchmark, or program, on both sides."""

    name: str
    runs: tuple[int, int]
    """How many each side has."""
    work: tuple[tuple[str, str, str], ...]
    """What differs in what was run: name, before, after."""
    damage: tuple[str, ...]
    """What is damaged, lost or failed on either side, as sentences."""
    crowded: tuple[int, int]
    """In how many runs of each side other programs had processors that it could have used."""
    loops: tuple[LoopChange, ...]
    only: Alone
    """Loops."""
    totals: tuple[Change, ...]
    totals_only: Alone

    @property
    def nothing(self) -> str:
        """Why nothing of both can be compared, if so: how long they take is no measure then."""
        if self.loops or any(not each.unit for each in self.totals):
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
    after: str
    benchmarks: tuple[BenchmarkChange, ...]
    only: Alone
    """Benchmarks."""
    problems: tuple[str, ...]

    @property
    def changes(self) -> list[LoopChange]:
        """Of all benchmarks."""
        return [loop for each in self.benchmarks for loop in each.loops]

    @property
    def nothing(self) -> str:
        """Why there is nothing to compare, if so."""
        if not self.benchmarks:
            return (
                "no benchmark is in both; they are paired by name (repeats of a program have one)"
            )
        if all(each.nothing for each in self.benchmarks):
            return "; ".join(dict.fromkeys(each.nothing for each in self.benchmarks))
        return ""


def compare(before: Side, after: Side) -> Comparison:
    """What is named alike is compared; a single program with a single one, whatever their names are."""
    pairs, only = _pairs(before, after)
    headlines = sum(len(_paired(*runs)[0]) for _, runs in pairs)
    return Comparison(
        before.label,
        after.label,
        tuple(_benchmark(name, *runs, max(headlines, 1)) for name, runs in pairs),
        only,
        (*before.problems, *after.problems),
    )


Runs = Sequence[RunFigures]


def _pairs(before: Side, after: Side) -> tuple[list[tuple[str, tuple[Runs, Runs]]], Alone]:
    one, two = before.benchmarks, after.benchmarks
    if len(one) == len(two) == 1:
        (first, mine), (second, others) = *one.items(), *two.items()
        name = first if first == second else f"{first} → {second}"
        return [(name, (mine, others))], Alone()
    only = (tuple(each for each in one if each not in two), tuple(e for e in two if e not in one))
    return [(name, (one[name], two[name])) for name in one if name in two], Alone(*only)


def _benchmark(name: str, before: Runs, after: Runs, headlines: int) -> BenchmarkChange:
    loops, only = _paired(before, after)
    crowded = [
        which
        for which, side in (("before", before), ("after", after))
        if len(side) == 1 and side[0].crowded
    ]
    judge = _Judge(headlines, " and ".join(crowded))
    totals = tuple(_totals(before, after, judge))
    return BenchmarkChange(
        name=name,
        runs=(len(before), len(after)),
        work=tuple(differences([run.work for run in before], [run.work for run in after])),
        damage=(*_damage("before", before), *_damage("after", after)),
        crowded=(_crowded(before), _crowded(after)),
        loops=tuple(_loop(label, *both, judge) for label, both in loops),
        only=only,
        totals=totals,
        totals_only=Alone(*(tuple(_total_names(side, totals)) for side in (before, after))),
    )


@dataclass(frozen=True)
class _Judge:
    """What the figures of a benchmark are judged by."""

    comparisons: int
    """Step times of the whole comparison, which its intervals hold for together."""
    crowded: str
    """The sides that are a single run beside which other programs were busy."""

    def why(self, sides: Sequence[Sequence[Process]], single: str) -> str:
        """Why ``sides`` can tell nothing, if so."""
        if self.crowded:
            return f"other programs were busy during the only run {self.crowded}"
        for which, side in zip(("before", "after"), sides, strict=True):
            blocks = len(side[0][0]) if len(side) == 1 else LEAST_BLOCKS
            if blocks < LEAST_BLOCKS:
                return f"there is {single} {which}"
        return ""

    def change(
        self,
        name: str,
        unit: str,
        sides: Sequence[Sequence[Process]],
        single: str = "one run of too few steps",
    ) -> Change:
        """``sides``: sums by block of each process, before and after; ``single``: what one that is too
        little to tell is called."""
        before, after = (
            sum(float(c.sum()) for c, _ in side) / (sum(float(by.sum()) for _, by in side) or 1.0)
            for side in sides
        )
        found, why = ratio(*sides), self.why(sides, single)
        if found and why:
            found = replace(found, error=inf)
        interval = found.interval(self.comparisons) if found else (0.0, inf)
        return Change(name, unit, before, after, found, interval, why)


def _crowded(runs: Runs) -> int:
    return sum(bool(run.crowded) for run in runs)


def _damage(which: str, runs: Runs) -> Iterable[str]:
    for number, run in enumerate(runs):
        who = f"{which}, run {number + 1}" if len(runs) > 1 else which
        yield from (f"{who}: {text}" for text in (run.failed, *run.missing) if text)


# --- loops ------------------------------------------------------------------------------------------

Loops = Sequence[LoopFigures]


def _paired(before: Runs, after: Runs) -> tuple[list[tuple[str, tuple[Loops, Loops]]], Alone]:
    """The loops that both sides have, of all of their runs; and the names of those that one has.

    Lines move between commits: loops of a function are paired in their order, and a single loop is paired
    with a single one.
    """
    one, two = _by_place(before), _by_place(after)
    if len(one) == len(two) == 1:
        two = {next(iter(one)): next(iter(two.values()))}
    found = [(key, (one[key], two[key])) for key in one if key in two]
    only = Alone(
        tuple(_name(key, one) for key in one if key not in two),
        tuple(_name(key, two) for key in two if key not in one),
    )
    return [(_name(key, one), both) for key, both in found], only


Key = tuple[str, str, int]


def _by_place(runs: Runs) -> dict[Key, list[LoopFigures]]:
    found: dict[Key, list[LoopFigures]] = {}
    for run in runs:
        seen: dict[tuple[str, str], int] = {}
        for loop in sorted(run.loops, key=lambda loop: loop.line):
            if loop.blocks:
                number = seen[loop.task, loop.function] = (
                    seen.get((loop.task, loop.function), 0) + 1
                )
                found.setdefault((loop.task, loop.function, number), []).append(loop)
    return found


def _name(key: Key, loops: Mapping[Key, Loops]) -> str:
    task, function, number = key
    several = sum(each[:2] == key[:2] for each in loops) > 1
    where = f"{function} ({number})" if several else function
    named = " ".join(filter(None, (task if len({k[0] for k in loops}) > 1 else "", where)))
    return named or task or "steps"


def _loop(name: str, before: Loops, after: Loops, judge: _Judge) -> LoopChange:
    sides = [[block for loop in side for block in loop.blocks] for side in (before, after)]
    counted, unit = _counted([*sides[0], *sides[1]])

    def change(
        name: str, unit: str, columns: Callable[[Blocks], tuple[Sequence[float], Sequence[float]]]
    ) -> Change:
        return judge.change(
            name, unit, [[_process(*columns(each)) for each in side] for side in sides]
        )

    def region(name: str) -> Change:
        return change(name, "s", lambda b: (b.regions.get(name, (0.0,) * len(b.steps)), b.steps))

    names = dict.fromkeys(name for side in sides for block in side for name in block.regions)
    return LoopChange(
        name=name,
        step=change(TIME, unit_of(f"compare {TIME}"), lambda b: (b.seconds, b.steps)),
        throughput=change(RATE, f"{unit}/s", lambda b: (counted(b), b.seconds)),
        regions=tuple(sorted(map(region, names), key=lambda each: -abs(each.after - each.before))),
    )


def _counted(blocks: Sequence[Blocks]) -> tuple[Callable[[Blocks], Sequence[float]], str]:
    """What speed is counted in: items where both sides know them, else tokens, else steps."""
    if all(block.items and sum(block.items) for block in blocks):
        return lambda block: block.items or (), "items"
    if all(block.tokens and sum(block.tokens) for block in blocks):
        return lambda block: block.tokens or (), "tokens"
    return lambda block: block.steps, "steps"


def _process(counted: Sequence[float], by: Sequence[float]) -> Process:
    return np.array(counted, dtype=np.float64), np.array(by, dtype=np.float64)


# --- one value a run --------------------------------------------------------------------------------

UNITS = {
    name: unit_of(f"compare {name}")
    for name in ("duration", "memory", "device_memory", "energy", "study")
}


def _totals(before: Runs, after: Runs, judge: _Judge) -> list[Change]:
    """Those that a run of each side has at least."""
    one = np.ones(1)
    names = dict.fromkeys(name for run in (*before, *after) for name in run.totals)
    found = []
    for name in sorted(names, key=lambda name: (not _unit(name), name)):
        sides = [
            [(np.array([run.totals[name]]), one) for run in side if name in run.totals]
            for side in (before, after)
        ]
        if all(sides):
            found.append(judge.change(name, _unit(name), sides, "one value"))
    return found


def _unit(name: str) -> str:
    """Of a value of a run; empty of a recorded one. ``study 2`` is a further study of a program."""
    return UNITS.get(re.sub(r"^study \d+$", "study", name), "")


def _total_names(runs: Runs, shared: Sequence[Change]) -> Iterable[str]:
    """Those of ``runs`` that are not shared."""
    found = dict.fromkeys(name for run in runs for name in run.totals)
    return (name for name in found if all(name != each.name for each in shared))
