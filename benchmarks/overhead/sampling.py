"""``python -m benchmarks.overhead.sampling``: what the monitor costs a program that it samples.

A loop that only computes runs in blocks within one process, in turns while the monitor samples and while it
is stopped (SIGSTOP). The difference is what sampling costs. This is measured with all other cores free, and
with a loop on each core, where the monitor has to take its time from one of them. The control is the same
with the monitor stopped both times: what it shows is what the method cannot tell from nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import machine
from .processes import answer
from .spread import Spread, spread

PROGRAM = Path(__file__).parent / "programs" / "sampled.py"
GOAL = 0.5
"""Percent of the program's time."""
CLOCKS = ("wall", "CPU")

Pair = Sequence[Sequence[float]]
"""A block without sampling and one with it: the nanoseconds of each, on each clock."""


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print a line for each clock and number of busy cores; return 1 if a goal is missed."""
    options = _parser().parse_args(arguments)
    measured: dict[str, Any] = {}
    missed = False
    print(
        f"{'sampling every':16}{options.interval:g} s, percent of the program's time; goal {GOAL}"
    )
    # With one core busy and with all; on a machine with one core, that is the same.
    for busy in dict.fromkeys((1, os.cpu_count() or 1)):
        numbers = (options.pairs, options.seconds, options.interval, busy)
        words = [sys.executable, str(PROGRAM), *map(str, numbers)]
        figures = json.loads(answer(words, Path.cwd()).splitlines()[-1])
        for clock, name in enumerate(CLOCKS):
            cost, control = (percent(figures[kind], clock) for kind in ("pairs", "control"))
            missed = missed or cost.low > GOAL
            title = f"{busy} busy, {name}"
            print(f"  {title:14}{cost.text(3)}   control {control.text(3)}", flush=True)
            measured[title] = {"cost": cost._asdict(), "control": control._asdict()}
        samples = figures["samples"]
        per_sample = 1e3 * figures["cpu"] / max(samples, 1)
        print(f"  {'':14}{samples} samples, {per_sample:.2f} ms of the monitor's CPU each")
        measured[f"{busy} busy"] = {"samples": samples, "ms a sample": per_sample}
    about = machine.describe(None)
    for key, value in about.items():
        print(f"{key}: {value}")
    if options.json:
        text = json.dumps({"machine": about, "measured": measured}, indent=1)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    return int(missed)


def percent(pairs: Sequence[Pair], clock: int) -> Spread:
    """By how many percent the second block of each pair took longer than the first, on one of the clocks."""
    return spread([100 * (with_[clock] / without[clock] - 1) for without, with_ in pairs])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.overhead.sampling", description=__doc__)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one block (1)")
    parser.add_argument("--interval", type=float, default=0.1, help="between samples (0.1)")
    parser.add_argument("--json", metavar="FILE", help="write what was measured there as well")
    return parser


if __name__ == "__main__":
    sys.exit(main())
