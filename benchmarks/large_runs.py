"""``python -m benchmarks.large_runs``: what a report of a run with many steps costs, by its form.

The run is written once, as eight ranks of a training loop. Each form of the report is made in a process of
its own, several times in turns; the table has the least wall time, CPU time and memory of each. With ``--logs
N``, it is ``inject ingest`` of N logs instead, as the Deep Learning Benchmarking Suite writes them.
"""

from __future__ import annotations

import argparse
import itertools
import json
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
    """Wall time, CPU time (seconds) and peak memory (MB) of a process. Raises CalledProcessError."""
    # With bytecode, as an installed package has it.
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    child = subprocess.Popen(words, env=kept)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, list(words))
    took = time.perf_counter() - began
    return took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def write_logs(folder: Path, number: int) -> None:
    """Write logs of 400 lines and 100 batch times in milliseconds, of 3 frameworks on 1, 2 and 4 devices."""
    sweep = list(itertools.product(("mxnet", "tensorflow", "caffe2"), (1, 2, 4)))
    for index in range(number):
        repeat, (framework, devices) = index // len(sweep), sweep[index % len(sweep)]
        times = [900.0 + (37 * at + repeat) % 50 for at in range(100)]
        parameters = {
            "exp.framework": framework, "exp.model": "resnet50", "exp.phase": "training",
            "exp.gpus": ",".join(map(str, range(devices))), "exp.num_gpus": devices,
            "exp.replica_batch": 16, "exp.effective_batch": 16 * devices, "exp.num_batches": 100,
            "exp.id": f"{framework}{devices}.{repeat}", "exp.status": "ok",
            "results.time": sum(times) / len(times), "results.time_data": times,
        }  # fmt: skip
        lines = [f"INFO iteration {at} speed 17.3 images/sec loss 6.9" for at in range(400)]
        lines += [f"__{key}__= {json.dumps(value)}" for key, value in parameters.items()]
        path = folder / str(repeat) / framework / f"resnet50_{devices}_{16 * devices}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


def ingested(number: int, repeats: int) -> str:
    """A line that says what reading ``number`` logs costs."""
    with tempfile.TemporaryDirectory() as folder:
        write_logs(Path(folder, "logs"), number)
        words = [sys.executable, "-m", "injector", "ingest", f"{folder}/logs", "--into"]
        rows = [measured([*words, f"{folder}/runs{turn}"]) for turn in range(repeats)]
    wall, cpu, memory = map(min, zip(*rows, strict=True))
    return f"{number} logs: {wall:.2f} s, CPU {cpu:.2f} s, {memory:.0f} MB"


def main() -> None:
    """Print the table of docs/benchmarks.md."""
    from large_run import write_large_run

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="of all ranks together")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--logs", type=int, help="ingest so many logs instead")
    options = parser.parse_args()
    if options.logs:
        print(ingested(options.logs, options.repeats))
        return
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        write_large_run(run, options.steps // options.ranks, options.ranks)
        costs: dict[str, list[tuple[float, float, float]]] = {form: [] for form in FORMS}
        for _ in range(options.repeats):
            for form in FORMS:
                target = f"{folder}/report.{form}"
                words = [sys.executable, "-m", "injector", "report", str(run), "-o", target]
                costs[form].append(measured([*words, "--format", form]))
        print(f"| {options.steps} steps, {options.ranks} ranks | wall | CPU | memory | file |")
        print("|---|---|---|---|---|")
        for form, rows in costs.items():
            wall, cpu, memory = map(min, zip(*rows, strict=True))
            size = os.path.getsize(f"{folder}/report.{form}") / 1e6
            print(f"| {form} | {wall:.2f} s | {cpu:.2f} s | {memory:.0f} MB | {size:.2f} MB |")


if __name__ == "__main__":
    main()
