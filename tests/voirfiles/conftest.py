"""Programs under ``inject run`` with nothing but the shipped voirfiles."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from search_path import search_path

# Helpers beside the tests; pytest's importlib mode leaves sys.path alone.
sys.path.insert(0, str(Path(__file__).parent))

import recorded


class Run:
    """One finished ``inject run``."""

    def __init__(self, done: subprocess.CompletedProcess[str], runs: Path) -> None:
        self.exit, self.out, self.err = done.returncode, done.stdout, done.stderr
        folders = sorted(runs.glob("*"), key=lambda path: path.stat().st_mtime)
        self.folder = folders[-1] if folders else None

    @property
    def info(self) -> dict:
        import json

        return json.loads((self.folder / "run.json").read_text())

    @property
    def processes(self) -> list[recorded.Process]:
        assert self.folder is not None, self.err
        return recorded.processes(self.folder)

    @property
    def only(self) -> recorded.Process:
        [process] = [process for process in self.processes if process.spans]
        return process


@pytest.fixture
def run(tmp_path):
    """Run a program (text) with options of ours before it, and give the finished :class:`Run`."""

    def start(program, *options, before=(), after=(), files=None, env=None, check=True):
        for name, text in {"main.py": program, **(files or {})}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(textwrap.dedent(text))
        command = [sys.executable, "-m", "injector", "run", "--runs", str(tmp_path / "runs")]
        done = subprocess.run(
            [*command, *options, *before, "main.py", *after],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "PYTHONPATH": search_path(), "OMP_NUM_THREADS": "1", **(env or {})},
        )
        if check:
            assert done.returncode == 0, done.stderr
        return Run(done, tmp_path / "runs")

    return start
