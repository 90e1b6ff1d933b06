"""Whether this commit made an event, a step or the start of a program more expensive than another commit.

``python -m benchmarks.guard`` counts instructions with callgrind, which do not depend on what else the
machine does, so both commits are counted at once; ``--time`` compares processor time, in pairs. Both run the
same program under either commit, so that only the package differs. The first row is a run of few turns; each
of the others is what more turns of a loop take, divided by these turns: of the program itself an event and a
step, of our own processes the collection of an event and its place in the summary.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from .overhead.processes import ProgramFailed, command_of, executed, same_addresses
from .overhead.spread import differences, spread
from .overhead.tools import HOME, PROGRAMS, VOIRFILES

LIMIT = 0.03
"""The part by which a row may grow."""
EVENTS, STEPS = 50_000, 5_000
"""Turns of the loops under callgrind; on the clock, 10 times as many."""
MORE = 10
ROUNDS = 15
FEW = 200
"""Turns that every run makes: what happens once, at the first of them, is in the start's row only."""


class RunCost(NamedTuple):
    """What a run takes, instructions or seconds."""

    program: float
    """Of the program's own process."""
    all: float
    """Of this one and ours."""

    def further(self, start: RunCost, turns: int) -> RunCost:
        """What each of the turns takes that this run makes and ``start`` does not."""
        return RunCost(*((mine - other) / turns for mine, other in zip(self, start, strict=True)))


Count = Callable[[Path, int, int], RunCost]
"""``count(root, events, steps)``: a run with the package of the checkout ``root``."""


def checkout(revision: str, folder: Path) -> Path:
    """The files of ``revision``, compiled. Raises CalledProcessError, as for a revision that is none."""
    root = folder / "other"
    root.mkdir()
    archive = subprocess.run(
        ["git", "archive", revision], cwd=HOME, check=True, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "-x"], cwd=root, check=True, input=archive.stdout)
    build = (
        "from pathlib import Path; import hatch_build as h; root = Path('.').resolve(); "
        "made = h.compiled(root, root / 'built'); h.replace(made, root / h.NATIVE / '..' / made.name)"
    )
    subprocess.run([sys.executable, "-c", build], cwd=root, check=True, stdout=subprocess.DEVNULL)
    return root


def command(folder: Path, events: int, steps: int) -> list[str]:
    """The run that is measured."""
    options = ["--quiet", "--no-monitor", "--strict", "--runs", str(folder)]
    options += ["--voirfile", str(VOIRFILES / "guarded.py")]
    program = [str(PROGRAMS / "guarded.py"), str(events), str(steps)]
    return [sys.executable, "-m", "injector", "run", *options, *program]


def environment(root: Path) -> dict[str, str]:
    """The package of ``root``, and the same order of every set in every run."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "INJECT", "VOIR"))}
    return {**kept, "PYTHONPATH": str(root), "PYTHONHASHSEED": "0"}


def instructions(root: Path, events: int, steps: int) -> RunCost:
    """Instructions of a run. Raises ProgramFailed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        valgrind = ["valgrind", "--tool=callgrind", "--trace-children=yes"]
        valgrind += [f"--callgrind-out-file={folder}/count.%p"]
        words = [*valgrind, *command(folder / "runs", events, steps)]
        _run([*same_addresses(), *words], root, folder)
        counts = {file: executed(file) for file in folder.glob("count.*")}
        own = (count for file, count in counts.items() if "-m injector" not in command_of(file))
        return RunCost(sum(own), sum(counts.values()))


def seconds(root: Path, events: int, steps: int) -> RunCost:
    """Seconds of processor time of a run. Raises ProgramFailed."""
    with tempfile.TemporaryDirectory() as name:
        before = os.times()
        printed = _run(command(Path(name) / "runs", events, steps), root, Path(name))
        after = os.times()
    return RunCost(float(printed), (after[2] - before[2]) + (after[3] - before[3]))


def _run(words: list[str], root: Path, folder: Path) -> str:
    """What the command prints."""
    done = subprocess.run(
        words, cwd=folder, env=environment(root), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ProgramFailed(f"{' '.join(words)}: {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def rows(root: Path, count: Count, more: int = 1) -> dict[str, float]:
    """What each row costs with the package of ``root``."""
    # What Python compiles and we rewrite, once for all runs.
    with tempfile.TemporaryDirectory() as name:
        _run(command(Path(name) / "runs", FEW, FEW), root, Path(name))
    start = count(root, FEW, FEW)
    event = count(root, FEW + more * EVENTS, FEW).further(start, more * EVENTS)
    step = count(root, FEW, FEW + more * STEPS).further(start, more * STEPS)
    return {
        "start-up": start.all,
        "event": event.program,
        "step": step.program,
        "collection": event.all - event.program,
    }


def compared(other: Path, by_time: bool) -> dict[str, list[tuple[float, float]]]:
    """What each row costs with the package of ``other`` and with that of this checkout, pair by pair.

    Instructions are counted of both at once, one pair of them; seconds one after the other.
    """
    count, rounds, more = (seconds, ROUNDS, MORE) if by_time else (instructions, 1, 1)
    pairs: dict[str, list[tuple[float, float]]] = {}
    with ThreadPoolExecutor(1 if by_time else 2) as threads:
        for turn in range(rounds):
            order = (other, HOME) if turn % 2 else (HOME, other)
            costs = threads.map(lambda root: rows(root, count, more), order)
            taken = dict(zip(order, costs, strict=True))
            for row in taken[HOME]:
                pairs.setdefault(row, []).append((taken[other][row], taken[HOME][row]))
    return pairs


def grown(pairs: dict[str, list[tuple[float, float]]]) -> list[str]:
    """Print each row's change, and give the names of those that have grown beyond the limit.

    Of several pairs the whole interval of the median has to be beyond it.
    """
    found = []
    for name, taken in pairs.items():
        base = spread([before for before, _ in taken]).median
        change = spread([each / base for each in differences(taken)])
        beyond = change.low > LIMIT
        found += [name] * beyond
        print(
            f"{name:11}{base:>16,.6g} {change.median:+8.2%}  ({change.low:+.2%} … {change.high:+.2%})"
            + (f"  more than {LIMIT:.0%}" if beyond else "")
        )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument("--against", default="HEAD^", help="the commit to compare with (HEAD^)")
    parser.add_argument("--time", action="store_true", help="processor time, not instructions")
    options = parser.parse_args()
    if not options.time and shutil.which("valgrind") is None:
        print("valgrind is not installed (Debian: apt-get install valgrind)", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        try:
            other = checkout(options.against, Path(name))
        except subprocess.CalledProcessError as error:
            print(f"{options.against} cannot be compared with: {error}", file=sys.stderr)
            return 2
        pairs = compared(other, options.time)
    unit = "seconds" if options.time else "instructions"
    print(f"{unit}, {options.against} and what is here over it")
    return 1 if grown(pairs) else 0


if __name__ == "__main__":
    sys.exit(main())
