"""Two sides beside each other: by benchmark and loop, what changed by how much, and how surely.

Benchmarks are paired by name, and loops by task, function and order. Each figure is a ratio of sums over the
runs of a side (seconds by steps, items by seconds); :mod:`.statistics` gives its interval.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from ..analysis.training_loop import Blocks
from ..metrics import unit_of
from .changes import RATE, TIME, BenchmarkChange, Change, Comparison, LoopChange, OneSided
from .sides import LoopFigures, RunFigures, Side
from .statistics import LEAST_BLOCKS, Process, rate, ratio
from .work import differences


def compare(before: Side, after: Side) -> Comparison:
    """Compare the benchmarks of one name, or a single one with a single one whatever their names are."""
    pairs, only = _paired_benchmarks(before, after)
    comparisons = sum(len(_paired_loops(*runs)[0]) for _, runs in pairs)
    return Comparison(
        before.label,
        after.label,
        tuple(_benchmark(name, *runs, max(comparisons, 1)) for name, runs in pairs),
        only,
        (*before.problems, *after.problems),
    )


Runs = Sequence[RunFigures]
Loops = Sequence[tuple[str, LoopFigures]]
"""Loops, each with the job of its run."""


def _paired_benchmarks(
    before: Side, after: Side
) -> tuple[list[tuple[str, tuple[Runs, Runs]]], OneSided]:
    """The benchmarks of both sides with the runs of each, and the names of the others."""
    one, two = before.benchmarks, after.benchmarks
    if len(one) == len(two) == 1:
        (name, runs), (new_name, new_runs) = *one.items(), *two.items()
        shown = name if name == new_name else f"{name} → {new_name}"
        return [(shown, (runs, new_runs))], OneSided()
    return [(name, (one[name], two[name])) for name in one if name in two], OneSided(
        tuple(name for name in one if name not in two),
        tuple(name for name in two if name not in one),
    )


def _benchmark(name: str, before: Runs, after: Runs, comparisons: int) -> BenchmarkChange:
    loops, only = _paired_loops(before, after)
    # Of several runs, their differences show what other programs took.
    crowded = [
        which
        for which, side in (("before", before), ("after", after))
        if _repeats(side) == 1 and any(run.crowded for run in side)
    ]
    judge = _Judge(comparisons, " and ".join(crowded))
    totals = tuple(_totals(before, after, judge))
    return BenchmarkChange(
        name=name,
        runs=(len(before), len(after)),
        repeats=(_repeats(before), _repeats(after)),
        work=tuple(differences(_works(before), _works(after))),
        damage=(*_damage("before", before), *_damage("after", after)),
        crowded=(_crowded_runs(before), _crowded_runs(after)),
        loops=tuple(_loop(label, *both, judge) for label, both in loops),
        only=only,
        totals=totals,
        totals_only=OneSided(*(tuple(_unshared_totals(side, totals)) for side in (before, after))),
    )


@dataclass(frozen=True)
class _Judge:
    """Makes the changes of a benchmark's figures."""

    comparisons: int
    """Step times of the whole comparison, for which its intervals hold together."""
    crowded: str
    """The sides that are a single run beside which other programs were busy, in words."""

    def why(self, sides: Sequence[Sequence[Process]], single: str) -> str:
        """Why the figures of ``sides`` tell nothing, if so. ``single`` describes one that is too little."""
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
        """The change of one figure.

        ``sides`` are sums by block of each process, before and after; ``single`` describes a side that is too
        little to tell.
        """
        before, after = map(rate, sides)
        change, why = ratio(*sides), self.why(sides, single)
        if change and why:
            change = replace(change, error=inf)
        interval = change.interval(self.comparisons) if change else (0.0, inf)
        return Change(name, unit, before, after, change, interval, why)


def _works(runs: Runs) -> list[Mapping[str, str]]:
    """What was run, of the ``runs`` that know it."""
    return [run.work for run in runs if run.work] or [{}]


def _repeats(runs: Runs) -> int:
    """How many of the ``runs`` ran one after the other."""
    return len({run.job or number for number, run in enumerate(runs)})


def _by_job(processes: Iterable[tuple[str, Process]]) -> list[Process]:
    """The sums of each job's processes as those of one, block after block; without a job each is its own.

    Processes side by side share what the machine does at that time: they are no repeats.
    """
    jobs: dict[str | int, list[Process]] = {}
    for number, (job, process) in enumerate(processes):
        jobs.setdefault(job or number, []).append(process)
    return [
        (np.concatenate([one for one, _ in each]), np.concatenate([by for _, by in each]))
        for each in jobs.values()
    ]


def _crowded_runs(runs: Runs) -> int:
    return sum(bool(run.crowded) for run in runs)


def _damage(which: str, runs: Runs) -> Iterable[str]:
    """``"before, run 2: it was killed by signal 9"``, for each damage of the runs of a side."""
    for number, run in enumerate(runs):
        where = f"{which}, run {number + 1}" if len(runs) > 1 else which
        yield from (f"{where}: {text}" for text in (run.failed, *run.missing) if text)


