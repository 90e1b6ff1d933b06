"""Whether this commit made an event, a step or the start of a program more expensive than another commit.

``python -m benchmarks.guard`` counts instructions with callgrind, which do not depend on what else the
machine does; ``--time`` compares processor time, in pairs. Both run the same program under either commit,
so that only the package differs. A row is what more turns of a loop take, divided by these turns.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from .overhead.processes import ProgramFailed
from .overhead.spread import differences, spread
from .overhead.tools import HOME, PROGRAMS, VOIRFILES

LIMIT = 0.03
"""The part by which a row may grow."""
EVENTS, STEPS = 200_000, 10_000
"""Turns of the loops under callgrind; on the clock, 5 times as many. Two counts of one run differed by
400 000 instructions: divided by these, by 2 an event and 40 a step."""
MORE = 5
ROUNDS = 15
FEW = 200
"""Turns that every run but the first makes: what happens once, at the first of them, is in no row."""
TURNS = {
    "start-up": (0, 0),
    "few": (FEW, FEW),
    "event": (FEW + EVENTS, FEW),
    "step": (FEW, FEW + STEPS),
}

Count = Callable[[Path, int, int], float]
"""``count(root, events, steps)``: what a run costs with the package of the checkout ``root``."""


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


def instructions(root: Path, events: int, steps: int) -> float:
    """Instructions of the command and of all its processes. Raises ProgramFailed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        valgrind = ["valgrind", "--tool=callgrind", "--trace-children=yes"]
        valgrind += [f"--callgrind-out-file={folder}/count.%p"]
        words = [*valgrind, *command(folder / "runs", events, steps)]
        if shutil.which("setarch"):  # else objects lie, and hash, elsewhere in each run
            words = ["setarch", "-R", *words]
        _run(words, root, folder)
        counts = [_total(file.read_text()) for file in folder.glob("count.*")]
    return float(sum(counts))


def _total(text: str) -> int:
    found = re.findall(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
    return int(found[-1]) if found else 0


def seconds(root: Path, events: int, steps: int) -> float:
    """Seconds of processor time of the command and of all its processes. Raises ProgramFailed."""
    with tempfile.TemporaryDirectory() as name:
        before = os.times()
        _run(command(Path(name) / "runs", events, steps), root, Path(name))
        after = os.times()
    return (after[2] - before[2]) + (after[3] - before[3])


def _run(words: list[str], root: Path, folder: Path) -> None:
    done = subprocess.run(
        words, cwd=folder, env=environment(root), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ProgramFailed(f"{' '.join(words)}: {done.returncode}\n{done.stderr[-2000:]}")


def rows(root: Path, count: Count, more: int = 1) -> dict[str, float]:
    """What the start, an event and a step cost with the package of ``root``."""
    costs = {
        name: count(root, more * events, more * steps) for name, (events, steps) in TURNS.items()
    }
    return {
        "start-up": costs["start-up"],
        "event": (costs["event"] - costs["few"]) / (more * EVENTS),
        "step": (costs["step"] - costs["few"]) / (more * STEPS),
    }


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
            f"{name:10}{base:>16,.6g} {change.median:+8.2%}  ({change.low:+.2%} … {change.high:+.2%})"
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
    count, rounds, more = (seconds, ROUNDS, MORE) if options.time else (instructions, 1, 1)
    pairs: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        try:
            other = checkout(options.against, Path(name))
        except subprocess.CalledProcessError as error:
            print(f"{options.against} cannot be compared with: {error}", file=sys.stderr)
            return 2
        for turn in range(rounds):
            order = (other, HOME) if turn % 2 else (HOME, other)
            taken = {root: rows(root, count, more) for root in order}
            for row in taken[HOME]:
                pairs.setdefault(row, []).append((taken[other][row], taken[HOME][row]))
    unit = "seconds" if options.time else "instructions"
    print(f"{unit}, {options.against} and what is here over it")
    return 1 if grown(pairs) else 0


if __name__ == "__main__":
    sys.exit(main())
