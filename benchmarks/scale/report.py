"""What the report of a job with many ranks costs, from its spans to the text for a terminal."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from .live import cost_of


def main(ranks: int, steps: int) -> None:
    """Write a synthetic run with ``steps`` on each of ``ranks``, and print what its report costs."""
    from large_run import write_large_run

    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        write_large_run(run, steps, ranks)
        cost = cost_of(
            [sys.executable, "-m", "injector", "report", str(run), "-o", f"{folder}/report.txt"]
        )
    print("| ranks | steps of each | report, CPU | wall | memory |")
    print("|---|---|---|---|---|")
    print(f"| {ranks} | {steps} | {cost.cpu:.1f} s | {cost.wall:.1f} s | {cost.memory:.0f} MB |")
