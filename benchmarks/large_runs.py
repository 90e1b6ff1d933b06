"""``python -m benchmarks.large_runs``: what reading a run of many steps costs, by form.

Each form is read in a process of its own, several times in turn; the table has the least wall and CPU time
of each, seconds, and the most memory, MB. The run is written once, as eight ranks of a training loop.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path += [str(TESTS), str(TESTS / "report")]
FORMS = ("terminal", "html", "json")


def measured(words: Sequence[str]) -> tuple[float, float, float]:
    """Wall and CPU time, seconds, and most memory, MB, of one process. Raises CalledProcessError."""
    began = time.perf_counter()
    child = subprocess.Popen(words)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, list(words))
    took = time.perf_counter() - began
    return took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def main() -> None:
    """Print the table of docs/benchmarks.md."""
    from large_run import write_large_run

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="of all ranks together")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        write_large_run(run, options.steps // options.ranks, options.ranks)
        found: dict[str, list[tuple[float, float, float]]] = {form: [] for form in FORMS}
        for _ in range(options.repeats):
            for form in FORMS:
                target = f"{folder}/report.{form}"
                words = [sys.executable, "-m", "injector", "report", str(run), "-o", target]
                found[form].append(measured([*words, "--format", form]))
        print(f"| {options.steps} steps, {options.ranks} ranks | wall | CPU | memory | file |")
        print("|---|---|---|---|---|")
        for form, rows in found.items():
            wall, cpu, memory = map(min, zip(*rows, strict=True))
            size = os.path.getsize(f"{folder}/report.{form}") / 1e6
            print(f"| {form} | {wall:.2f} s | {cpu:.2f} s | {memory:.0f} MB | {size:.2f} MB |")


if __name__ == "__main__":
    main()
