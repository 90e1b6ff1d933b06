"""``python -m benchmarks.overhead.tracking``: what a live tracker (``--track``) costs the program it follows.

A loop of steps of 5 ms runs in blocks within one process, in turns while the tracker sends and while it is
stopped (SIGSTOP). A block is longer than the 5 s after which the tracker looks for new records. The control
is the same with the tracker stopped both times: what it shows is what the method cannot tell from nothing.
The clocks are those of the program's own thread, since the tracker is a process of its own, with low
priority.

With ``--instructions``, callgrind counts the instructions of the training process alone, in runs with a
tracker and without: a count does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from . import machine
from .processes import ProgramFailed, answer, executed, same_addresses
from .sampling import CLOCKS, percent
from .spread import Spread, spread
from .tools import PROGRAMS, VOIRFILES, environment

GOAL = 0.5
"""Percent of the program's time."""
PROGRAM = str(PROGRAMS / "tracked.py")
TRACKERS = ("tensorboard", "wandb", "mlflow")


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print a line for each figure; return 1 if a goal is missed."""
    options = _parser().parse_args(arguments)
    print(f"{'--track ' + options.to:20}percent of the program's own; goal {GOAL}", flush=True)
    with tempfile.TemporaryDirectory(prefix="injector-tracking-") as name:
        folder = Path(name)
        measure = counted if options.instructions else timed
        figures = measure(folder, options)
    for title, (cost, control) in figures.items():
        print(f"  {title:18}{cost.text(4)}   control {control.text(4)}", flush=True)
    about = machine.describe(None)
    for key, value in about.items():
        print(f"{key}: {value}")
    if options.json:
        measured = {
            title: {"cost": cost._asdict(), "control": control._asdict()}
            for title, (cost, control) in figures.items()
        }
        text = json.dumps({"machine": about, "measured": measured}, indent=1)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    return int(any(cost.low > GOAL for cost, _ in figures.values()))


def timed(folder: Path, options: argparse.Namespace) -> dict[str, tuple[Spread, Spread]]:
    """The cost and the control in percent, by clock. Raises ProgramFailed."""
    words = run(folder, options.to, str(options.pairs), str(options.seconds))
    figures = json.loads(answer(words, folder).splitlines()[-1])
    return {
        name: (percent(figures["pairs"], clock), percent(figures["control"], clock))
        for clock, name in enumerate(CLOCKS)
    }


def counted(folder: Path, options: argparse.Namespace) -> dict[str, tuple[Spread, Spread]]:
    """The cost and the control in percent of instructions. Raises ProgramFailed."""
    counts: dict[str | None, list[int]] = {options.to: [], None: []}
    # First pairs without and with a tracker, then as many pairs without one both times.
    for number in range(2 * options.pairs):
        pair = (None, options.to if number < options.pairs else None)
        for at, to in enumerate(pair if number % 2 else pair[::-1]):
            of_run = instructions(folder / f"{number}.{at}", to, options.steps)
            counts[to].append(of_run)
            print(f"  {to or 'without':18}{of_run:,} instructions", flush=True)
    without, control = counts[None][: options.pairs], counts[None][options.pairs :]
    cost = [100 * (w / o - 1) for o, w in zip(without, counts[options.to], strict=True)]
    nothing = [100 * (w / o - 1) for o, w in zip(control[::2], control[1::2], strict=True)]
    return {"instructions": (spread(cost), spread(nothing))}


def run(folder: Path, to: str | None, *arguments: str) -> list[str]:
    """The command of a run in ``folder``, with the tracker ``to`` or, for None, with none."""
    words = [sys.executable, "-m", "injector", "run", "--quiet", "--no-monitor"]
    words += ["--runs", str(folder), "--voirfile", str(VOIRFILES / "tracked.py")]
    if to is not None:
        place = f"sqlite:///{folder}/m.db" if to == "mlflow" else f"{folder}/{to}"
        words += ["--track", f"{to}={place}"]
    return [*words, PROGRAM, *arguments]


def instructions(folder: Path, to: str | None, steps: int) -> int:
    """The instructions of the training process in a run of ``steps`` steps. Raises ProgramFailed."""
    folder.mkdir()
    words = ["valgrind", "--tool=callgrind", "--trace-children=yes"]
    # The tracker is a child of the run, whose instructions are not the program's.
    words += ["--trace-children-skip-by-arg=*injector.run.tracking*"]
    words += [f"--callgrind-out-file={folder}/count.%p", *run(folder, to, str(steps))]
    words = [*same_addresses(), *words]
    done = subprocess.run(
        words,
        cwd=folder,
        env={**environment(), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ProgramFailed(f"{' '.join(words)}: {done.returncode}\n{done.stderr[-2000:]}")
    return executed(
        folder / f"count.{done.stdout.split()[-1]}"
    )  # the program prints its process number


def _parser() -> argparse.ArgumentParser:
    parser: Any = argparse.ArgumentParser(
        prog="benchmarks.overhead.tracking", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--to", choices=TRACKERS, default=TRACKERS[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=6.0, help="of one block (6)")
    parser.add_argument("--instructions", action="store_true", help="with callgrind, not clocks")
    parser.add_argument("--steps", type=int, default=2000, help="of a run with callgrind (2000)")
    parser.add_argument("--json", metavar="FILE", help="write what was measured there as well")
    return parser  # type: ignore[no-any-return]


if __name__ == "__main__":
    sys.exit(main())
