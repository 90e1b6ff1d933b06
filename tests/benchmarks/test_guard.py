"""The guard: what counts as grown, and a checkout that can be run."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from benchmarks import guard
from benchmarks.overhead.processes import command_of, executed


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


def test_a_row_is_what_more_turns_cost(monkeypatch):
    monkeypatch.setattr(guard, "FEW", 100)

    def costs(root, events, steps):
        own = 1000.0 + 3 * events + 7 * steps
        return guard.RunCost(own, own + 500 + 20 * events)

    assert guard.rows(guard.HOME, costs) == {
        "start-up": 4500.0,
        "event": 3.0,
        "step": 7.0,
        "collection": 20.0,
    }


def test_the_count_is_of_the_last_summary(tmp_path):
    file = tmp_path / "count.1"
    file.write_text("events: Ir\nsummary: 12\n\ntotals: 15\n")
    assert executed(file) == 15
    file.write_text("")
    assert executed(file) == 0
    assert command_of(file) == ""


def test_whose_count_it_is(tmp_path):
    file = tmp_path / "count.1"
    file.write_text("version: 1\npid: 8\ncmd:  python x.py 1 2\npart: 1\n\nevents: Ir\n")
    assert command_of(file) == "python x.py 1 2"


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
