"""The measurement of scale runs, small, and what it says is of the run that it made."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.scale import live, report

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "report")]


def test_a_simulated_job_is_watched_and_collected(capsys):
    live.main(nodes=3, ranks=2, seconds=20, monitors=True)
    first, shown, *costs = capsys.readouterr().out.splitlines()
    assert first.startswith("3 nodes, 6 ranks")
    assert shown == "shown last: 19 steps, 384 items/s, 6 ranks, 24 devices"
    assert [line.partition(":")[0] for line in costs] == ["watching", "collecting at the end"]


def test_the_report_of_many_ranks_is_made(capsys):
    report.main(ranks=4, steps=200)
    *_, row = capsys.readouterr().out.splitlines()
    assert row.startswith("| 4 | 200 | ") and row.endswith(" MB |")
