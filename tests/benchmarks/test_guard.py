"""The guard: what counts as grown, and a checkout that can be run."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from benchmarks import guard


def test_a_row_has_grown_where_its_whole_interval_has(capsys):
    noisy = [(1.0, 1.0 + part) for part in (-0.3, 0.4, -0.2, 0.35, 0.3, -0.25, 0.1)]
    pairs = {
        "start-up": [(100.0, 104.0)],
        "event": [(100.0, 102.9)],
        "step": noisy,
    }
    assert guard.grown(pairs) == ["start-up"]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and "more than 3%" in lines[0]


def test_a_row_is_what_more_turns_cost():
    costs = lambda root, events, steps: 1000.0 + 3 * events + 7 * steps
    assert guard.rows(guard.HOME, costs) == {"start-up": 1000.0, "event": 3.0, "step": 7.0}


def test_the_count_is_of_the_last_summary():
    assert guard._total("events: Ir\nsummary: 12\n\ntotals: 15\n") == 15
    assert guard._total("") == 0


@pytest.mark.release
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_commit_is_no_more_expensive_than_itself():
    done = subprocess.run(
        [guard.sys.executable, "-m", "benchmarks.guard", "--against", "HEAD"],
        cwd=guard.HOME,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "step" in done.stdout
