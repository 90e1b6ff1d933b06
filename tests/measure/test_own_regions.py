"""A program that names its own regions, and uses nothing else that we know."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import injector

@injector.region("forward")
def forward(at):
    return at

for at in range(5):
    with injector.region("step"):
        forward(at)
"""


@pytest.mark.parametrize("options", [(), ("--no-auto",)])
def test_they_are_recorded(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "own.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "injector", "run", "--runs", "runs", *options, "own.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [log] = tmp_path.glob("runs/*/raw/*.log")
    records = [
        json.loads(line.strip(b"\0")) for line in log.read_bytes().splitlines() if line.strip(b"\0")
    ]
    sites = [record["data"]["region"] for record in records if record["event"] == "site"]
    assert sorted(sites) == ["forward", "step"]
    [info] = tmp_path.glob("runs/*/run.json")
    [loop] = json.loads(info.read_text())["training"]
    assert loop["steps"] == 5


def test_without_inject_they_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PROGRAM)
    subprocess.run([sys.executable, "own.py"], cwd=tmp_path, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.py"]
