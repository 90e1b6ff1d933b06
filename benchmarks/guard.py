"""Did this commit make an event, a step or the start of a program more expensive than another commit?

``python -m benchmarks.guard`` counts instructions with callgrind. These do not depend on what else the
machine does, so that both commits are counted side by side; ``--time`` compares processor time instead, in
pairs. The same program runs under either commit, so that only the package differs.

The row ``start-up`` is a whole run of few turns. Each of the others is what more turns of a loop add to it,
divided by their number: ``event`` and ``step`` in the program's own process, and ``collection`` in our
processes, which collect each event and put it into the summary.
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
"""The fraction by which a row may grow."""
EVENTS, STEPS = 50_000, 5_000
"""Turns of the two loops under callgrind."""
MORE = 10
"""With ``--time``, so many times as many turns, since a clock is less exact than a count."""
ROUNDS = 15
"""Pairs of runs with ``--time``."""
FEW = 200
"""Turns that every run makes, so that what only the first of them costs is in the row ``start-up`` alone."""


class RunCost(NamedTuple):
    """The cost of a run, in instructions or in seconds."""

    program: float
    """Of the program's own process."""
    all: float
    """Of the program's process and ours."""

    def per_turn_beyond(self, start: RunCost, turns: int) -> RunCost:
        """The cost of each of the ``turns`` that this run makes more than the run ``start``."""
        return RunCost(*((more - less) / turns for more, less in zip(self, start, strict=True)))


Count = Callable[[Path, int, int], RunCost]
"""``count(root, events, steps)`` runs the program with the package in the checkout ``root``."""


def checkout(revision: str, folder: Path) -> Path:
    """Check ``revision`` out into ``folder`` and compile it. Raises CalledProcessError if there is none."""
    root = folder / "other"
    root.mkdir()
    archive = subprocess.run(
        ["git", "archive", revision], cwd=HOME, check=True, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "-x"], cwd=root, check=True, input=archive.stdout)
    # Either commit with the compiled part of its own, as another one may not fit its Python code.
    build = (
        "from pathlib import Path; import hatch_build as h; root = Path('.').resolve(); "
        "made = h.compiled(root, root / 'built'); h.replace(made, root / h.NATIVE / '..' / made.name)"
    )
    subprocess.run([sys.executable, "-c", build], cwd=root, check=True, stdout=subprocess.DEVNULL)
    return root


def command(folder: Path, events: int, steps: int) -> list[str]:
    """The command of the run that is measured, with so many turns of each loop."""
    options = ["--quiet", "--no-monitor", "--strict", "--runs", str(folder)]
    options += ["--voirfile", str(VOIRFILES / "guarded.py")]
    program = [str(PROGRAMS / "guarded.py"), str(events), str(steps)]
    return [sys.executable, "-m", "injector", "run", *options, *program]


def environment(root: Path) -> dict[str, str]:
    """An environment with the package in ``root``, in which sets have the same order in every run."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "INJECT", "VOIR"))}
    return {**kept, "PYTHONPATH": str(root), "PYTHONHASHSEED": "0"}


def instructions(root: Path, events: int, steps: int) -> RunCost:
    """The instructions of a run. Raises ProgramFailed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        valgrind = ["valgrind", "--tool=callgrind", "--trace-children=yes"]
        valgrind += [f"--callgrind-out-file={folder}/count.%p"]
        words = [*valgrind, *command(folder / "runs", events, steps)]
        _run([*same_addresses(), *words], root, folder)
        # callgrind writes a file for each process; those of ours have the command's words.
        counts = {file: executed(file) for file in folder.glob("count.*")}
        program = (count for file, count in counts.items() if "-m injector" not in command_of(file))
        return RunCost(sum(program), sum(counts.values()))


def seconds(root: Path, events: int, steps: int) -> RunCost:
    """The processor time of a run in seconds; the program prints its own. Raises ProgramFailed."""
    with tempfile.TemporaryDirectory() as name:
        before = os.times()
        printed = _run(command(Path(name) / "runs", events, steps), root, Path(name))
        after = os.times()
    return RunCost(float(printed), (after[2] - before[2]) + (after[3] - before[3]))


def _run(words: list[str], root: Path, folder: Path) -> str:
    """Run a command and return what it prints. Raises ProgramFailed."""
    done = subprocess.run(
        words, cwd=folder, env=environment(root), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ProgramFailed(f"{' '.join(words)}: {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def rows(root: Path, count: Count, more: int = 1) -> dict[str, float]:
    """The cost of each row with the package in ``root``; ``more`` multiplies the turns."""
    # A first run fills the caches of bytecode and of rewritten code, for all others.
    with tempfile.TemporaryDirectory() as name:
        _run(command(Path(name) / "runs", FEW, FEW), root, Path(name))
    start = count(root, FEW, FEW)
    event = count(root, FEW + more * EVENTS, FEW).per_turn_beyond(start, more * EVENTS)
    step = count(root, FEW, FEW + more * STEPS).per_turn_beyond(start, more * STEPS)
    return {
        "start-up": start.all,
        "event": event.program,
        "step": step.program,
        "collection": event.all - event.program,
    }


def compared(other: Path, by_time: bool) -> dict[str, list[tuple[float, float]]]:
    """Pairs of costs of each row, with the package in ``other`` and with that of this checkout.

    Instructions are counted once, of both at the same time. Times are taken one after the other, several
    times.
    """
    count, rounds, more = (seconds, ROUNDS, MORE) if by_time else (instructions, 1, 1)
    pairs: dict[str, list[tuple[float, float]]] = {}
    with ThreadPoolExecutor(1 if by_time else 2) as threads:
        for number in range(rounds):
            # In turns, so that a machine that becomes slower is not the fault of one of them.
            order = (other, HOME) if number % 2 else (HOME, other)
            costs = threads.map(lambda root: rows(root, count, more), order)
            cost_of = dict(zip(order, costs, strict=True))
            for row in cost_of[HOME]:
                pairs.setdefault(row, []).append((cost_of[other][row], cost_of[HOME][row]))
    return pairs


def grown(pairs: dict[str, list[tuple[float, float]]]) -> list[str]:
    """Print the change of each row, and return the names of rows that have grown beyond the limit.

    With several pairs, the whole confidence interval of the median has to be beyond it.
    """
    names = []
    for name, costs in pairs.items():
        base = spread([before for before, _ in costs]).median
        change = spread([difference / base for difference in differences(costs)])
        beyond = change.low > LIMIT
        names += [name] * beyond
        print(
            f"{name:11}{base:>16,.6g} {change.median:+8.2%}  ({change.low:+.2%} … {change.high:+.2%})"
            + (f"  more than {LIMIT:.0%}" if beyond else "")
        )
    return names


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
