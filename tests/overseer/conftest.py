"""A program, a voirfile, and what a real run of the two leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import whole_tree
from search_path import search_path
from spans import read_sites

from injector.store import spans


class Run:
    """One finished `inject run`."""

    def __init__(self, done: subprocess.CompletedProcess[str], runs: Path) -> None:
        self.exit = done.returncode
        self.out = done.stdout
        self.err = done.stderr
        folders = sorted(runs.glob("*")) if runs.exists() else []
        self.folder = folders[-1] if folders else None

    @property
    def record(self) -> dict:
        return json.loads((self.folder / "run.json").read_text())

    def events(self, name: str) -> list[dict]:
        [file] = self.folder.glob("*.data")
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        return [line["data"] for line in lines if line["event"] == name]

    @property
    def sites(self) -> dict[tuple[str, int], dict]:
        """What was told of sites, by log and number."""
        return {
            (log.name[:-4], n): site
            for log in self.logs
            for n, site in read_sites(str(log)).items()
        }

    @property
    def logs(self) -> list[Path]:
        return sorted((self.folder / "raw").glob("*.log"))

    def rows(self, region: str | None = None) -> list[tuple[int, int, int, dict]]:
        """Start, end, payload and site of each span, of all processes, by their ends."""
        sites = self.sites
        found = [
            (start, end, payload, sites[path.name[:-6], site])
            for path in sorted((self.folder / "raw").glob("*.spans"))
            for start, end, payload, site in spans.read(str(path))
        ]
        found = [row for row in found if region in (None, row[3]["region"])]
        return sorted(found, key=lambda row: row[1])

    def spans(self, region: str) -> list[tuple[int, int, int]]:
        """Start, end and payload of the spans of one region."""
        return [row[:3] for row in self.rows(region)]

    @property
    def fired(self) -> dict[str, int]:
        return {probe["selector"]: probe["fired"] for probe in self.record["probes"]}


@pytest.fixture
def inject(tmp_path):
    """Run a program (text) with a voirfile (text) and give the finished :class:`Run`."""

    def run(program, voirfile=None, *options, args=(), files=None, env=None, timeout=120):
        for name, text in {"main.py": program, "x.py": voirfile, **(files or {})}.items():
            if text is not None:
                path = tmp_path / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(textwrap.dedent(text))
        command = [sys.executable, "-m", "injector", "run", "--runs", str(tmp_path / "runs")]
        command += ["--voirfile", "x.py"] if voirfile is not None else []
        command += [*options, "main.py", *args]
        done = whole_tree.run(
            command,
            cwd=tmp_path,
            timeout=timeout,
            env={**os.environ, "PYTHONPATH": search_path(), **(env or {})},
        )
        return Run(done, tmp_path / "runs")

    return run
