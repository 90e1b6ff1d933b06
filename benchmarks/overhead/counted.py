"""Instructions that ``inject run`` adds to a step of a small loop of PyTorch.

``python -m benchmarks.overhead.counted`` counts, with callgrind, the steps of ``programs/train_counted.py``
under python and under ``inject run``: they do not depend on what else the machine does. It needs valgrind
with its headers, and a C compiler.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .processes import ProgramFailed
from .tools import HOME, PROGRAMS, VOIRFILES

STEPS = 400
GOALS = {"no option": 8000, "ov.loader": 1600, "ov.value": 800}
"""Instructions a step: some 5, 1 and 0.5 µs."""
_LIBRARY = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(void) { CALLGRIND_STOP_INSTRUMENTATION; CALLGRIND_DUMP_STATS; }
"""
_INJECT = ["-m", "injector", "run", "--quiet", "--no-monitor", "--strict"]


def library(folder: Path) -> Path:
    """What begins and ends counting. Raises CalledProcessError, FileNotFoundError without a compiler."""
    made = folder / "counting.so"
    words = ["cc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", str(made)]
    subprocess.run(words, input=_LIBRARY, text=True, check=True)
    return made


def ways(folder: Path) -> dict[str, list[str]]:
    """What is counted, by name: the words before those of the program."""
    inject = [*_INJECT, "--runs", str(folder / "runs")]
    return {
        "python": [],
        "no option": inject,
        "ov.loader": [*inject, "--no-auto", "--voirfile", str(VOIRFILES / "loop.py")],
        "ov.value": [*inject, "--no-auto", "--voirfile", str(VOIRFILES / "loss.py")],
    }


def count(words: list[str], counting: Path, steps: int, kept: Path | None = None) -> float:
    """Instructions of a step. ``kept`` gets what callgrind wrote. Raises ProgramFailed."""
    with tempfile.TemporaryDirectory() as name:
        valgrind = ["valgrind", "-q", "--tool=callgrind", "--trace-children=yes"]
        valgrind += ["--instr-atstart=no", f"--callgrind-out-file={name}/count.%p"]
        program = [str(PROGRAMS / "train_counted.py"), str(counting), str(steps)]
        command = [*valgrind, sys.executable, *words, *program]
        if shutil.which("setarch"):  # else objects lie, and hash, elsewhere in each run
            command = ["setarch", "-R", *command]
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("INJECT", "VOIR"))}
        environ |= {"PYTHONHASHSEED": "0", "PYTHONPATH": str(HOME)}
        done = subprocess.run(
            command, cwd=name, env=environ, capture_output=True, text=True, check=False
        )
        totals = {file: _total(file) for file in Path(name).glob("count.*")}
        if done.returncode or not any(totals.values()):
            raise ProgramFailed(f"{' '.join(command)}: {done.returncode}\n{done.stderr[-2000:]}")
        if kept is not None:
            shutil.copyfile(max(totals, key=lambda file: totals[file]), kept)
        return max(totals.values()) / steps


def _total(file: Path) -> int:
    text = file.read_text(errors="replace")
    found = re.findall(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
    return max(map(int, found), default=0)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead.counted", description=__doc__
    )
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps to be counted ({STEPS})")
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
        counting, bare = library(Path(name)), 0.0
        for way, words in ways(Path(name)).items():
            kept = None if options.keep is None else options.keep / f"{way.replace(' ', '-')}.out"
            found = count(words, counting, options.steps, kept)
            bare = bare or found
            goal = f"  goal {GOALS[way]:,}" if way in GOALS else ""
            print(f"{way:10}{found:>12,.0f}{found - bare:>+12,.0f}{goal}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
