"""What a run comes to, in its ``run.json``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
def train(at):
    return at

for at in range(10):
    train(at)
"""
VOIRFILE = """
def instrument_all(ov):
    ov.step("//train", items=4)
"""


def test_a_run_knows_its_verdict_and_figures(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "x.py").write_text(VOIRFILE)
    words = ["run", "--quiet", "--runs", "runs", "--voirfile", "x.py", "train.py"]
    command = [sys.executable, "-m", "injector", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    [folder] = os.listdir(tmp_path / "runs")
    info = json.loads((tmp_path / "runs" / folder / "run.json").read_text())
    assert next(iter(info)) == "schema"
    assert set(info["verdict"]) == {"kind", "severity", "sentence"}
    [loop] = info["training"]
    assert (loop["task"], loop["ranks"], loop["steps"]) == ("train", 1, 10)
    assert loop["items_per_second"] > loop["steps_per_second"] > 0
    assert loop["tokens_per_second"] is None


def test_steps_without_parts_are_not_judged(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "x.py").write_text(VOIRFILE)
    words = ["run", "--runs", "runs", "--voirfile", "x.py", "train.py"]
    command = [sys.executable, "-m", "injector", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "nothing was recorded inside of it" in " ".join(done.stderr.split())
