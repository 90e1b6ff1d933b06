"""``python -m benchmarks.overhead.truth``: are the times in a report true?

A loop times itself, by reading a clock between all of its parts, while ``inject run`` records it. Both
measure the same steps of the same process, so that it does not matter what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from array import array
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from injector.analysis.profiling import profile
from injector.analysis.training_loop import Node, TrainingLoop
from injector.store.folder import open_run

from . import machine
from .processes import ProgramFailed, cost
from .spread import Spread, spread
from .tools import Tool, ours, plain, program

LENGTHS = {70: 20_000, 500: 4_000, 5_000: 500, 30_000: 100}
"""How many steps are made, by microseconds of a step."""
GOAL_STEP = 1.0
"""Percent by which the time of a step may differ."""
GOAL_SHARE = 2.0
"""Percentage points by which the share of a region may differ."""
REGIONS = ("io", "forward", "backward", "optimizer")


class Times(NamedTuple):
    """The times of a loop."""

    step: float
    """Seconds of the median step."""
    shares: dict[str, float]
    """For each region, its fraction of a step."""


class Row(NamedTuple):
    """The results for one length of step, over all rounds."""

    microseconds: int
    by_hand: Spread
    """Microseconds of a step, by the loop's own clock."""
    difference: Spread
    """Percent that a step is longer in the report."""
    shares: dict[str, Spread]
    """For each region, by how many percentage points its share is larger in the report."""
    alone: Spread
    """Percent that a recorded step is longer than under ``python``, both by the loop's own clock."""

    def missed(self) -> Iterator[str]:
        """A line for each goal that was missed."""
        if abs(self.difference.median) > GOAL_STEP:
            yield f"{self.microseconds} µs: a step differs by {self.difference.median:+.2f} %"
        for region, points in self.shares.items():
            if abs(points.median) > GOAL_SHARE:
                yield f"{self.microseconds} µs: {region} differs by {points.median:+.2f} points"


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print a table; return 1 under ``--strict`` if a goal was missed."""
    parser = argparse.ArgumentParser(prog="benchmarks.overhead.truth", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each length (default 5)")
    parser.add_argument("--json", metavar="FILE", help="write what was measured there as well")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    options = parser.parse_args(arguments)
    about = machine.describe(None)
    rows = [measure(length, count, options.rounds) for length, count in LENGTHS.items()]
    for key, value in about.items():
        print(f"{key}: {value}")
    print()
    print("\n".join(lines(rows)))
    misses = [miss for row in rows for miss in row.missed()]
    print("\n".join(["", *(misses or ["every goal is met"])]))
    if options.json:
        results = {"machine": about, "rows": [row._asdict() for row in rows], "missed": misses}
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 1 if misses and options.strict else 0


def measure(microseconds: int, count: int, rounds: int) -> Row:
    """The row for one length of step: each round runs the loop under ``python`` and under ``inject run``."""
    times = [_round(microseconds, count) for _ in range(rounds)]
    return Row(
        microseconds,
        by_hand=spread([1e6 * hand.step for _, hand, _ in times]),
        difference=spread([100 * (report.step / hand.step - 1) for _, hand, report in times]),
        shares={
            region: spread(
                [100 * (report.shares[region] - hand.shares[region]) for _, hand, report in times]
            )
            for region in REGIONS
        },
        alone=spread([100 * (hand.step / alone.step - 1) for alone, hand, _ in times]),
    )


def _round(microseconds: int, count: int) -> tuple[Times, Times, Times]:
    """Times under ``python``, under ``inject run`` by the loop's own clock, and in the report of that run."""
    with tempfile.TemporaryDirectory(prefix="injector-truth-") as name:
        folder = Path(name)
        alone = _stamps(plain(folder), microseconds, count)
        hand = _stamps(ours(folder, "inject", None), microseconds, count)
        (run,) = (folder / "runs").iterdir()
        (loop,) = profile(open_run(str(run))).loops
    skip = loop.warmup.steps
    return _by_hand(alone, skip), _by_hand(hand, skip), _reported(loop)


def _stamps(tool: Tool, microseconds: int, count: int) -> array[int]:
    """The readings of the loop's own clock: six for each step, in nanoseconds."""
    file = tool.folder / "stamps"
    cost(program(tool, "timed_loop.py", (microseconds, count, file)), tool.folder)
    stamps = array("q")
    stamps.frombytes(file.read_bytes())
    return stamps


def _by_hand(stamps: array[int], skip: int) -> Times:
    """The times of all steps but the first ``skip``, by the loop's own clock."""
    begins, fetched, forward, before, backward, ends = (
        stamps[reading + 6 * skip :: 6] for reading in range(6)
    )
    # A step lasts until the next one fetches; the last one until its update.
    steps = [b - a for a, b in zip(begins, [*begins[1:], ends[-1]], strict=True)]
    # Sums of differences are differences of sums. Between forward and backward, the loop computes the loss
    # and clears gradients, which is in none of these regions.
    parts = {
        "io": sum(fetched) - sum(begins),
        "forward": sum(forward) - sum(fetched),
        "backward": sum(backward) - sum(before),
        "optimizer": sum(ends) - sum(backward),
    }
    shares = {region: part / sum(steps) for region, part in parts.items()}
    return Times(median(steps) / 1e9, shares)


def _reported(loop: TrainingLoop) -> Times:
    return Times(loop.step.median, {region: _share(loop.tree, region) for region in REGIONS})


def _share(node: Node, region: str) -> float:
    """The fraction of a step in a region, at any depth of the tree."""
    if node.name == region:
        return node.share
    return sum(_share(child, region) for child in node.children)


def lines(rows: list[Row]) -> Iterator[str]:
    """The lines of the table, one for each length of step."""
    yield f"medians of {rows[0].alone.n} rounds; what the report gives over the loop's own clock"
    regions = "".join(f"{region:>11}" for region in REGIONS)
    yield f"{'by hand µs':>12}{'step %':>9}{regions}  points{'recorded over alone %':>25}"
    for row in rows:
        shares = "".join(f"{row.shares[region].median:>+11.2f}" for region in REGIONS)
        step = f"{row.by_hand.median:>12.1f}{row.difference.median:>+9.2f}"
        yield f"{step}{shares}        {row.alone.median:>+25.2f}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ProgramFailed as failed:
        sys.exit(str(failed))