# --- loops ------------------------------------------------------------------------------------------


def _paired_loops(
    before: Runs, after: Runs
) -> tuple[list[tuple[str, tuple[Loops, Loops]]], OneSided]:
    """The loops of both sides, each with those of all runs, and the names of the others.

    Lines move between commits: loops of a function are paired in their order, a single one with a single one.
    """
    one, two = _loops_by_place(before), _loops_by_place(after)
    if len(one) == len(two) == 1:
        two = {next(iter(one)): next(iter(two.values()))}
    return [(_loop_name(key, one), (one[key], two[key])) for key in one if key in two], OneSided(
        tuple(_loop_name(key, one) for key in one if key not in two),
        tuple(_loop_name(key, two) for key in two if key not in one),
    )


Key = tuple[str, str, int]
"""Task, function, and the loop's number among those of this function, from 1."""


def _loops_by_place(runs: Runs) -> dict[Key, list[tuple[str, LoopFigures]]]:
    by_place: dict[Key, list[tuple[str, LoopFigures]]] = {}
    for run in runs:
        numbers: Counter[tuple[str, str]] = Counter()
        for loop in sorted(run.loops, key=lambda loop: loop.line):
            if loop.blocks:
                place = loop.task, loop.function
                numbers[place] += 1
                by_place.setdefault((*place, numbers[place]), []).append((run.job, loop))
    return by_place


def _loop_name(key: Key, loops: Mapping[Key, Loops]) -> str:
    """The function, and what tells it from the other ``loops`` of a side: its task, its number."""
    task, function, number = key
    has_others = sum(other[:2] == key[:2] for other in loops) > 1
    where = f"{function} ({number})" if has_others else function
    shown_task = task if len({other[0] for other in loops}) > 1 else ""
    return " ".join(filter(None, (shown_task, where))) or task or "steps"


def _loop(name: str, before: Loops, after: Loops, judge: _Judge) -> LoopChange:
    sides = [
        [(job, block) for job, loop in side for block in loop.blocks] for side in (before, after)
    ]
    counted, unit = _counted_in([block for side in sides for _, block in side])

    def change(
        name: str, unit: str, columns: Callable[[Blocks], tuple[Sequence[float], Sequence[float]]]
    ) -> Change:
        return judge.change(
            name,
            unit,
            [
                _by_job((job, _columns_of_process(*columns(each))) for job, each in side)
                for side in sides
            ],
        )

    def region(name: str) -> Change:
        return change(name, "s", lambda b: (b.regions.get(name, (0.0,) * len(b.steps)), b.steps))

    names = dict.fromkeys(name for side in sides for _, block in side for name in block.regions)
    return LoopChange(
        name=name,
        step=change(TIME, unit_of(f"compare {TIME}"), lambda b: (b.seconds, b.steps)),
        throughput=change(RATE, f"{unit}/s", lambda b: (counted(b), b.seconds)),
        regions=tuple(sorted(map(region, names), key=lambda each: -abs(each.after - each.before))),
    )


def _counted_in(blocks: Sequence[Blocks]) -> tuple[Callable[[Blocks], Sequence[float]], str]:
    """What throughput counts: items if all blocks know them, else tokens, else steps; and its word."""
    if all(block.items and sum(block.items) for block in blocks):
        return lambda block: block.items or (), "items"
    if all(block.tokens and sum(block.tokens) for block in blocks):
        return lambda block: block.tokens or (), "tokens"
    return lambda block: block.steps, "steps"


def _columns_of_process(counted: Sequence[float], by: Sequence[float]) -> Process:
    return np.array(counted, dtype=np.float64), np.array(by, dtype=np.float64)


# --- one value a run --------------------------------------------------------------------------------

UNITS = {
    name: unit_of(f"compare {name}")
    for name in ("duration", "memory", "device_memory", "energy", "study")
}


def _totals(before: Runs, after: Runs, judge: _Judge) -> list[Change]:
    """The values that at least one run of each side has: those with units first, then recorded ones."""
    one = np.ones(1)
    names = dict.fromkeys(name for run in (*before, *after) for name in run.totals)
    changes = []
    for name in sorted(names, key=lambda name: (not _unit(name), name)):
        sides = [
            [
                (np.array([counted.sum()]), np.array([by.sum()]))
                for counted, by in _by_job(
                    (run.job, (np.array([run.totals[name]]), one))
                    for run in side
                    if name in run.totals
                )
            ]
            for side in (before, after)
        ]
        if all(sides):
            changes.append(judge.change(name, _unit(name), sides, "one value"))
    return changes


def _unit(name: str) -> str:
    """The unit of a value of a run; "" of a recorded one. ``study 2`` is a further study of a program."""
    return UNITS.get(re.sub(r"^study \d+$", "study", name), "")


def _unshared_totals(runs: Runs, shared: Sequence[Change]) -> Iterable[str]:
    """The names of values of ``runs`` that are not ``shared``."""
    names = dict.fromkeys(name for run in runs for name in run.totals)
    return (name for name in names if all(name != change.name for change in shared))
