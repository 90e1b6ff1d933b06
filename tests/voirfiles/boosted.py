"""Runs a program of ``tests/programs/boosters``: what all of its processes recorded, together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from search_path import search_path
from trained import ROOT, Process, Span

from injector.analysis.study import Study
from injector.analysis.summary import summarise
from injector.store.folder import open_run

PROGRAMS = ROOT / "tests" / "programs" / "boosters"


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


def run(
    folder: Path,
    program: str,
    *args: str,
    timeout: float = 300,
    options: tuple[str, ...] = (),
    exits: int = 0,
) -> Boosted:
    """Run a program as it is, without a voirfile of its own, and check that nothing went wrong."""
    words = ["-m", "injector", "run", "--runs", "runs", *options]
    command = [sys.executable, "-W", "ignore", *words]
    path = search_path(os.environ.get("PYTHONPATH"))
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
    assert (found.exit, found.wrong()) == (exits, []), found.err
    return found


def studies(folder: Path) -> tuple[Study, ...]:
    """The hyper-parameter studies of the only run below ``folder``."""
    [run] = (folder / "runs").iterdir()
    found = summarise(open_run(str(run)))
    assert found.profile is not None and not found.problem
    return found.profile.studies


def inside(inner: list[Span], outer: list[Span]) -> bool:
    """Whether each of ``inner`` lies in one of ``outer``."""
    return all(any(one.holds(span) for one in outer) for span in inner)
