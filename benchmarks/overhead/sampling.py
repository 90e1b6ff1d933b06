"""``python -m benchmarks.overhead.sampling``: what the monitor costs a program that it samples.

A loop that only computes runs in blocks: while the monitor samples, and while it is stopped (SIGSTOP),
in turns within one process. What differs is what sampling costs. Once with the other cores free, and
once with a loop on each core, where the monitor must take its time from one of them. The control is
the same with the monitor stopped both times: it says what the method can tell.
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
"""Without and with: nanoseconds of each clock."""


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print a line for each clock and number of busy cores; 1 if a goal is missed."""
    options = _parser().parse_args(arguments)
    found: dict[str, Any] = {}
    missed = False
    print(
        f"{'sampling every':16}{options.interval:g} s, percent of the program's time; goal {GOAL}"
    )
    for busy in dict.fromkeys((1, os.cpu_count() or 1)):
        numbers = (options.pairs, options.seconds, options.interval, busy)
        words = [sys.executable, str(PROGRAM), *map(str, numbers)]
        figures = json.loads(answer(words, Path.cwd()).splitlines()[-1])
        for clock, name in enumerate(CLOCKS):
            cost, control = (percent(figures[kind], clock) for kind in ("pairs", "control"))
            missed = missed or cost.low > GOAL
            title = f"{busy} busy, {name}"
            print(f"  {title:14}{cost.text(3)}   control {control.text(3)}", flush=True)
            found[title] = {"cost": cost._asdict(), "control": control._asdict()}
        a_sample = 1e3 * figures["cpu"] / max(figures["samples"], 1)
        print(f"  {'':14}{figures['samples']} samples, {a_sample:.2f} ms of the monitor's CPU each")
        found[f"{busy} busy"] = {"samples": figures["samples"], "ms a sample": a_sample}
    about = machine.describe(None)
    for key, value in about.items():
        print(f"{key}: {value}")
    if options.json:
        text = json.dumps({"machine": about, "measured": found}, indent=1)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    return int(missed)


def percent(pairs: Sequence[Pair], clock: int) -> Spread:
    """How much longer the second of each pair took than the first, on one of the clocks."""
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
