"""Instructions that ``inject run`` adds to a step of PyTorch, a round of LightGBM, a trial of Optuna.

``python -m benchmarks.overhead.counted`` runs ``programs/train_counted.py`` (or with ``--of`` another
program) with callgrind, under python and under ``inject run``, and counts the instructions of a step, which
do not depend on what else the machine does. The program itself starts and ends the counting around its loop,
by a small library that is compiled here; so valgrind with its headers and a C compiler are needed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .processes import ProgramFailed, executed, same_addresses
from .tools import HOME, PROGRAMS, VOIRFILES

STEPS = 400
PARTS = {
    "step": ("train_counted.py", STEPS),
    "round": ("boost_counted.py", 20),
    "trial": ("trials_counted.py", 100),
}
"""What can be counted: the program, and how many steps, rounds or trials it makes."""
GOALS = {"no option": 8000, "ov.loader": 1600, "ov.value": 800}
"""Instructions that each way may add to a step: about 5, 1 and 0.5 µs."""
_LIBRARY = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(void) { CALLGRIND_STOP_INSTRUMENTATION; CALLGRIND_DUMP_STATS; }
"""
_INJECT = ["-m", "injector", "run", "--quiet", "--no-monitor", "--strict"]


def library(folder: Path) -> Path:
    """Compile the library that starts and ends the counting, and return its path.

    Raises CalledProcessError, and FileNotFoundError if there is no compiler.
    """
    file = folder / "counting.so"
    words = ["cc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", str(file)]
    subprocess.run(words, input=_LIBRARY, text=True, check=True)
    return file


def ways(folder: Path, part: str = "step") -> dict[str, list[str]]:
    """The ways of running a program by their names: for each, the words before those of the program."""
    inject = [*_INJECT, "--runs", str(folder / "runs")]
    if part != "step":
        return {"python": [], "no option": inject}
    return {
        "python": [],
        "no option": inject,
        "ov.loader": [*inject, "--no-auto", "--voirfile", str(VOIRFILES / "loop.py")],
        "ov.value": [*inject, "--no-auto", "--voirfile", str(VOIRFILES / "loss.py")],
    }


def count(
    words: list[str], counting: Path, steps: int, kept: Path | None = None, part: str = "step"
) -> float:
    """The instructions of one of ``steps``. Raises ProgramFailed.

    ``words`` are those of a way, ``counting`` is the compiled library, and ``kept`` gets callgrind's profile.
    """
    with tempfile.TemporaryDirectory() as name:
        valgrind = ["valgrind", "-q", "--tool=callgrind", "--trace-children=yes"]
        valgrind += ["--instr-atstart=no", f"--callgrind-out-file={name}/count.%p"]
        program = [str(PROGRAMS / PARTS[part][0]), str(counting), str(steps)]
        command = [*same_addresses(), *valgrind, sys.executable, *words, *program]
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("INJECT", "VOIR"))}
        environ |= {"PYTHONHASHSEED": "0", "PYTHONPATH": str(HOME)}
        done = subprocess.run(
            command, cwd=name, env=environ, capture_output=True, text=True, check=False
        )
        # There is a file for each process; only the one that makes the steps counts anything.
        totals = {file: executed(file) for file in Path(name).glob("count.*")}
        if done.returncode or not any(totals.values()):
            raise ProgramFailed(f"{' '.join(command)}: {done.returncode}\n{done.stderr[-2000:]}")
        if kept is not None:
            shutil.copyfile(max(totals, key=lambda file: totals[file]), kept)
        return max(totals.values()) / steps


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead.counted", description=__doc__
    )
    parser.add_argument("--of", choices=PARTS, default="step", help="what is counted (step)")
    parser.add_argument("--steps", type=int, help=f"how many of them (steps: {STEPS})")
    parser.add_argument(
        "--keep", type=Path, help="a folder for the profiles, which callgrind_annotate reads"
    )
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not installed (Debian: apt-get install valgrind)", file=sys.stderr)
        return 2
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        counting, plain = library(Path(name)), 0.0
        steps = options.steps or PARTS[options.of][1]
        for way, words in ways(Path(name), options.of).items():
            kept = None if options.keep is None else options.keep / f"{way.replace(' ', '-')}.out"
            instructions = count(words, counting, steps, kept, options.of)
            plain = plain or instructions  # the first way is python
            more = f"  goal {GOALS[way]:,}" if way in GOALS else ""
            if options.of != "step":
                more = f"{instructions / plain - 1:>+9.2%}"
            added = instructions - plain
            print(f"{way:10}{instructions:>14,.0f}{added:>+12,.0f}{more}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
