"""Runs a program of ``tests/programs/boosters``: what all of its processes recorded, together."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from spans import read_sites

from injector.store import series, spans

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "programs" / "boosters"


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
        self.spans = [*_spans(log)]
        self.values: dict[str, list[Any]] = {}
        for path in sorted(log.parent.glob(f"{log.stem}.*{series.SUFFIX}")):
            if path.name[: -len(series.SUFFIX)].rpartition(".")[0] != log.stem:
                continue  # of what this process became by exec
            name, values = series.read(str(path))
            self.values.setdefault(name, []).extend(value for _, value in values)
        for line in log.read_bytes().rstrip(b"\0").splitlines():
            record = json.loads(line)
            if record["event"] == "value":
                data = record["data"]
                self.values.setdefault(data["series"], []).append(data["value"])

    def of(self, region: str) -> list[Span]:
        return [span for span in self.spans if span.site["region"] == region]

    def within(self, whole: Span) -> Process:
        """What of it was recorded meanwhile; with all its values, which have no time here."""
        found = copy.copy(self)
        found.spans = [span for span in self.spans if whole.holds(span)]
        return found


class Boosted(NamedTuple):
    """A finished run."""

    exit: int
    out: str
    err: str
    record: dict[str, Any]
    processes: list[Process]

    def of(self, region: str) -> list[Span]:
        """The spans of a region, process by process, in order of their ends."""
        return [span for process in self.processes for span in process.of(region)]

    def part(self, name: str) -> Boosted:
        """Of a program that runs several parts one after the other: what was recorded in this one."""
        [whole] = self.of(f"part/{name}")
        return self._replace(processes=[process.within(whole) for process in self.processes])

    def printed(self, name: str) -> int:
        """The number that this part of the program has printed."""
        parts = sorted(
            (span for process in self.processes for span in process.spans), key=lambda s: s.end
        )
        names = [s.site["region"] for s in parts if s.site["region"].startswith("part/")]
        return int(self.out.splitlines()[names.index(f"part/{name}")])

    def items(self, region: str) -> list[int]:
        """What each span of a region says of its items, or bytes."""
        return [span.items for span in self.of(region)]

    def values(self, series: str) -> list[Any]:
        return [value for one in self.processes for value in one.values.get(series, [])]

    @property
    def series(self) -> set[str]:
        return {name for process in self.processes for name in process.values}

    def wrong(self) -> list[Any]:
        """What did not attach, or raised."""
        warnings = self.record.get("warnings", [])
        return [*self.record["misses"], *self.record["failures"], *warnings]


def run(folder: Path, program: str, *args: str, timeout: float = 300) -> Boosted:
    """Run a program as it is, without a voirfile of its own, and check that nothing went wrong."""
    command = [sys.executable, "-W", "ignore", "-m", "injector", "run", "--runs", "runs"]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(PROGRAMS / program), *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=env,
    )
    [run] = (folder / "runs").iterdir()
    record = json.loads((run / "run.json").read_text())
    logs = sorted((run / "raw").glob("*.log"))
    found = Boosted(done.returncode, done.stdout, done.stderr, record, [*map(Process, logs)])
    assert (found.exit, found.wrong()) == (0, []), found.err
    return found


def inside(inner: list[Span], outer: list[Span]) -> bool:
    """Whether each of ``inner`` lies in one of ``outer``."""
    return all(any(one.holds(span) for one in outer) for span in inner)


def needs(*libraries: str) -> None:
    """Skip a module or a test whose libraries are not installed; they are not imported here."""
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed", allow_module_level=True)


def _spans(log: Path) -> Any:
    path = log.with_suffix(".spans")
    if path.exists():
        sites = read_sites(str(log))
        for start, end, payload, number in spans.read(str(path)):
            site = sites[number]
            if site["payload"] != "bytes":
                payload &= (1 << 24) - 1
            yield Span(start, end, payload, site)
