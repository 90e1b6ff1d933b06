"""Runs a program on some library and reads what each of its processes recorded."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from search_path import search_path

from injector.analysis.profiling import profile
from injector.analysis.summary import summarise
from injector.store import series
from injector.store.folder import open_run

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "programs"
HEADER = 1024


class Span(NamedTuple):
    """One call, with what its site says; ``items`` are bytes where it says so."""

    start: int
    end: int
    items: int
    site: dict[str, Any]

    def holds(self, other: Span) -> bool:
        return self.start <= other.start and other.end <= self.end


class Process:
    """What one process recorded."""

    def __init__(self, log: Path) -> None:
        records = [json.loads(line) for line in _lines(log)]
        self.events = [(record["event"], record["data"]) for record in records]
        self.pid = next((data["pid"] for name, data in self.events if name == "process"), None)
        sites = {data["site"]: data for name, data in self.events if name == "site"}
        self.spans = list(_spans(log.with_suffix(".spans"), sites))
        self._timed = _values(log, records)
        self.values = _untimed(self._timed)

    def plans(self) -> list[dict[str, int | None]]:
        """What trainers said is to come: epochs, steps."""
        return [data for name, data in self.events if name == "ahead" and "of" not in data]

    def of(self, region: str, phase: str | None = None) -> list[Span]:
        """The spans of a region, on the host's clock, in order of their ends."""
        return [
            span
            for span in self.spans
            if span.site["region"] == region
            and span.site["clock"] == "host"
            and (phase is None or span.site["phase"] == phase)
        ]

    def within(self, whole: Span) -> Process:
        """What of it was recorded meanwhile."""
        found = copy.copy(self)
        found.spans = [span for span in self.spans if whole.holds(span)]
        found.values = _untimed(
            {
                name: [(t, value) for t, value in values if whole.start <= t <= whole.end]
                for name, values in self._timed.items()
            }
        )
        return found

    @property
    def rank(self) -> int:
        """The last one it learned; 0 without any."""
        known = [data.get("rank") for name, data in self.events if name in ("process", "rank")]
        return next((rank for rank in reversed(known) if rank is not None), 0)


class Recorded:
    """A finished run: its processes that have spans, by rank, and what each rank wrote itself."""

    def __init__(self, folder: Path, done: subprocess.CompletedProcess[str]) -> None:
        self.exit = done.returncode
        self.err = done.stderr
        [run] = (folder / "runs").iterdir()
        self.folder = run
        self.record = json.loads((run / "run.json").read_text())
        found = [Process(log) for log in sorted((run / "raw").glob("*.log"))]
        self.all = found
        self.processes = {process.rank: process for process in found if process.of("optimizer")}
        self.reported = {
            int(path.name.split(".")[1]): json.loads(path.read_text())
            for path in folder.glob("reported.*.json")
        }

    def steps(self) -> list[list[int]]:
        """Of each training loop that the analysis finds, the longest first: each rank's steps."""
        found = profile(open_run(str(self.folder)))
        assert found is not None
        return [[track.steps for track in loop.ranks] for loop in found.loops]

    def epochs(self) -> list[list[float]]:
        """Of each epoch of the longest loop, as its report has it: steps and items."""
        found = summarise(open_run(str(self.folder))).profile
        assert found is not None
        return [[each.steps, each.items or 0.0] for each in found.loops[0].epochs]

    def wrong(self) -> list[Any]:
        """What was asked for and not found, or raised."""
        missed = [
            data
            for process in self.processes.values()
            for name, data in process.events
            if name == "auto-missed"
        ]
        return [*self.record["misses"], *self.record["failures"], *missed]


def run(folder: Path, program: str, *args: str, options: tuple[str, ...] = ()) -> Recorded:
    """Run a program of ``tests/programs``, or ``-m`` one, in ``folder`` with automatic voirfiles."""
    words = [program, *args]
    words = [str(PROGRAMS / word) if word.endswith(".py") else word for word in words]
    command = [sys.executable, "-m", "injector", "run", "--runs", "runs", *options, *words]
    path = search_path(os.environ.get("PYTHONPATH"))
    env = {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=env)
    return Recorded(folder, done)


def on_two(program: str, *args: str) -> tuple[str, ...]:
    """The words that run a program as two ranks on this machine, on a port that is free."""
    two = ("--standalone", "--nproc-per-node", "2")
    return ("-m", "torch.distributed.run", *two, program, *args)


def _lines(log: Path) -> list[str]:
    return log.read_bytes().rstrip(b"\0").decode().splitlines()


def _spans(path: Path, sites: dict[int, dict[str, Any]]) -> Any:
    if path.exists():
        for start, end, payload, site in struct.iter_unpack("=4q", path.read_bytes()[HEADER:]):
            if site:
                if sites[site].get("payload") != "bytes":
                    payload &= (1 << 24) - 1
                yield Span(start, end, payload, sites[site])


def _untimed(timed: dict[str, list[tuple[float, Any]]]) -> dict[str, list[Any]]:
    return {name: [value for _, value in values] for name, values in timed.items() if values}


def _values(log: Path, records: list[dict[str, Any]]) -> dict[str, list[tuple[float, Any]]]:
    """Times in ns and values, by series, in order: those in files of their own, those in the log."""
    found: dict[str, list[tuple[float, Any]]] = {}
    for path in sorted(log.parent.glob(f"{log.stem}.*{series.SUFFIX}")):
        if path.name[: -len(series.SUFFIX)].rpartition(".")[0] != log.stem:
            continue  # of what this process became by exec
        name, values = series.read(str(path))
        found.setdefault(name, []).extend((1e9 * t, value) for t, value in values)
    for record in records:
        if record["event"] == "value":
            data = record["data"]
            found.setdefault(data["series"], []).append((record["t"], data["value"]))
    return found


def needs(*libraries: str) -> None:
    """Skip a module whose libraries are not installed; they are not imported into this process."""
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed", allow_module_level=True)
